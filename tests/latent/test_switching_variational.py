"""Variational inference and EM for switching models, against sums over all regime paths and dense Gaussians."""

import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import hiddenstate as hs
from hiddenstate.core import Steps
from hiddenstate.latent.switching.em import statistics
from hiddenstate.latent.switching.regimes import RANKS
from hiddenstate.latent.switching.variational import (
    RegimeChain,
    ascended,
    expected_log_likelihoods,
    prepared,
)

REGIMES, STATE, EVENT, TIME = 2, 2, 3, 5


def multivariate_normal(mean, covariance) -> Any:
    return stats.multivariate_normal(mean, covariance)  # pyright: ignore[reportArgumentType]


def covariances(random, regimes, size):
    rows = random.normal(size=(regimes, size, size + 1))
    return rows @ np.swapaxes(rows, -1, -2) / size + 0.1 * np.eye(size)


def model_of(seed=0, regimes=REGIMES, shared=(), **rest):
    random = np.random.default_rng(seed)
    turn = random.normal(size=(regimes, STATE, STATE))
    parts = {
        "initial_mean": random.normal(size=(regimes, STATE)),
        "initial_covariance": covariances(random, regimes, STATE),
        "dynamics": 0.8 * turn / np.linalg.norm(turn, 2, axis=(1, 2))[:, None, None],
        "dynamics_offset": random.normal(size=(regimes, STATE)),
        "dynamics_noise": covariances(random, regimes, STATE),
        "observation": random.normal(size=(regimes, EVENT, STATE)),
        "observation_offset": random.normal(size=(regimes, EVENT)),
        "observation_noise": covariances(random, regimes, EVENT),
    }
    parts = {name: part[0] if name in shared else part for name, part in parts.items()}
    return hs.SwitchingLinearGaussian(
        initial=random.dirichlet(np.full(regimes, 5.0)),
        transition=random.dirichlet(np.full(regimes, 5.0), regimes),
        **parts,
        **rest,
    )


def observations(seed=1, time=TIME):
    return np.random.default_rng(seed).normal(size=(time, EVENT)) * 1.5


class Plain(NamedTuple):
    """A model's parts in NumPy."""

    initial: Any
    transition: Any
    regimes: Any


def plain_parts(model):
    return Plain(
        *jax.tree.map(np.asarray, jax.jit(lambda: (model.initial_probs, model.transition_probs, every(model)))())
    )


def every(model):
    regimes = model.arrays()
    return {name: getattr(regimes, name) for name in RANKS}


def dense_state_prior(model, path):
    """Mean and covariance of all states given the regimes, one behind the other."""
    parts, time = model.regimes, len(path)
    n = parts["initial_mean"].shape[1]
    mean, spread = np.zeros((time, n)), np.zeros((time, n, time, n))
    mean[0], spread[0, :, 0] = parts["initial_mean"][path[0]], parts["initial_covariance"][path[0]]
    for t in range(1, time):
        matrix = parts["dynamics"][path[t]]
        mean[t] = matrix @ mean[t - 1] + parts["dynamics_offset"][path[t]]
        for u in range(t):
            spread[t, :, u] = matrix @ spread[t - 1, :, u]
            spread[u, :, t] = spread[t, :, u].T
        spread[t, :, t] = matrix @ spread[t - 1, :, t - 1] @ matrix.T + parts["dynamics_noise"][path[t]]
    return mean.ravel(), spread.reshape(time * n, time * n)


def dense_observation(model, path):
    """x = matrix s + offset + noise for all steps together."""
    parts, time = model.regimes, len(path)
    _, m, n = parts["observation"].shape
    matrix, noise = np.zeros((time, m, time, n)), np.zeros((time, m, time, m))
    for t, k in enumerate(path):
        matrix[t, :, t], noise[t, :, t] = parts["observation"][k], parts["observation_noise"][k]
    offset = parts["observation_offset"][list(path)].ravel()
    return matrix.reshape(time * m, -1), offset, noise.reshape(time * m, -1)


def paths(model, time):
    return list(itertools.product(range(len(model.initial)), repeat=time))


def log_path(model, path):
    initial, transition = np.log(model.initial), np.log(model.transition)
    return initial[path[0]] + sum(transition[a, b] for a, b in itertools.pairwise(path))


