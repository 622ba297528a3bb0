"""Hidden Markov models of few states, whose kernels take sequences side by side: none depends on its neighbours."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.native import hmm
from hiddenstate.ops.simplex import safe_log
from marks import quick
from native.kernels import each_instruction_set, needs_kernels
from native.test_hmm import distributions, each_precision, example

ALIKE = [40] * 16 + [33, 40, 39, 17, 0, 1, 40, 40, 16, 32, 40, 38, 31, 40, 40, 40] + [40] * 7 + [12]
"""Whole vectors of sequences, such with ragged ends, and too few for a vector."""
LONG = [600] * 17 + [511, 512, 513, 256, 257, 255, 600, 0, 599, 1, 530, 600, 600, 600, 600, 300] + [600] * 11
"""The way back sums over pieces of time, and sequences begin within any of them; the last vector is not full."""


def unlikely(matrix, belief, seen, random):
    """Observations that the first state explains far better than others, though it cannot be: beside it they vanish."""
    matrix, belief, seen = matrix.copy(), belief.copy(), seen.copy()
    if len(belief) > 1:
        matrix[:, 0] = belief[0] = 0
        matrix[:, -1] += 0.1
        belief[-1] += 0.1
    seen[random.random(seen.shape[:2]) < 0.2, 0] += 2000
    return matrix / matrix.sum(1, keepdims=True), belief / belief.sum(), seen


def answers(matrix, belief, seen, valid, weights):
    """All that kernels give of one sequence, and the derivatives of what weights make of it."""
    d_evidence, d_final, d_predicted, d_filtered = weights
    passed = hmm.forward(matrix, belief, seen, valid, predicted=True, filtered=True)
    scored = jax.vjp(lambda *given: hmm.forward(*given, valid)[:2], matrix, belief, seen)[1]
    on_the_way = jax.vjp(
        lambda *given: hmm.forward(*given, valid, predicted=True, filtered=True)[4:], matrix, belief, seen
    )[1]
    return {
        "forward": (passed, hmm.forward(matrix, belief, seen, valid)[:4]),
        "smooth": hmm.smooth(matrix, seen, passed, valid),
        "slopes": (scored((d_evidence, d_final)), on_the_way((d_predicted, d_filtered))),
        "path": hmm.best_path(safe_log(matrix), safe_log(belief), seen, valid),
    }


@needs_kernels
@each_instruction_set
@each_precision
@pytest.mark.parametrize("states", quick((5, 8, 1, 3, 2, 4, 6, 7), count=4))
@pytest.mark.parametrize(("lengths", "kind"), [(ALIKE, "zeros"), (ALIKE, "unlikely"), (LONG, "plain")])
def test_a_sequence_in_a_lane_is_as_alone(instructions, precision, states, lengths, kind):
    random = np.random.default_rng(states)
    matrix, belief, seen, valid = example(states, lengths, kind == "zeros", states)
    if kind == "unlikely":
        matrix, belief, seen = unlikely(distributions(random, True, states, states), belief, seen, random)
    weights = [random.normal(size=(len(lengths), *shape)) for shape in ((seen.shape[1],), (states,))]
    weights += [random.normal(size=seen.shape), random.normal(size=seen.shape)]
    matrix, belief, seen, *weights = (jnp.asarray(a, precision) for a in (matrix, belief, seen, *weights))
    every = jax.jit(jax.vmap(answers, (None, None, 0, 0, 0)))
    found = []
    for threads in (1, 2):
        with hs.native.limited(instructions=instructions, threads=threads):
            found.append(jax.tree.map(np.asarray, every(matrix, belief, seen, valid, weights)))
    with hs.native.limited(instructions=instructions, threads=1):
        one = lambda i: [a[i : i + 1] for a in (seen, valid)] + [[w[i : i + 1] for w in weights]]  # noqa: E731
        alone = [jax.tree.map(np.asarray, every(matrix, belief, *one(i))) for i in range(len(lengths))]
    alone = jax.tree.map(lambda *each: np.concatenate(each), *alone)
    for name in alone:
        for together in found:
            jax.tree.map(np.testing.assert_array_equal, together[name], alone[name])
