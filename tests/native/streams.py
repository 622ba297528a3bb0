"""What the tests of compiled streams share: a stream is compared with scoring the whole sequence by a scan."""

import jax
import numpy as np

import hiddenstate as hs
from hiddenstate.core import dtype_of, own
from hiddenstate.inference import final_states

STEPS = 200
PRECISIONS = ("float32", "float64")
TOLERANCE = {"float32": 2e-3, "float64": 1e-9}
"""Of sums over all steps; a recurrent network carries every rounding on."""


def check(model, xs, inputs=None):
    """A stream gives at every step what the whole sequence gives: log-probabilities, states, predictions."""
    data = hs.Sequences.padded(np.asarray(xs)[None], inputs=None if inputs is None else inputs[None])
    precision = str(dtype_of(model))
    expected = np.asarray(hs.step_log_probs(model, data, strategy=hs.Sequential())[0], float)
    stream = hs.Stream(model)
    found, total = [], 0.0
    for t, x in enumerate(xs):
        stream.push(x if np.ndim(x) else x.item(), None if inputs is None else inputs[t])
        found.append(stream.last_log_prob)
        total += stream.last_log_prob
    close(found, expected, precision)
    assert stream.log_prob == total and stream.steps == len(xs)
    last = jax.tree.map(lambda a: a[0], final_states(model, data, strategy=hs.Sequential()))
    assert jax.tree.structure(stream.state) == jax.tree.structure(last)
    for a, b in zip(jax.tree.leaves(stream.state), jax.tree.leaves(last), strict=True):
        assert isinstance(a, jax.Array) and a.dtype == b.dtype == precision
        close(a, b, precision)
    first = None if inputs is None else np.asarray(inputs[0], precision)
    close(stream.predictive(first).log_prob(xs[0]), model.readout(last, first).log_prob(xs[0]), precision)


def close(found, expected, precision):
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))
    there = np.isfinite(expected)
    scale = 1 + np.abs(expected[there]).max(initial=0)
    np.testing.assert_allclose(found[there], expected[there], rtol=0, atol=TOLERANCE[precision] * scale)


def is_compiled(model):
    try:
        own(model, "streamer")
    except AttributeError:
        return False
    return True
