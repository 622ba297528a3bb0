"""Every kind of head inside a network: scores, predictions, forecasts and streams agree."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.inference import step_log_probs

HIDDEN = 4
KEY = jr.key(2)


def _record():
    heads = hs.heads
    return heads.Columns(
        {
            "sky": heads.Categorical(HIDDEN, 3, key=KEY),
            "wind": heads.Gaussian(HIDDEN, 2, "full", location=[5.0, 0.0], key=KEY),
            "visits": heads.NegativeBinomial(HIDDEN, None, rate=4.0, key=KEY),
        }
    )


HEADS = {
    "mixed symbols": lambda: hs.heads.Mixture(hs.heads.Categorical(HIDDEN, 3, key=KEY), 2, key=KEY),
    "bits": lambda: hs.heads.Bernoulli(HIDDEN, 2, key=KEY),
    "reals": lambda: hs.heads.Gaussian(HIDDEN, None, location=900.0, scale=100.0, key=KEY),
    "mixed records": lambda: hs.heads.Mixture(_record(), 2, key=KEY),
}


def network(name):
    head = HEADS[name]()
    model = hs.RNN(hs.cells.Vanilla(head.encoded_size, HIDDEN, key=KEY), head)
    return hs.cast(model, jnp.float32)  # with 64-bit types allowed, so that a wrong type shows


@pytest.fixture(scope="module", params=HEADS)
def drawn(request):
    model = network(request.param)
    return model, hs.sample(model, 5, key=jr.key(3), n=3)


def test_scores_are_those_of_the_predictive(drawn):
    model, data = drawn
    predictive = hs.predictive(model, data)
    assert predictive.batch_shape == (3, 5) and predictive.event_shape == data.event_shape
    expected = step_log_probs(model, data)
    assert expected.dtype == jnp.float32
    got = eqx.filter_jit(lambda d, x: d.log_prob(x))(predictive, jnp.asarray(data.values))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)  # two orders of float32 sums


def test_a_forecast_has_means_or_probabilities(drawn):
    model, data = drawn
    forecast = hs.forecast(model, data, 2, key=jr.key(4), n=6)
    assert forecast.samples.shape == (3, 6, 2, *data.event_shape)
    if data.schema.kind == "symbol":
        assert forecast.mean is None and forecast.probs is not None
        np.testing.assert_allclose(forecast.probs.sum(-1), 1.0, rtol=1e-5)
    else:
        assert forecast.mean is not None and forecast.mean.shape == (3, 2, *data.event_shape)
        assert np.isfinite(forecast.mean).all()


def test_a_stream_reads_what_was_drawn(drawn):
    model, data = drawn
    stream = hs.Stream(model)
    for x in data[0]:
        stream.push(x)
    np.testing.assert_allclose(stream.log_prob, hs.log_prob(model, data)[0], rtol=1e-4, atol=1e-4)


def test_a_saved_head_predicts_the_same(drawn, tmp_path):
    model, data = drawn
    hs.save(model, tmp_path / "model")
    again = hs.load(tmp_path / "model")
    np.testing.assert_array_equal(step_log_probs(again, data), step_log_probs(model, data))


def test_a_record_with_a_wrong_entry_is_refused():
    model = network("mixed records")
    values = np.tile([1.0, 5.0, 0.0, 2.0], (1, 3, 1))
    values[0, 1, 3] = -2.0
    with pytest.raises(hs.DataError, match=r"sequence 0 holds \[1.0, 5.0, 0.0, -2.0\] at step 2; .*'visits' \(whole"):
        hs.log_prob(model, hs.Sequences.padded(values))
