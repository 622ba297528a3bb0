"""Scores, forecasts, samples and streams, against hand-made values."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs

TABLE = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
FIRST = np.array([0.5, 0.25, 0.25])


@pytest.fixture(scope="module")
def chain():
    """A Markov chain with known probabilities: the state is the last symbol, one-hot, and zero before the first."""
    data = hs.Sequences.of([[0, 1, 2]])
    model = hs.build("bigram", data, key=jr.key(0))
    weights = np.log(TABLE).T - np.log(FIRST)[:, None]
    return eqx.tree_at(
        lambda m: (m.head.weight, m.head.bias, m.start),
        model,
        (jnp.asarray(weights), jnp.asarray(np.log(FIRST)), jnp.zeros(3)),
    )


@pytest.fixture(scope="module")
def driven():
    """A network with two inputs known beforehand."""
    random = np.random.default_rng(0)
    xs = [random.normal(size=n) for n in (6, 4)]
    us = [random.normal(size=(n, 2)) for n in (6, 4)]
    data = hs.Sequences.of(xs, inputs=us)
    return hs.build("gru", data, hidden=4, key=jr.key(1)), data


def test_log_prob_is_the_product_of_the_chain(chain):
    expected = [np.log(FIRST[1] * TABLE[1, 0] * TABLE[0, 0]), np.log(FIRST[2])]
    np.testing.assert_allclose(hs.log_prob(chain, [[1, 0, 0], [2]]), expected, rtol=1e-12)
    np.testing.assert_allclose(hs.log_prob(chain, [[1, 0, 0], [2]], total=True), sum(expected), rtol=1e-12)
    np.testing.assert_allclose(hs.log_prob(chain, np.array([1, 0, 0])), expected[:1], rtol=1e-12)
    np.testing.assert_allclose(hs.log_prob(chain, np.array([[1, 0, 0]])), expected[:1], rtol=1e-12)


def test_context_is_given_and_not_scored(chain):
    data = hs.Sequences.of([[1, 0, 0, 2], [2, 2]]).after([2, 1])
    expected = [np.log(TABLE[0, 0] * TABLE[0, 2]), np.log(TABLE[2, 2])]
    np.testing.assert_allclose(hs.log_prob(chain, data), expected, rtol=1e-12)
    assert data.scored_steps == 3


def test_the_predictive_has_one_distribution_a_step(chain):
    found = hs.predictive(chain, [[1, 0, 2]])
    assert found.batch_shape == (1, 3)
    np.testing.assert_allclose(found.probs[0], [FIRST, TABLE[1], TABLE[0]], rtol=1e-12)


def test_forecast_probabilities_are_the_powers_of_the_table(chain):
    n = 4000
    found = hs.forecast(chain, [[1], [1, 0]], 3, key=jr.key(3), n=n)
    np.testing.assert_allclose(found.probs[:, 0], TABLE[[1, 0]], rtol=1e-12)  # the first step ahead is exact
    for step in (1, 2):
        expected = np.linalg.matrix_power(TABLE, step + 1)[[1, 0]]
        np.testing.assert_allclose(found.probs[:, step], expected, atol=5 * 0.3 / np.sqrt(n))
    assert found.samples.shape == (2, n, 3) and found.mean is None
    frequencies = np.stack([(found.samples == s).mean(1) for s in range(3)], -1)
    np.testing.assert_allclose(frequencies, found.probs, atol=5 * 0.5 / np.sqrt(n))


def test_quantiles_of_a_random_walk_spread_like_the_root_of_time():
    walk = hs.Sequences.of(np.cumsum(np.random.default_rng(0).normal(size=300)))
    model = hs.fit(hs.build("last", walk, key=jr.key(0)), walk, hs.LBFGS(), key=jr.key(0)).model
    found = hs.forecast(model, walk, 16, key=jr.key(1), n=4000, levels=(0.1, 0.9))
    width = (found.quantiles[0.9] - found.quantiles[0.1])[0]
    np.testing.assert_allclose(width / width[0], np.sqrt(np.arange(1, 17)), rtol=0.1)
    np.testing.assert_allclose(found.mean[0, 0], hs.predictive(model, [*walk[0].tolist(), 0.0]).mean[0, -1], rtol=1e-6)
    np.testing.assert_allclose(found.median, found.quantile(0.5))
    with pytest.raises(hs.DataError, match="between 0 and 1"):
        found.quantile(1.5)


def test_the_same_key_gives_the_same_samples(chain):
    draws = [np.asarray(hs.sample(chain, 20, key=jr.key(k), n=5)) for k in (1, 1, 2)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()


def test_a_stream_can_be_saved_and_restored_in_the_middle(chain, tmp_path):
    whole, first = hs.Stream(chain), hs.Stream(chain)
    for x in (1, 0):
        whole.push(x)
        first.push(x)
    first.save(tmp_path / "stream")
    second = hs.Stream.restore(chain, tmp_path / "stream")
    np.testing.assert_array_equal(second.push(2).probs, whole.push(2).probs)
    assert (second.log_prob, second.steps) == (whole.log_prob, 3)
    other = hs.RNN(hs.cells.GRU(3, 4, key=jr.key(0)), hs.heads.Categorical(4, 3, key=jr.key(0)))
    with pytest.raises(hs.FileError, match="another model"):
        hs.Stream.restore(other, tmp_path / "stream")
    hs.save(chain, tmp_path / "model")
    with pytest.raises(hs.FileError, match="holds no stream"):
        hs.Stream.restore(chain, tmp_path / "model")


def test_streams_refuse_what_is_no_observation(chain, driven):
    stream = hs.Stream(chain)
    for bad, said in (
        (7, "it is|it must be whole numbers from 0 to 2"),
        (0.5, "symbols are due"),
        ([1], "has shape"),
        ("a", "number"),
    ):
        with pytest.raises(hs.DataError, match=said):
            stream.push(bad)
    assert stream.steps == 0
    model, data = driven
    with pytest.raises(hs.MissingDataError, match="missing"):
        hs.Stream(model).push(np.nan, data.inputs[0, 0])
    with pytest.raises(hs.DataError, match="takes 2 inputs"):
        hs.Stream(model).push(0.5)


def test_inputs_are_read_by_the_update_and_the_readout(driven):
    model, data = driven
    stream = hs.Stream(model)
    expected = hs.step_log_probs(model, data)[1, :4]
    for t, x in enumerate(data[1]):
        found = stream.predictive(data.inputs[1, t]).log_prob(jnp.asarray(x))
        np.testing.assert_allclose(found, expected[t], rtol=1e-10)
        assert stream.push(x, data.inputs[1, t]) is None
    future = np.zeros((5, 2))
    assert hs.forecast(model, data, 5, key=jr.key(0), n=3, inputs=future).samples.shape == (2, 3, 5)
    assert hs.sample(model, 5, key=jr.key(0), inputs=future).inputs.shape == (1, 5, 2)
    for call in (lambda: hs.forecast(model, data, 5, key=jr.key(0)), lambda: hs.sample(model, 5, key=jr.key(0))):
        with pytest.raises(hs.DataError, match="give inputs for all 5 steps"):
            call()
    with pytest.raises(hs.DataError, match=r"inputs has shape \(4, 2\)"):
        hs.forecast(model, data, 5, key=jr.key(0), inputs=np.zeros((4, 2)))
    with pytest.raises(hs.DataError, match="but the data have none"):
        hs.log_prob(model, hs.Sequences.of([0.1, 0.2]))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([[0, 3]], "sequence 0 holds 3 at step 2; observations must be whole numbers from 0 to 2"),
        ([[0, -1]], "sequence 0 holds -1 at step 2"),
        ([0.5, 1.5], "observations are float64, but symbols are due"),
        (np.zeros((2, 3, 4), int), "each observation has shape"),
        (hs.Sequences.of(np.zeros((4, 2), int)), "hs.Sequences.padded"),
        ([], "no sequence"),
        ([[]], "length 0"),
        ([["a", "b"]], "hs.read"),
    ],
)
def test_observations_that_do_not_fit_are_refused(chain, data, said):
    with pytest.raises(hs.DataError, match=said):
        hs.log_prob(chain, data)


def test_keys_strategies_and_sizes_are_checked(chain):
    with pytest.raises(hs.HiddenStateError, match="the key is 0; it must be a JAX random key"):
        hs.sample(chain, 3, key=0)
    with pytest.raises(hs.StrategyError, match=r"strategy is 'fast'; it must be hs.Auto\(\)"):
        hs.log_prob(chain, [[0]], strategy="fast")
    with pytest.raises(hs.DataError, match="at least 1"):
        hs.sample(chain, 0, key=jr.key(0))
    with pytest.raises(hs.DataError, match="at least 1"):
        hs.forecast(chain, [[0]], 0, key=jr.key(0))
    with pytest.raises(hs.DataError, match="one sequence"):
        hs.unroll(chain, hs.Sequences.of([[0]]))


def test_one_impossible_observation_does_not_spoil_the_next_ones(chain):
    never = eqx.tree_at(lambda m: m.head.bias, chain, jnp.array([0.0, 0.0, -1e300]))
    stream = hs.Stream(never)
    stream.push(2)
    assert stream.last_log_prob < -1e299
    stream.push(0)
    expected = hs.step_log_probs(never, [[2, 0]])[0, 1]
    np.testing.assert_allclose(stream.last_log_prob, expected, rtol=1e-12)


def test_values_beyond_the_precision_are_refused():
    model = hs.cast(hs.build("gru", np.arange(5.0), hidden=2, key=jr.key(0)), jnp.float32)
    with pytest.raises(hs.DataError, match="sequence 0 holds a value beyond the range of float32 at step 2"):
        hs.log_prob(model, [[0.0, 1e60]])
    with pytest.raises(hs.DataError, match="beyond the range of float32"):
        hs.Stream(model).push(1e60)


def test_a_column_of_numbers_is_not_taken_for_many_sequences():
    model = hs.build("gru", np.arange(5.0), hidden=2, key=jr.key(0))
    with pytest.raises(hs.DataError, match=r"each observation has shape \(1,\)"):
        hs.log_prob(model, np.arange(5.0)[:, None])


def test_counts_and_keys_are_single_whole_things(chain):
    with pytest.raises(hs.DataError, match=r"horizon is 2\.5"):
        hs.forecast(chain, [[0]], 2.5, key=jr.key(0))
    with pytest.raises(hs.HiddenStateError, match="give one of them"):
        hs.sample(chain, 3, key=jr.split(jr.key(0), 3))


def test_nothing_is_forecast_from_impossible_data():
    stuck = hs.HMM([1.0, 0.0], np.eye(2), hs.emissions.Categorical(np.eye(2)))
    with pytest.raises(hs.DataError, match="probability zero"):
        hs.forecast(stuck, [0, 1, 0], 2, key=jr.key(0), n=2)