def exact_log_prob(model, x, known=None):
    """The log-likelihood, summed over every path of the regimes."""
    known = np.ones(x.size, bool) if known is None else known.ravel()
    terms = []
    for path in paths(model, len(x)):
        mean, spread = dense_state_prior(model, path)
        matrix, offset, noise = dense_observation(model, path)
        whole = multivariate_normal(
            (matrix @ mean + offset)[known], (matrix @ spread @ matrix.T + noise)[np.ix_(known, known)]
        )
        terms.append(log_path(model, path) + whole.logpdf(x.ravel()[known]))
    return logsumexp(terms)


def expected_joint(model, x, path, mean, covariance):
    """The mean of log p(x, s | path) over s from a Gaussian, all steps at once."""
    prior_mean, prior = dense_state_prior(model, path)
    matrix, offset, noise = dense_observation(model, path)
    total = multivariate_normal(prior_mean, prior).logpdf(mean) - 0.5 * np.trace(np.linalg.solve(prior, covariance))
    seen = multivariate_normal(matrix @ mean + offset, noise).logpdf(x.ravel())
    return total + seen - 0.5 * np.trace(np.linalg.solve(noise, matrix @ covariance @ matrix.T))


def best_states(model, x, weights):
    """The best q(s) given a distribution over paths: precisions and vectors of all paths averaged."""
    precision, vector = 0, 0
    for path, weight in weights.items():
        mean, spread = dense_state_prior(model, path)
        matrix, offset, noise = dense_observation(model, path)
        before, white = np.linalg.inv(spread), np.linalg.solve(noise, matrix)
        precision = precision + weight * (before + matrix.T @ white)
        vector = vector + weight * (before @ mean + white.T @ (x.ravel() - offset))
    covariance = np.linalg.inv(precision)
    return covariance @ vector, covariance


def chain_of(model):
    return RegimeChain(model.initial_probs, model.transition_probs)


@eqx.filter_jit
def found_by(model, steps, marginals, sweeps=1, temperature=1.0):
    return ascended(chain_of(model), model.arrays(), steps, jnp.asarray(marginals), sweeps, temperature)


@pytest.fixture(scope="module")
def small():
    model, x = model_of(), observations()
    plain = plain_parts(model)
    return model, plain, x, exact_log_prob(plain, x)


def test_a_sweep_is_coordinate_ascent_over_all_paths(small):
    model, plain, x, log_prob = small
    marginals = np.random.default_rng(2).dirichlet(np.ones(REGIMES), TIME)
    found = found_by(model, Steps(jnp.asarray(x)), marginals)
    every = paths(plain, TIME)
    weights = {path: np.prod([marginals[t, k] for t, k in enumerate(path)]) for path in every}
    mean, covariance = best_states(plain, x, weights)
    np.testing.assert_allclose(found.states.mean.ravel(), mean, rtol=1e-8)
    blocks = covariance.reshape(TIME, STATE, TIME, STATE)
    np.testing.assert_allclose(found.states.covariance, [blocks[t, :, t] for t in range(TIME)], rtol=1e-8)
    crossed = [blocks[t, :, t + 1] for t in range(TIME - 1)]
    np.testing.assert_allclose(found.states.cross_covariance, crossed, rtol=1e-7, atol=1e-12)

    scores = np.array([log_path(plain, path) + expected_joint(plain, x, path, mean, covariance) for path in every])
    posterior = np.exp(scores - logsumexp(scores))
    expected = np.array([[posterior[[p[t] == k for p in every]].sum() for k in range(REGIMES)] for t in range(TIME)])
    np.testing.assert_allclose(found.regimes.marginals, expected, rtol=1e-8, atol=1e-12)
    moves = np.zeros((REGIMES, REGIMES))
    for path, share in zip(every, posterior, strict=True):
        for a, b in itertools.pairwise(path):
            moves[a, b] += share
    np.testing.assert_allclose(found.regimes.moves, moves, rtol=1e-8, atol=1e-12)
    entropy = multivariate_normal(mean, covariance).entropy()
    bound = (posterior * (scores - np.log(posterior))).sum() + entropy
    np.testing.assert_allclose(found.bound, bound, rtol=1e-10)
    assert found.bound < log_prob


@pytest.mark.parametrize("temperature", [1.0, 5.0])
def test_the_bound_rises_and_stays_below_the_likelihood(small, temperature):
    model, _, x, log_prob = small
    steps = Steps(jnp.asarray(x))
    hot = found_by(model, steps, np.full((TIME, REGIMES), 0.5), 3, temperature)
    bounds, marginals = [float(hot.bound)], hot.regimes.marginals
    for _ in range(8):
        found = found_by(model, steps, marginals)
        bounds, marginals = [*bounds, float(found.bound)], found.regimes.marginals
    assert (np.diff(bounds) > -1e-10).all()
    assert bounds[-1] > bounds[0]
    assert bounds[-1] <= log_prob
    many = found_by(model, steps, hot.regimes.marginals, 8)
    np.testing.assert_allclose(many.bound, bounds[-1], rtol=1e-12)


