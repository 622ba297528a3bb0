"""Switching linear Gaussian models against every path of regimes, and where they are another model exactly."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

import hiddenstate as hs
from hiddenstate.core import cast, partition
from latent import switching_oracle as oracle

SWITCH = {"initial": [0.5, 0.3, 0.2], "transition": [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]]}
TURNS = np.stack([0.9 * np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) for a in (0.3, 1.2, 2.0)])


def turning(**changed):
    """Three rotations of a plane, each regime with noises and offsets of its own, two numbers seen."""
    rng = np.random.default_rng(1)
    parts = {
        **SWITCH,
        "initial_mean": rng.normal(size=(3, 2)),
        "initial_covariance": np.stack([np.eye(2) * s for s in (0.5, 1.0, 2.0)]),
        "dynamics": TURNS,
        "dynamics_offset": 0.3 * rng.normal(size=(3, 2)),
        "dynamics_noise": np.stack([np.array([[0.3, 0.1], [0.1, 0.2]]) * s for s in (1.0, 0.5, 2.0)]),
        "observation": rng.normal(size=(3, 2, 2)),
        "observation_offset": 0.5 * rng.normal(size=(3, 2)),
        "observation_noise": np.stack([np.array([[0.4, -0.1], [-0.1, 0.3]]) * s for s in (1.0, 2.0, 0.5)]),
    }
    return hs.SwitchingLinearGaussian(**{**parts, **changed})


def line(**changed):
    """Two regimes, one hidden number, one number seen; observations shared."""
    parts = {
        "initial": [0.6, 0.4],
        "transition": [[0.9, 0.1], [0.3, 0.7]],
        "dynamics": [[[0.9]], [[-0.5]]],
        "dynamics_noise": [[[0.2]], [[0.6]]],
        "observation": [1.0],
        "observation_noise": 0.3,
    }
    return hs.SwitchingLinearGaussian(**{**parts, **changed})


def values(time, size=2, seed=0):
    return np.random.default_rng(seed).normal(size=(time, size) if size else time)


@pytest.fixture(scope="module")
def model():
    return turning()


# -- the filter ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "time"), [("gpb2", 2), ("imm", 1)])
def test_the_first_steps_are_exact(method, time):
    xs = values(time)
    model = turning(method=method)
    assert hs.log_prob(model, [xs])[0] == pytest.approx(oracle.log_likelihood(oracle.every_path(model, xs)), abs=1e-10)


def test_collapsing_stays_near_the_sum_over_all_paths(model):
    xs = np.asarray(model.simulate(6, key=jr.key(0)).values[0])
    exact = oracle.log_likelihood(oracle.every_path(model, xs))
    joined = {method: float(hs.log_prob(turning(method=method), [xs])[0]) for method in ("gpb2", "imm")}
    assert abs(joined["gpb2"] - exact) < 0.05
    assert 1e-6 < abs(joined["gpb2"] - exact) < abs(joined["imm"] - exact) < 0.5


def kim(model, xs):
    """Kim (1994): filter and smoother for Gaussians told apart by pairs of regimes, in loops."""
    m, v, a, b, q, c, d, r = (np.asarray(part) for part in model.arrays())
    v, q, r = (np.einsum("kab,kcb->kac", root, root) for root in (v, q, r))
    moves, count, n = np.asarray(model.transition_probs), model.regimes, model.state_size
    total, beliefs = 0.0, []
    for t, x in enumerate(xs):
        weights, means, spreads = np.zeros((count, count)), np.zeros((count, count, n)), np.zeros((count, count, n, n))
        for i in range(count):
            for j in range(count):
                if t == 0:
                    prior, mean, spread = np.asarray(model.initial_probs)[j] / count, m[j], v[j]
                else:
                    w, mu, s = beliefs[-1]
                    prior, mean, spread = w[i] * moves[i, j], a[j] @ mu[i] + b[j], a[j] @ s[i] @ a[j].T + q[j]
                seen, cross = c[j] @ spread @ c[j].T + r[j], spread @ c[j].T
                weights[i, j] = prior * multivariate_normal.pdf(x, c[j] @ mean + d[j], seen)
                means[i, j] = mean + cross @ np.linalg.solve(seen, x - c[j] @ mean - d[j])
                spreads[i, j] = spread - cross @ np.linalg.solve(seen, cross.T)
        total += np.log(weights.sum())
        beliefs.append(joined(weights / weights.sum(), means, spreads))
    smooth = [beliefs[-1]]
    for w, mu, s in beliefs[-2::-1]:
        later_w, later_mu, later_s = smooth[0]
        weights, means, spreads = np.zeros((count, count)), np.zeros((count, count, n)), np.zeros((count, count, n, n))
        for j in range(count):
            for k in range(count):
                weights[k, j] = later_w[k] * w[j] * moves[j, k] / (w @ moves[:, k])
                ahead = a[k] @ s[j] @ a[k].T + q[k]
                gain = s[j] @ a[k].T @ np.linalg.inv(ahead)
                means[k, j] = mu[j] + gain @ (later_mu[k] - a[k] @ mu[j] - b[k])
                spreads[k, j] = s[j] + gain @ (later_s[k] - ahead) @ gain.T
        smooth.insert(0, joined(weights, means, spreads))
    return total, beliefs, smooth


def joined(weights, means, spreads):
    """One Gaussian for each regime of the second axis."""
    new = [np.zeros(len(weights)), np.zeros(means.shape[1:]), np.zeros(spreads.shape[1:])]
    for j in range(len(weights)):
        share = weights[:, j] / weights[:, j].sum()
        new[0][j], new[1][j] = weights[:, j].sum(), share @ means[:, j]
        for i in range(len(weights)):
            apart = means[i, j] - new[1][j]
            new[2][j] += share[i] * (spreads[i, j] + np.outer(apart, apart))
    return new


def test_filter_and_smoother_are_kims():
    xs, model = values(5), turning(smoother="kim")
    total, beliefs, smooth = kim(model, xs)
    assert hs.log_prob(model, [xs])[0] == pytest.approx(total, abs=1e-10)
    for found, due in ((hs.filter(model, [xs]), beliefs), (hs.smooth(model, [xs]), smooth)):
        np.testing.assert_allclose(found.marginals[0], [w for w, _, _ in due], atol=1e-10)
        np.testing.assert_allclose(found.regime_mean[0], [mu for _, mu, _ in due], atol=1e-9)
        np.testing.assert_allclose(found.regime_covariance[0], [s for _, _, s in due], atol=1e-9)
        np.testing.assert_allclose(found.mean[0], [w @ mu for w, mu, _ in due], atol=1e-9)


def test_smoothing_stays_near_the_sum_over_all_paths(model):
    xs = np.asarray(model.simulate(6, key=jr.key(3)).values[0])
    paths = oracle.every_path(model, xs)
    found, kims = (hs.smooth(turning(smoother=name), [xs]) for name in ("corrected", "kim"))
    wrong = np.abs(found.marginals[0] - oracle.marginals(paths))
    assert wrong.max() < 0.15
    assert wrong.mean() < 0.5 * np.abs(kims.marginals[0] - oracle.marginals(paths)).mean()
    np.testing.assert_allclose(found.mean[0], oracle.mean_state(paths), atol=0.1)


def test_pairs_of_regimes_sum_to_their_marginals(model):
    found = hs.smooth(model, [values(5)])
    np.testing.assert_allclose(found.pairwise.sum(3), found.marginals[:, :-1], atol=1e-12)
    np.testing.assert_allclose(found.pairwise.sum(2), found.marginals[:, 1:], atol=1e-12)


def test_missing_entries_and_steps_are_left_out(model):
    xs = values(2)
    observed = np.array([[True, False], [True, True]])
    data = hs.Sequences.of([xs], missing=[~observed])
    exact = oracle.log_likelihood(oracle.every_path(model, xs, observed))
    assert hs.log_prob(model, data)[0] == pytest.approx(exact, abs=1e-10)
    gone = hs.Sequences.of([xs], missing=[np.array([[True, True], [False, False]])])
    exact = oracle.log_likelihood(oracle.every_path(model, xs, np.array([[False, False], [True, True]])))
    assert hs.log_prob(model, gone)[0] == pytest.approx(exact, abs=1e-10)


def test_the_end_of_a_shorter_sequence_changes_nothing(model):
    long, short = values(5), values(3, seed=1)
    both = hs.Sequences.of([long, short])
    together, alone = hs.smooth(model, both), hs.smooth(model, [short])
    np.testing.assert_allclose(together.marginals[1, :3], alone.marginals[0], atol=1e-12)
    np.testing.assert_allclose(together.covariance[1, :3], alone.covariance[0], atol=1e-12)
    together, alone = hs.most_likely_states(model, both), hs.most_likely_states(model, [short])
    np.testing.assert_array_equal(together.states[1], [*alone.states[0], *[alone.states[0, -1]] * 2])
    assert together.log_prob[1] == pytest.approx(float(alone.log_prob[0]), abs=1e-12)


# -- where it is another model ----------------------------------------------------------------------------------------


def test_one_regime_is_a_linear_gaussian_model():
    move = {"initial_mean": [0.3, -0.1], "initial_covariance": [[0.5, 0.1], [0.1, 0.3]]}
    seen, noise = [[1.0, 0.5], [0.3, 1.0]], [[0.4, 0.1], [0.1, 0.5]]
    one = hs.SwitchingLinearGaussian(
        initial=[1.0],
        transition=[[1.0]],
        dynamics=TURNS[0],
        dynamics_offset=[0.1, 0.2],
        dynamics_noise=[[0.3, 0.1], [0.1, 0.2]],
        observation=seen,
        observation_offset=[0.3, 0.0],
        observation_noise=noise,
        **move,
    )
    same = hs.LinearGaussian(
        transition=TURNS[0],
        transition_offset=[0.1, 0.2],
        transition_noise=[[0.3, 0.1], [0.1, 0.2]],
        emission=seen,
        emission_offset=[0.3, 0.0],
        emission_noise=noise,
        **move,
    )
    data = [values(7)]
    np.testing.assert_allclose(hs.step_log_probs(one, data), hs.step_log_probs(same, data), atol=1e-10)
    for function in (hs.filter, hs.smooth):
        np.testing.assert_allclose(function(one, data).mean, function(same, data).mean, atol=1e-10)
        np.testing.assert_allclose(function(one, data).covariance, function(same, data).covariance, atol=1e-10)


def test_states_without_a_past_are_a_hidden_markov_model():
    """With dynamics of zero the state forgets itself: nothing is lost in joining Gaussians."""
    means, seen = np.array([-1.0, 0.5, 2.0]), 0.7
    variances = np.array([0.5, 1.0, 0.3])
    model = hs.SwitchingLinearGaussian(
        **SWITCH,
        dynamics=[[0.0]],
        dynamics_offset=means[:, None],
        dynamics_noise=variances[:, None, None],
        initial_mean=means[:, None],
        initial_covariance=variances[:, None, None],
        observation=[seen],
        observation_noise=0.2,
    )
    emission = hs.emissions.Gaussian(means=seen * means, covariances=seen**2 * variances + 0.2)
    same = hs.HMM(**SWITCH, emission=emission)
    data = [values(8, 0), values(5, 0, seed=4)]
    np.testing.assert_allclose(hs.log_prob(model, data), hs.log_prob(same, data), atol=1e-10)
    np.testing.assert_allclose(hs.smooth(model, data).marginals, hs.smooth(same, data).marginals, atol=1e-10)
    np.testing.assert_allclose(hs.smooth(model, data).pairwise[0], hs.smooth(same, data).pairwise[0], atol=1e-10)
    decoded, due = hs.most_likely_states(model, data), hs.most_likely_states(same, data)
    np.testing.assert_array_equal(decoded.states, due.states)
    np.testing.assert_allclose(decoded.log_prob, due.log_prob, atol=1e-10)
    drawn = hs.sample_states(model, data[:1], key=jr.key(0), n=4000)
    share = np.asarray(jax.nn.one_hot(drawn.regimes[0], 3).mean(0))
    expected = np.asarray(hs.smooth(same, data[:1]).marginals[0])
    assert np.all(np.abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / 4000) + 1e-4)
    np.testing.assert_allclose(drawn.states[0].mean(0), hs.smooth(model, data[:1]).mean[0], atol=0.06)


def test_the_decoded_path_has_the_probability_that_is_said(model):
    xs = np.asarray(model.simulate(6, key=jr.key(5)).values[0])
    paths = {path.regimes: path.log_prob for path in oracle.every_path(model, xs)}
    decoded = hs.most_likely_states(model, [xs])
    assert decoded.log_prob[0] == pytest.approx(paths[tuple(np.asarray(decoded.states[0]))], abs=1e-9)
    assert decoded.log_prob[0] > sorted(paths.values())[-5]
    short = {path.regimes: path.log_prob for path in oracle.every_path(model, xs[:2])}
    assert hs.most_likely_states(model, [xs[:2]]).log_prob[0] == pytest.approx(max(short.values()), abs=1e-9)


# -- chains, recurrence -----------------------------------------------------------------------------------------------


def chains():
    slow = hs.LinearGaussian(
        transition=TURNS[0], transition_noise=np.eye(2) * 0.1, emission=[1.0, 0.0], emission_noise=0.2
    )
    fast = hs.LinearGaussian(
        transition=[[-0.8]], transition_noise=[[0.3]], emission=[2.0], emission_offset=0.5, emission_noise=0.4
    )
    return hs.SwitchingLinearGaussian.of_chains([slow, fast], transition=[[0.9, 0.1], [0.2, 0.8]])


def test_each_regime_sees_its_own_chain():
    model = chains()
    assert model.chains == (2, 1)
    np.testing.assert_array_equal(model.observation, [[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    np.testing.assert_array_equal(model.observation_offset, [0.0, 0.5])
    np.testing.assert_allclose(model.dynamics[1], np.block([[TURNS[0], np.zeros((2, 1))], [np.zeros(2), -0.8]]))
    assert {"dynamics", "dynamics_noise", "initial_mean"} <= set(model.shared)
    xs = values(2, 0)
    exact = oracle.log_likelihood(oracle.every_path(model, xs))
    assert hs.log_prob(model, [xs])[0] == pytest.approx(exact, abs=1e-10)


def test_learning_keeps_chains_apart():
    model = chains()
    learned, rest = partition(model)
    far = jax.tree.map(lambda a: a + 0.3, learned)
    moved = eqx.combine(far, rest)
    between = np.array([[0, 0, 1], [0, 0, 1], [1, 1, 0]], bool)
    for part in (moved.dynamics, moved.dynamics_noise, moved.initial_covariance):
        assert np.all(np.asarray(part)[:, between] == 0)
        assert np.all(np.asarray(part)[:, ~between] != 0)
    np.testing.assert_array_equal(np.asarray(moved.observation) != 0, [[True, True, False], [False, False, True]])
    # one probability and two rows of them, 3 means, 4 + 3 + 1 + 1 of first and moving covariances, and so on
    assert model.free_parameters() == 1 + 2 + 3 + (3 + 1) + (4 + 1) + (3 + 1) + 3 + 2 + 2


def test_a_switch_that_looks_nowhere_is_a_plain_one(model):
    xs = [values(5)]
    looking = turning(recurrence=np.zeros((3, 2)))
    np.testing.assert_allclose(hs.step_log_probs(looking, xs), hs.step_log_probs(model, xs), atol=1e-10)
    np.testing.assert_allclose(hs.smooth(looking, xs).marginals, hs.smooth(model, xs).marginals, atol=1e-10)


def test_a_switch_that_looks_at_the_state_agrees_with_quadrature():
    slopes = np.array([[0.0], [1.5]])
    model = line(recurrence=slopes)
    xs = np.array([0.8, -0.3])
    grid = np.linspace(-8, 8, 4001)
    start = norm.pdf(grid) * norm.pdf(xs[0], grid, np.sqrt(0.3))
    total, moves = 0.0, np.array([[0.9, 0.1], [0.3, 0.7]])
    for first in range(2):
        logits = np.log(moves[first])[:, None] + slopes * grid
        probs = np.exp(logits) / np.exp(logits).sum(0)
        for second, (a, q) in enumerate(((0.9, 0.2), (-0.5, 0.6))):
            seen = norm.pdf(xs[1], a * grid, np.sqrt(q + 0.3))
            total += [0.6, 0.4][first] * np.trapezoid(start * probs[second] * seen, grid)
    plain = float(hs.log_prob(line(), [xs])[0])
    assert abs(float(hs.log_prob(model, [xs])[0]) - np.log(total)) < 0.01 < abs(plain - np.log(total))


# -- drawing and learning ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_simulated_data_have_the_moments_of_the_model(model):
    drawn = model.simulate(2, key=jr.key(0), n=20000)
    frequent = np.bincount(np.asarray(drawn.regimes[:, 1]), minlength=3) / 20000
    expected = np.array(SWITCH["initial"]) @ np.array(SWITCH["transition"])
    assert np.all(np.abs(frequent - expected) < 4 * np.sqrt(expected * (1 - expected) / 20000))
    nothing = hs.Sequences.of([values(2)], missing=[np.ones((2, 2), bool)])
    second = hs.predictive(model, nothing)
    deviation = np.sqrt(np.asarray(second.variance[0, 1]) / 20000)
    assert np.all(np.abs(np.asarray(drawn.values[:, 1].mean(0)) - np.asarray(second.mean[0, 1])) < 4 * deviation)
    np.testing.assert_allclose(drawn.values[:, 1].var(0), second.variance[0, 1], rtol=0.06)


@pytest.mark.parametrize(
    ("method", "recurrence"), [("gpb2", None), ("imm", np.array([[0.0, 1.0], [0.5, -0.5], [1.0, 0.2]]))]
)
def test_gradients_are_finite_in_single_precision(method, recurrence):
    """With zeros in the switch and an observation that no regime expects."""
    zeros = {"initial": [1.0, 0.0, 0.0], "transition": [[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.0, 0.0, 1.0]]}
    model = cast(turning(method=method, recurrence=recurrence, **zeros), jnp.float32)
    xs = values(40).astype(np.float32)
    xs[20] = 200.0
    learned, rest = partition(model)
    data = hs.Sequences.of([xs])
    value, slope = jax.value_and_grad(lambda p: hs.log_prob(eqx.combine(p, rest), data, total=True))(learned)
    assert np.isfinite(value)
    assert value.dtype == np.float32
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(slope))


def test_gradients_of_what_is_shared_agree_with_differences():
    model = line()
    data = hs.Sequences.of([values(6, 0)])
    learned, rest = partition(model)

    def score(learned):
        return hs.log_prob(eqx.combine(learned, rest), data, total=True)

    slope = jax.grad(score)(learned).parameters.observation_noise.log_diagonal
    assert slope.shape == (1,)

    def moved(by):
        return eqx.tree_at(lambda m: m.parameters.observation_noise.log_diagonal, learned, replace_fn=lambda a: a + by)

    assert slope[0] == pytest.approx(float(score(moved(1e-5)) - score(moved(-1e-5))) / 2e-5, rel=1e-5)


@pytest.mark.slow
def test_descent_improves_the_fit():
    truth = line()
    data = hs.Sequences.of([np.asarray(truth.simulate(60, key=jr.key(1)).values[0])])
    start = line(dynamics=[[[0.3]], [[0.1]]])
    fit = hs.fit(start, data, hs.SGD(steps=25, learning_rate=0.05), key=jr.key(0))
    assert hs.log_prob(fit.model, data, total=True) > hs.log_prob(start, data, total=True) + 1


def test_what_is_fixed_is_not_learned():
    model = line(fixed=("observation", "transition"), dynamics_noise=hs.Frozen(jnp.array([[[0.2]], [[0.6]]])))
    assert not model.parameters.is_learned("observation")
    assert not model.parameters.is_learned("dynamics_noise")
    assert model.parameters.is_learned("dynamics")
    assert model.free_parameters() == 1 + 1 + 1 + 2 + 1
    changed = model.with_parts(observation=jnp.array([[3.0]]), dynamics=jnp.zeros((2, 1, 1)))
    assert float(changed.observation[0, 0]) == 1.0
    assert np.all(np.asarray(changed.dynamics) == 0)


def test_parts_can_be_replaced(model):
    other = turning(dynamics_noise=np.stack([np.eye(2)] * 3))
    new = model.with_parts(
        dynamics_noise=jnp.asarray(other.dynamics_noise),
        initial=jnp.array([1.0, 1.0, 2.0]),
        transition=jnp.ones((3, 3)),
    )
    np.testing.assert_allclose(new.dynamics_noise, other.dynamics_noise, atol=1e-12)
    np.testing.assert_allclose(new.initial_probs, [0.25, 0.25, 0.5], atol=1e-12)
    np.testing.assert_allclose(new.transition_probs, np.full((3, 3), 1 / 3), atol=1e-12)


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"initial": []}, "initial is empty"),
        ({"initial": [0.5, 0.5, 0.5]}, "initial sums to 1.5"),
        ({"transition": np.eye(2)}, r"transition has shape \(2, 2\); it must be \(3, 3\)"),
        ({"dynamics": np.ones((3, 2, 1))}, r"dynamics has shape \(3, 2, 1\)"),
        ({"dynamics": np.ones((2, 2, 2))}, "for 2 regimes, but initial is for 3"),
        ({"dynamics_noise": np.diag([1.0, 0.0])}, "dynamics_noise has the eigenvalue 0"),
        ({"observation_noise": -np.eye(2)}, "observation_noise has the eigenvalue -1"),
        ({"observation_noise": [[1.0, 0.5], [0.1, 1.0]]}, "must be symmetric"),
        ({"observation": np.ones((3, 2, 5))}, r"observation has shape \(3, 2, 5\)"),
        ({"observation_offset": np.ones(5)}, r"observation_offset has shape \(5,\)"),
        ({"initial_mean": [np.nan, 0.0]}, "it must be finite"),
        ({"recurrence": np.ones((2, 2))}, r"recurrence has shape \(2, 2\); it must be \(3, 2\)"),
        ({"method": "exact"}, "method is 'exact'; it must be 'gpb2' or 'imm'"),
        ({"smoother": "exact"}, "smoother is 'exact'; it must be 'corrected' or 'kim'"),
        ({"fixed": ["noise"]}, "fixed names 'noise'"),
        ({"fixed": "dynamics"}, "it must be a list of names"),
        ({"chains": ()}, "must name a size for each of 3 regimes"),
        ({"chains": (1, 1, 0)}, "an entry of chains is 0"),
    ],
)
def test_bad_parts_are_refused(changed, sentence):
    with pytest.raises(hs.HiddenStateError, match=sentence):
        turning(**changed)


def test_bad_chains_are_refused():
    with pytest.raises(hs.HiddenStateError, match="chains is empty"):
        hs.SwitchingLinearGaussian.of_chains([], transition=[[1.0]])
    with pytest.raises(hs.HiddenStateError, match=r"each must be an hs\.LinearGaussian"):
        hs.SwitchingLinearGaussian.of_chains([line()], transition=[[1.0]])  # pyright: ignore[reportArgumentType]
    with pytest.raises(hs.HiddenStateError, match="chains move in all regimes alike"):
        line(chains=(1, 1), dynamics=np.zeros((2, 2, 2)), dynamics_noise=np.eye(2), observation=np.ones((2, 2)))
