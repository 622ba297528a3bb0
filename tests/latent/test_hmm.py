"""Published numbers, long sequences, zeros, and what is refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import cast, partition
from hiddenstate.inference import arrays_for, masked_log_probs, sequences_for, steps_of
from marks import quick


def umbrella():
    """The umbrella world of Russell and Norvig (Artificial Intelligence, section 15.1): 0 is an umbrella."""
    return hs.HMM(
        initial=[0.5, 0.5],
        transition=[[0.7, 0.3], [0.3, 0.7]],
        emission=hs.emissions.Categorical(probs=[[0.9, 0.1], [0.2, 0.8]]),
    )


def test_the_umbrella_world():
    data = [0, 0, 1, 0, 0]
    model = umbrella()
    np.testing.assert_allclose(hs.log_prob(model, data), -3.3725, atol=5e-5)
    filtered = hs.filter(model, data)[0, :, 0]
    np.testing.assert_allclose(filtered, [0.8182, 0.8834, 0.1907, 0.7308, 0.8673], atol=5e-5)
    smoothed = hs.smooth(model, data).marginals[0, :, 0]
    np.testing.assert_allclose(smoothed, [0.8673, 0.8204, 0.3075, 0.8204, 0.8673], atol=5e-5)


def test_walk_shop_clean():
    """The example of the Viterbi algorithm that goes round the world: rainy or sunny from walk, shop, clean."""
    model = hs.HMM(
        initial=[0.6, 0.4],
        transition=[[0.7, 0.3], [0.4, 0.6]],
        emission=hs.emissions.Categorical(probs=[[0.1, 0.4, 0.5], [0.6, 0.3, 0.1]]),
    )
    for strategy in (hs.Sequential(), hs.Associative()):
        decoded = hs.most_likely_states(model, [0, 1, 2], strategy=strategy)
        np.testing.assert_array_equal(decoded.states[0], [1, 0, 0])
        np.testing.assert_allclose(np.exp(decoded.log_prob[0]), 0.01344, rtol=1e-6)


def test_earthquakes_with_three_states():
    """Zucchini, MacDonald and Langrock (2016): stationary Poisson HMM, minus log-likelihood 329.4603."""
    model = hs.HMM(
        initial="stationary",
        transition=[[0.955, 0.024, 0.021], [0.050, 0.899, 0.051], [0.000, 0.197, 0.803]],
        emission=hs.emissions.Poisson(rates=[13.146, 19.721, 29.714]),
    )
    np.testing.assert_allclose(hs.log_prob(model, hs.datasets.earthquakes()), -329.4603, atol=5e-3)


@pytest.fixture(scope="module")
def long():
    random = np.random.default_rng(0)
    transition = 0.9 * np.eye(8) + 0.1 * random.dirichlet(np.ones(8), 8)
    transition[0, 1:4] = 0
    transition /= transition.sum(1, keepdims=True)
    model = hs.HMM(
        initial=random.dirichlet(np.ones(8)),
        transition=transition,
        emission=hs.emissions.Gaussian(means=np.linspace(-4, 4, 8), covariances=random.uniform(0.2, 1.0, 8)),
    )
    return model, random.normal(size=1_000_000) * 3


def test_a_million_steps_in_single_precision(long):
    model, xs = long
    single = cast(model, jnp.float32)
    exact = float(hs.log_prob(model, xs)[0])
    assert abs(float(hs.log_prob(single, xs)[0]) - exact) < 1e-5 * abs(exact)
    learned, rest = partition(single)
    arrays = arrays_for(single, sequences_for(single, xs))
    slopes = jax.jit(jax.grad(lambda p: masked_log_probs(eqx.combine(p, rest), arrays, hs.Auto())[0].sum()))(learned)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))


def test_observations_far_from_every_likely_state_do_not_underflow():
    """All belief is in one state, and the observation is e^400 times more probable under another."""
    model = cast(
        hs.HMM([1.0, 0.0], [[1.0, 0.0], [0.5, 0.5]], hs.emissions.Gaussian(means=[0.0, 40.0], covariances=[1.0, 1.0])),
        jnp.float32,
    )
    expected = -0.5 * 40.0**2 - 0.5 * np.log(2 * np.pi)
    for strategy in (hs.Sequential(), hs.Associative()):
        steps = hs.step_log_probs(model, [40.0, 40.0, 0.0], strategy=strategy)[0]
        np.testing.assert_allclose(steps[:2], expected, rtol=1e-6)


@pytest.mark.parametrize("strategy", quick([hs.Sequential(), hs.Associative()]))
def test_zeros_stay_zeros_with_finite_gradients(strategy):
    model = hs.HMM(
        initial=[1.0, 0.0, 0.0],
        transition=[[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]],
        emission=hs.emissions.Categorical(probs=[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]),
    )
    data = hs.Sequences.of([[0, 0, 1, 2, 2], [0, 1, 1]])
    learned, rest = partition(model)
    arrays = arrays_for(model, data)
    slopes = jax.grad(lambda p: masked_log_probs(eqx.combine(p, rest), arrays, strategy)[0].sum())(learned)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))
    fitted = hs.fit(model, data, hs.EM(iterations=5, start="given"), key=jr.key(0)).model
    assert (np.asarray(fitted.transition)[np.asarray(model.transition) == 0] == 0).all()
    assert (np.asarray(fitted.emission.probs)[np.asarray(model.emission.probs) == 0] == 0).all()


def test_the_derivative_is_that_of_the_plain_recursion():
    """For steps that count differently, as where some are only context, and for the last belief too."""
    from hiddenstate.latent.hmm import recursions
    from hiddenstate.latent.hmm.operators import Dense, Renewal

    random = np.random.default_rng(5)
    likelihoods = jnp.asarray(random.normal(size=(6, 3)))
    weights, last = jnp.asarray(random.normal(size=6)), jnp.asarray(random.normal(size=3))
    moves, lasting = (jnp.asarray(random.dirichlet(np.ones(n), 3)) for n in (3, 4))
    for operator, belief in (
        (Dense(moves), jnp.asarray([0.2, 0.5, 0.3])),
        (Renewal(moves, lasting), jnp.asarray(random.dirichlet(np.ones(12)).reshape(3, 4))),
    ):
        for valid in (None, jnp.arange(6) < 4):

            def fast(operator, belief, likelihoods, valid=valid):
                out, final = recursions.score(False, operator, belief, likelihoods, valid)
                return out @ weights + (operator.collapse(final) * last).sum()

            def plain(operator, belief, likelihoods, valid=valid):
                found = recursions.forward(recursions.Chain(operator), belief, likelihoods, valid)
                return found.evidence @ weights + (operator.collapse(found.final) * last).sum()

            arguments = operator, belief, likelihoods
            a, b = (jax.jit(jax.grad(f, argnums=(0, 1, 2)))(*arguments) for f in (fast, plain))
            jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12), a, b)


def impossible():
    return hs.HMM([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]], hs.emissions.Categorical(probs=[[1.0, 0, 0], [0, 1.0, 0]]))


def test_an_impossible_observation_is_minus_infinity_and_named():
    model = impossible()
    data = hs.Sequences.of([[0, 0], [1, 1, 2]], schema=hs.Schema((hs.Column("x", "symbol", 3),), scalar=True))
    np.testing.assert_array_equal(hs.log_prob(model, data)[1], -np.inf)
    assert np.isfinite(np.asarray(hs.states(model, data))).all()
    for ask in (hs.filter, hs.smooth, hs.most_likely_states):
        with pytest.raises(hs.DataError, match="sequence 1 holds 2 at step 3, which has probability zero"):
            ask(model, data)
    with pytest.raises(hs.DataError, match="at step 3"):
        hs.fit(model, data, hs.EM(start="given"), key=jr.key(0))


def test_an_impossible_sequence_has_an_infinite_score_without_a_warning(recwarn):
    score = hs.score(impossible(), [0, 0, 2])
    assert score.nats_per_step == np.inf and np.isnan(score.standard_error) and not recwarn.list


def rises(model, data, only=None, rounds=15):
    """The log-probability along rounds of EM, and the model after them."""
    arrays = arrays_for(model, data)

    @eqx.filter_jit
    def around(model):
        def each(steps):
            return model.expected_statistics(steps, hs.Sequential())

        found, total = jax.vmap(each)(steps_of(arrays))
        return model.maximise(jax.tree.map(lambda a: a.sum(0), found), only=only), total.sum()

    totals = []
    for _ in range(rounds):
        model, total = around(model)
        totals.append(float(total))
    assert (np.diff(totals) > -1e-9 * abs(totals[-1])).all(), totals
    assert totals[-1] > totals[0] + 0.1
    return model


def test_em_rises_with_a_stationary_start():
    data = hs.Sequences.of([[0, 0, 1], [1, 1, 0], [0, 0, 0, 0], [0, 1]])
    model = hs.HMM("stationary", [[0.6, 0.4], [0.5, 0.5]], hs.emissions.Categorical(probs=[[0.7, 0.3], [0.4, 0.6]]))
    rises(model, data)


def test_em_rises_with_transitions_that_inputs_drive():
    random = np.random.default_rng(1)
    us = random.normal(size=(4, 60, 1))
    flips = np.roll(us[..., 0] > 0.8, 1, axis=1)  # the input at t drives the move from t to t + 1
    hidden = np.cumsum(flips, axis=1) % 2
    xs = np.where(random.random((4, 60)) < 0.9, hidden, 1 - hidden)
    model = hs.HMM(
        [0.5, 0.5],
        hs.InputDriven([[0.7, 0.3], [0.3, 0.7]], np.zeros((2, 2, 1))),
        hs.emissions.Categorical(probs=[[0.7, 0.3], [0.4, 0.6]]),
    )
    fitted = rises(model, hs.Sequences.padded(xs, inputs=us), rounds=60)
    weights = np.asarray(fitted.transition.weights)
    assert weights[0, 1, 0] - weights[0, 0, 0] > 1 and weights[1, 0, 0] - weights[1, 1, 0] > 1


@pytest.mark.parametrize("kind", quick(["negative-binomial", "categorical"]))
@pytest.mark.slow
def test_durations_are_learned(kind):
    random = np.random.default_rng(2)
    rows = []
    for _ in range(20):
        lasting = random.integers(3, 6, 12)
        rows.append(np.repeat(np.arange(12) % 2, lasting)[:40])
    xs = np.where(random.random((20, 40)) < 0.95, np.stack(rows), 1 - np.stack(rows))
    durations = np.full((2, 8), 1 / 8)
    if kind == "negative-binomial":
        durations = hs.NegativeBinomialDurations([3.0, 3.0], [1.0, 1.0], 8)
    emission = hs.emissions.Categorical(probs=[[0.8, 0.2], [0.2, 0.8]])
    model = hs.HSMM([0.9, 0.1], [[0.0, 1.0], [1.0, 0.0]], durations, emission)
    probs = np.asarray(rises(model, hs.Sequences.padded(xs), rounds=30).durations.probs)
    if kind == "categorical":
        assert probs[:, 2:5].sum(1).min() > 0.95
    else:
        np.testing.assert_allclose(probs @ np.arange(1, 9), 4, atol=0.3)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda e: hs.HMM([0.5, 0.6], [[0.7, 0.3], [0.3, 0.7]], e),
            r"initial sums to 1.1; probabilities must sum to 1",
        ),
        (lambda e: hs.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.8]], e), r"row 1 of transition sums to 1.1"),
        (
            lambda e: hs.HMM([0.5, 0.5], [[1.1, -0.1], [0.3, 0.7]], e),
            r"transition\[0, 1\] is -0.1; probabilities are at least 0",
        ),
        (lambda e: hs.HMM([0.5, 0.5], [[0.7, 0.3, 0.0], [0.3, 0.7, 0.0]], e), r"must be square"),
        (lambda e: hs.HMM([1.0], [[1.0]], e), r"transition has 1 states, but emission has 2"),
        (
            lambda e: hs.HMM([0.5, 0.5, 0.0], [[0.7, 0.3], [0.3, 0.7]], e),
            r"initial has shape \(3,\); it must be \(2,\)",
        ),
        (lambda e: hs.HMM("steady", [[0.7, 0.3], [0.3, 0.7]], e), r"initial is 'steady'"),
        (lambda e: hs.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], "poisson"), r"must be one of hs.emissions"),
        (lambda e: hs.HSMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[1.0], [1.0]], e), r"diagonal that is not zero"),
        (
            lambda e: hs.HSMM([0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]], [[0.5, 0.6], [0.5, 0.5]], e),
            r"row 0 of durations sums to 1.1",
        ),
        (
            lambda e: hs.NegativeBinomialDurations([0.5], [1.0], 3),
            r"means\[0\] is 0.5; a mean duration must be above 1 step",
        ),
        (
            lambda e: hs.log_prob(
                hs.HMM([0.5, 0.5], hs.InputDriven(np.full((2, 2), 0.5), np.zeros((2, 2, 3))), e), [0, 1]
            ),
            r"takes 3 inputs at every step, but the data have none",
        ),
    ],
)
def test_bad_input_is_refused_in_a_sentence(make, said):
    with pytest.raises(hs.HiddenStateError, match=said):
        make(hs.emissions.Categorical(probs=[[0.9, 0.1], [0.2, 0.8]]))


def test_states_can_be_numbered_in_another_order():
    model = umbrella()
    other = model.permuted([1, 0])
    data = [0, 0, 1, 0, 0]
    np.testing.assert_allclose(hs.log_prob(other, data), hs.log_prob(model, data), rtol=1e-12)
    np.testing.assert_allclose(hs.filter(other, data)[..., ::-1], hs.filter(model, data), rtol=1e-12)


def test_free_parameters_are_counted_as_one_writes_them():
    left_right = hs.build("hmm", [0, 1, 2, 1, 0, 2, 1, 1], states=3, transition="left-right", key=jr.key(0))
    assert left_right.free_parameters() == 2 + 3 * 2
    assert umbrella().free_parameters() == 1 + 2 + 2
    fixed = hs.HMM("stationary", hs.Frozen(jnp.full((2, 2), 0.5)), hs.emissions.Poisson(rates=[1.0, 2.0]))
    assert fixed.free_parameters() == 2


def test_building_by_name_reaches_all_structures():
    counts = hs.datasets.earthquakes()
    for options in (
        {"transition": "left-right"},
        {"transition": "banded", "band": 1},
        {"transition": np.eye(3, dtype=bool) | np.eye(3, k=-1, dtype=bool) | np.eye(3, k=2, dtype=bool)},
        {"initial": "stationary", "emission": "poisson"},
        {"initial": "fixed", "emission": "negative-binomial"},
    ):
        model = hs.build("hmm", counts, states=3, key=jr.key(0), **options)
        assert np.isfinite(hs.log_prob(model, counts)).all()
    with pytest.raises(hs.HiddenStateError, match="transition is 'circular'"):
        hs.build("hmm", counts, transition="circular", key=jr.key(0))
    with pytest.raises(hs.DataError, match="have no inputs"):
        hs.build("hmm", counts, transition="input-driven", key=jr.key(0))


def test_a_chain_with_several_ends_has_no_stationary_start():
    emission = hs.emissions.Gaussian(means=[0.0, 1.0, 2.0], covariances=[1.0, 1.0, 1.0])
    with pytest.raises(hs.HiddenStateError, match="2 sets of states that are never left"):
        hs.HMM("stationary", [[0.2, 0.4, 0.4], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], emission)
    one_end = hs.HMM("stationary", [[0.2, 0.4, 0.4], [0.0, 0.5, 0.5], [0.0, 1.0, 0.0]], emission)
    np.testing.assert_allclose(one_end.initial_probs, [0, 2 / 3, 1 / 3], atol=1e-6)