def test_missing_entries_and_padding_are_summed_out(small):
    model, plain, x, _ = small
    known = np.random.default_rng(4).random(x.shape) < 0.6
    known[2] = False
    one = model_of(regimes=1)
    steps = Steps(jnp.asarray(np.where(known, x, 0.0)), observed=jnp.asarray(known))
    alone = found_by(one, steps, np.ones((TIME, 1)))
    np.testing.assert_allclose(alone.bound, exact_log_prob(plain_parts(one), x, known), rtol=1e-10)

    short = found_by(model, steps, np.full((TIME, REGIMES), 0.5), 4)
    assert short.bound <= exact_log_prob(plain, x, known)
    longer = Steps(
        jnp.pad(steps.values, ((0, 2), (0, 0)), constant_values=3.0),
        observed=jnp.pad(steps.observed, ((0, 2), (0, 0)), constant_values=True),
        valid=jnp.arange(TIME + 2) < TIME,
    )
    padded = found_by(model, longer, np.full((TIME + 2, REGIMES), 0.5), 4)
    np.testing.assert_allclose(padded.bound, short.bound, rtol=1e-12)
    np.testing.assert_allclose(padded.states.mean[:TIME], short.states.mean, rtol=1e-9)
    np.testing.assert_allclose(padded.regimes.marginals[:TIME], short.regimes.marginals, rtol=1e-9)


# -- maximisation ----------------------------------------------------------------------------------------------

SHARED = {
    "all but dynamics": (
        "initial_mean",
        "initial_covariance",
        "dynamics_noise",
        "observation",
        "observation_offset",
        "observation_noise",
    ),
    "matrices and noise": ("dynamics", "dynamics_noise", "observation_offset", "observation_noise"),
    "coefficients": ("dynamics", "dynamics_offset", "observation"),
}


def many_sequences(missing):
    """Sequences from the model that shares nothing, of several lengths."""
    random, (initial, transition, parts) = np.random.default_rng(7), plain_parts(model_of(3))
    x = np.zeros((6, 16, EVENT))
    for row in x:
        k = random.choice(REGIMES, p=initial)
        state = random.multivariate_normal(parts["initial_mean"][k], parts["initial_covariance"][k])
        for t in range(16):
            mean = parts["observation"][k] @ state + parts["observation_offset"][k]
            row[t] = random.multivariate_normal(mean, parts["observation_noise"][k])
            k = random.choice(REGIMES, p=transition[k])
            moved = parts["dynamics"][k] @ state + parts["dynamics_offset"][k]
            state = random.multivariate_normal(moved, parts["dynamics_noise"][k])
    known = jnp.asarray(random.random(x.shape) < 0.8)
    valid = jnp.arange(16) < jnp.asarray([16, 16, 9, 16, 12, 16])[:, None]
    return Steps(jnp.where(known, x, 0.0) if missing else jnp.asarray(x), None, known if missing else None, valid)


class Maximised(NamedTuple):
    """A model after one maximisation, what that was made of, and the expected density before and after, with slopes."""

    new: Any
    found: Any
    sums: Any
    before: Any
    after: Any


@eqx.filter_jit
def maximised(model, steps, found=None):
    """From the posterior `found`, or one that is made for the model."""

    def one(steps, found):
        if found is None:
            start = jnp.full((steps.length, model.regimes), 1 / model.regimes)
            found = ascended(chain_of(model), model.arrays(), steps, start, 3)
        return found, statistics(model.arrays(), steps, found)

    found, sums = jax.vmap(one)(steps, found)
    sums = jax.tree.map(lambda a: a.sum(0), sums)
    new = model.maximise(sums)

    @eqx.filter_value_and_grad
    def density(parameters):
        """The part of the bound that hangs on the parameters of states and observations."""
        regimes = eqx.tree_at(lambda m: m.parameters, model, parameters).arrays()

        def one(steps, found):
            densities = expected_log_likelihoods(prepared(regimes, steps), found.states)
            return jnp.where(steps.valid[:, None], found.regimes.marginals * densities, 0.0).sum()

        return jax.vmap(one)(steps, found).sum()

    return Maximised(new, found, sums, density(model.parameters), density(new.parameters))


@pytest.fixture(scope="module")
def plain_step():
    """One maximisation of a model whose regimes share nothing."""
    model = model_of(3)
    return model, maximised(model, many_sequences(False))


def check_flat(model, done, stepwise):
    """Slopes are zero, but for parts that are found step by step and first states that hardly any sequence has."""
    slopes = [float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(done.before[1])]
    for name in set(RANKS) - set(stepwise):
        for leaf in jax.tree.leaves(getattr(done.after[1], name)):
            few = name.startswith("initial") and name not in model.shared
            leaf = leaf[np.asarray(done.sums.first.number) >= 0.5] if few else leaf
            np.testing.assert_allclose(leaf, 0.0, atol=1e-8 * max(slopes), err_msg=name)


@pytest.mark.parametrize("shared", ["all but dynamics", "matrices and noise"])
def test_the_best_parameters_are_where_the_expected_density_is_flat(shared):
    model = model_of(3, shared=SHARED[shared])
    done = maximised(model, many_sequences(False))
    assert done.new.shared == model.shared == SHARED[shared]
    assert done.after[0] > done.before[0] + 1
    check_flat(model, done, ())


def test_the_best_parameters_of_regimes_that_share_nothing(plain_step):
    model, done = plain_step
    assert done.after[0] > done.before[0] + 1
    check_flat(model, done, ())
    moves = np.asarray(done.sums.transition)
    np.testing.assert_allclose(done.new.transition_probs, moves / moves.sum(1, keepdims=True), rtol=1e-9)
    np.testing.assert_allclose(done.new.initial_probs, done.sums.initial / 6, rtol=1e-9)


@pytest.mark.parametrize("missing", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_repeated_maximisation_finds_the_top(missing):
    """Where regimes with noise of their own share coefficients, or entries are missing, one step is not enough."""
    model, steps = model_of(3, shared=() if missing else SHARED["coefficients"]), many_sequences(missing)
    done = maximised(model, steps)
    values, first = [done.before[0], done.after[0]], done
    for _ in range(300 if missing else 60):
        done = maximised(done.new, steps, first.found)
        values.append(done.after[0])
    assert (np.diff(np.array([float(v) for v in values])) > -1e-9).all()
    check_flat(model, done._replace(before=first.before), ())


def test_parts_that_are_fixed_or_not_named_stay(plain_step):
    sums = plain_step[1].sums
    model = model_of(3, fixed=("observation",))
    only = ("observation", "observation_noise")
    new = eqx.filter_jit(lambda model, sums: model.maximise(sums, only=only))(model, sums)
    for name in ("observation", "dynamics", "dynamics_noise", "observation_offset", "initial_mean"):
        np.testing.assert_array_equal(getattr(new, name), getattr(model, name))
    assert not np.allclose(new.observation_noise, model.observation_noise)
    with pytest.raises(hs.HiddenStateError, match="only names 'emission'"):
        model.maximise(sums, only=("emission",))


def test_a_regime_that_no_step_is_in_keeps_its_parts(plain_step):
    model, done = plain_step
    emptied = jax.tree.map(lambda a: a.at[1].set(0.0), done.sums)
    new = eqx.filter_jit(lambda model, sums: model.maximise(sums))(model, emptied)
    old, found = every(model), every(new)
    for name in RANKS:
        np.testing.assert_array_equal(found[name][1], old[name][1])
        if not name.startswith("initial"):
            assert not np.allclose(found[name][0], old[name][0])
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(eqx.filter(new, eqx.is_inexact_array)))


# -- learning --------------------------------------------------------------------------------------------------


def turning(angle, damping):
    return damping * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def two_regimes(stay=0.97):
    return hs.SwitchingLinearGaussian(
        initial=[0.5, 0.5],
        transition=[[stay, 1 - stay], [1 - stay, stay]],
        dynamics=np.stack([turning(0.2, 0.99), turning(-0.9, 0.95)]),
        dynamics_noise=0.1 * np.eye(2),
        observation=np.random.default_rng(0).normal(size=(3, 2)),
        observation_noise=0.1 * np.eye(3),
    )


@pytest.fixture(scope="module")
def drawn():
    found = two_regimes().simulate(200, key=jr.key(0), n=2)
    values = np.array(found.values)
    values[0, 50:60] = np.nan
    values[1, ::7, 1] = np.nan
    return hs.Sequences.of([values[0], values[1, :150]]), np.asarray(found.regimes)


@pytest.mark.slow
def test_variational_em_finds_the_regimes_and_never_falls(drawn):
    data, regimes = drawn
    start = two_regimes().with_parts(dynamics=jnp.stack([jnp.eye(2)] * 2) * 0.5)
    found = hs.fit(start, data, hs.EM(start="random", restarts=3, iterations=35), key=jr.key(1))
    bounds = -found.history["loss"].to_numpy() * data.steps
    assert (np.diff(bounds) > -1e-6).all()
    smoothed = hs.variational_smooth(found.model, data, sweeps=20)
    assert (np.asarray(smoothed.bound).sum() > bounds[-1] - 1e-6) and bounds[-1] > bounds[0] + 10
    right = np.concatenate(
        [
            np.asarray(smoothed.marginals[i, :n].argmax(-1)) == regimes[i, :n]
            for i, n in enumerate(data.lengths.tolist())
        ]
    ).mean()
    assert max(right, 1 - right) > 0.8
    assert found.model.shared == start.shared


def test_annealing_ends_in_a_rising_bound(drawn):
    data, _ = drawn
    found = hs.fit(two_regimes(), data, hs.EM(anneal=4, restarts=3, iterations=10), key=jr.key(1))
    assert (np.diff(-found.history["loss"].to_numpy()[4:]) > -1e-9).all()
    hmm = hs.HMM(initial=[1.0], transition=[[1.0]], emission=hs.emissions.Poisson(rates=[1.0]))
    with pytest.raises(hs.HiddenStateError, match="anneal is 4, but HMM"):
        hs.fit(hmm, [[1, 2]], hs.EM(anneal=4), key=jr.key(0))
    with pytest.raises(hs.HiddenStateError, match="anneal is -1"):
        hs.EM(anneal=-1)


def two_chains():
    chains = [
        hs.LinearGaussian(
            transition=turning(angle, 0.99),
            transition_noise=0.05 * np.eye(2),
            emission=np.array([1.0, 0.0]),
            emission_noise=0.05,
        )
        for angle in (0.15, 0.8)
    ]
    return hs.SwitchingLinearGaussian.of_chains(chains, transition=[[0.97, 0.03], [0.03, 0.97]], observation_noise=0.05)


@pytest.mark.slow
def test_chains_stay_apart_in_learning_and_their_bound_rises():
    truth = two_chains()
    drawn = truth.simulate(200, key=jr.key(2))
    found = hs.fit(
        truth, hs.Sequences.of(drawn.values[0]), hs.EM(start="kmeans", restarts=2, iterations=25), key=jr.key(3)
    )
    assert (np.diff(-found.history["loss"].to_numpy()) > -1e-9).all()
    model = found.model
    np.testing.assert_array_equal(model.dynamics[:, :2, 2:], 0.0)
    np.testing.assert_array_equal(model.dynamics_noise[:, 2:, :2], 0.0)
    np.testing.assert_array_equal(model.observation[0, 2:], 0.0)
    np.testing.assert_array_equal(model.observation[1, :2], 0.0)
    marginals = hs.variational_smooth(model, drawn.values[0]).marginals[0]
    right = (np.asarray(marginals.argmax(-1)) == np.asarray(drawn.regimes[0])).mean()
    assert max(right, 1 - right) > 0.8


def test_a_switch_that_looks_at_the_state_is_not_learned_by_em():
    model = model_of(recurrence=np.ones((REGIMES, STATE)))
    with pytest.raises(hs.HiddenStateError, match="a switch that looks at the state has no expectations"):
        hs.fit(model, observations(), hs.EM(), key=jr.key(0))
    with pytest.raises(hs.HiddenStateError, match="no variational posterior"):
        hs.variational_smooth(model, observations())
    with pytest.raises(hs.HiddenStateError, match="sweeps is 0"):
        hs.variational_smooth(model_of(), observations(), sweeps=0)


def test_an_empty_regime_is_started_anew(drawn):
    data, _ = drawn
    model = model_of(3)
    new = model.reseed(np.array([False, True]), data, key=jr.key(0))
    old, found = every(model), every(new)
    for name in RANKS:
        np.testing.assert_allclose(found[name][0], old[name][0], rtol=1e-12)
        assert not np.allclose(found[name][1], old[name][1])
    assert (np.asarray(new.transition_probs)[:, 1] >= np.asarray(model.transition_probs)[:, 1] - 0.1).all()


@pytest.mark.parametrize("how", ["random", "kmeans"])
def test_starts_are_made_of_any_data(how):
    single = hs.Sequences.of(list(np.random.default_rng(0).normal(size=(5, 1, EVENT))))
    new = model_of(3).restart(single, key=jr.key(0), how=how)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(eqx.filter(new, eqx.is_inexact_array)))
    with pytest.raises(hs.HiddenStateError, match="how is 'best'"):
        new.restart(single, key=jr.key(0), how="best")
