"""The kernels of the Kalman filter and its smoother against covariances in float64, step by step."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hiddenstate as hs
from hiddenstate.inference.batches import steps_of
from hiddenstate.strategies import prepared
from native.kernels import assert_close, assert_threads_agree, each_instruction_set, needs_kernels

SIZES = st.one_of(st.integers(1, 9), st.just(16))


def covariance(random, size):
    root = random.normal(size=(size, size + 2)) / np.sqrt(size + 2)
    return root @ root.T + 0.1 * np.eye(size)


def a_model(random, state, event, precision, **others):
    transition = random.normal(size=(state, state))
    given = {
        "transition": transition * (0.9 / np.abs(np.linalg.eigvals(transition)).max()),
        "transition_noise": covariance(random, state),
        "emission": random.normal(size=(event, state)),
        "emission_noise": covariance(random, event),
        "initial_mean": random.normal(size=state),
        "initial_covariance": covariance(random, state),
        "transition_offset": random.normal(size=state),
        "emission_offset": random.normal(size=event),
    }
    return hs.LinearGaussian(**{k: np.asarray(v, precision) for k, v in given.items()}, **others)


def some_data(random, model, lengths, missing, precision="float64"):
    xs = [random.normal(size=(length, model.event_size)).astype(precision) for length in lengths]
    if missing:
        for x in xs:
            x[random.random(x.shape) < 0.3] = np.nan
            x[random.integers(len(x))] = np.nan  # a whole step too
        xs[0][0, 0] = np.nan
    return hs.Sequences.of(xs)


def by_covariances(model, x):
    """Log-probabilities, predicted, filtered and smoothed moments of a sequence, in the textbook's form, in NumPy."""
    A, a, Q = (np.asarray(p, float) for p in (model.transition, model.transition_offset, model.transition_noise))
    C, c, R = (np.asarray(p, float) for p in (model.emission, model.emission_offset, model.emission_noise))
    m, P = np.asarray(model.initial_mean, float), np.asarray(model.initial_covariance, float)
    logs, before, known = [], [], []
    for row in x:
        before.append((m, P))
        seen = ~np.isnan(row)
        H, apart = C[seen], row[seen] - C[seen] @ m - c[seen]
        S = H @ P @ H.T + R[np.ix_(seen, seen)]
        gain = np.linalg.solve(S, H @ P).T
        log_size = np.linalg.slogdet(S)[1] if seen.any() else 0.0
        logs.append(-0.5 * (apart @ np.linalg.solve(S, apart) + log_size + seen.sum() * np.log(2 * np.pi)))
        m, P = m + gain @ apart, P - gain @ S @ gain.T
        known.append((m, P))
        m, P = A @ m + a, A @ P @ A.T + Q
    smooth, crossed = [known[-1]], []
    for t in range(len(x) - 2, -1, -1):
        (m, P), (ahead, spread) = known[t], before[t + 1]
        gain = np.linalg.solve(spread, A @ P).T
        later, later_spread = smooth[0]
        crossed.insert(0, gain @ later_spread)
        smooth.insert(0, (m + gain @ (later - ahead), P + gain @ (later_spread - spread) @ gain.T))
    pairs = np.reshape(crossed, (len(x) - 1, *P.shape))
    return np.array(logs), before, known, smooth, pairs


@eqx.filter_jit
def natively(model, arrays):
    """Log-probabilities, filtered and smoothed moments and beliefs of all sequences, by kernels, in one program."""

    def one(steps):
        native, first = hs.Native(), model.initial()
        log_probs, _ = model.score_sequence(first, steps, native)
        beliefs = native.run(model, first, prepared(model, steps), steps.valid)
        return log_probs, model.filter(steps, native), model.smooth(steps, native), beliefs.states

    return jax.vmap(one)(steps_of(arrays))


@needs_kernels
@each_instruction_set
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("precision", ["float32", "float64"])
@settings(max_examples=2, deadline=None)
@given(state=SIZES, event=SIZES, lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_filter_and_smoother_are_those_of_covariances(instructions, missing, precision, state, event, lengths, seed):
    random = np.random.default_rng(seed)
    model = a_model(random, state, event, precision)
    data = some_data(random, model, lengths, missing, precision)
    logs, filtered, smoothed, beliefs = assert_threads_agree(lambda: natively(model, data.arrays()), instructions)
    for i, length in enumerate(lengths):
        x = np.where(data.observed[i], data.values[i], np.nan) if missing else np.asarray(data.values[i])
        expected, before, known, smooth, crossed = by_covariances(model, x[:length].astype(float))
        assert_close(logs[i, :length], expected)
        assert (logs[i, length:] == 0).all()
        for found, wanted in ((filtered, known), (smoothed, smooth), (beliefs, before)):
            assert_close(found.mean[i, :length], np.stack([m for m, _ in wanted]))
            assert_close(found.covariance[i, :length], np.stack([P for _, P in wanted]))
        for found in (filtered, smoothed):  # behind the end the last one stands
            assert (found.mean[i, length:] == found.mean[i, length - 1]).all()
            assert (found.covariance[i, length:] == found.covariance[i, length - 1]).all()
        assert_close(smoothed.cross_covariance[i, : length - 1], crossed)
        assert (smoothed.cross_covariance[i, length - 1 :] == 0).all()


@needs_kernels
@pytest.mark.parametrize("read", [hs.filter, hs.smooth])
def test_moments_have_derivatives_of_all_kinds(read):
    random = np.random.default_rng(5)
    model = a_model(random, 2, 2, "float64")
    data = some_data(random, model, [4, 6], missing=True)

    def curvatures(strategy):
        def loss(offset):
            moved = eqx.tree_at(lambda m: m.parameters.transition_offset, model, offset)
            return jnp.sum(read(moved, data, strategy=strategy).mean ** 3)

        at = model.parameters.transition_offset
        forwards = jax.jvp(loss, (at,), (jnp.ones_like(at),))
        return forwards, jax.grad(loss)(at), jax.hessian(loss)(at)

    assert_close(curvatures(hs.Native()), curvatures(hs.Sequential()))


@needs_kernels
@pytest.mark.parametrize("missing", [False, True])
def test_a_sequence_has_the_same_numbers_in_every_batch(missing):
    random = np.random.default_rng(2)
    model = a_model(random, 4, 3, "float32")
    data = some_data(random, model, [6] * 21, missing, "float32")
    together, alone = natively(model, data.arrays()), natively(model, data[20:].arrays())
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[20:], b), together, alone)


@needs_kernels
def test_inputs_and_several_models_at_once():
    random = np.random.default_rng(3)
    inputs = {"transition_input": random.normal(size=(2, 3)), "emission_input": random.normal(size=(1, 3))}
    models = [a_model(random, 2, 1, "float64", **inputs) for _ in range(2)]
    xs, us = random.normal(size=(4, 5, 1)), random.normal(size=(4, 5, 3))
    data = hs.Sequences.of(list(xs), inputs=list(us))
    each = [hs.step_log_probs(model, data, strategy=hs.Sequential()) for model in models]
    stacked = jax.tree.map(lambda *a: jnp.stack(a), *models)
    found = eqx.filter_vmap(lambda model: hs.step_log_probs(model, data, strategy=hs.Native()))(stacked)
    assert_close(found, np.stack(each))


def rotating(state, decay, unit=1.0):
    """States that turn and decay, in units of their own, and begin far from where their covariance comes to rest."""
    random = np.random.default_rng(4)
    turn, _ = np.linalg.qr(random.normal(size=(state, state)))
    units = unit ** np.linspace(-1, 1, state)
    decays = np.where(np.arange(state) == 0, decay, 0.9)
    transition = (units[:, None] * (turn * decays) @ turn.T) / units
    noise = 0.1 * (1 - decay**2) * np.diag(units**2)
    return transition, noise, 0.1 * random.normal(size=(2, state)) / units, 9 * np.diag(units**2)


def mixed_units():
    """A fast state of a million, and one that holds a millionth of it beside a slow part of its own."""
    mix = np.array([[1e6, 0.0], [1.0, 1.0]])
    noise = mix @ np.diag([1.0, 0.02]) @ mix.T
    return (
        mix @ np.diag([0.2, 0.995]) @ np.linalg.inv(mix),
        noise,
        np.array([[1e-6, 0.0], [-1e-6, 1.0]]),
        9 * mix @ mix.T,
    )


season = np.array([[-1.0, -1, -1], [1, 0, 0], [0, 1, 0]])
AT_REST = {
    "two": rotating(2, 0.9),
    "sixteen": rotating(16, 0.95),
    "slow": rotating(3, 0.9999),
    "units": rotating(5, 0.99, 1e3),
    "mixed units": mixed_units(),
    "nearly constant level": (np.eye(1), 1e-8 * np.eye(1), np.ones((2, 1)), np.eye(1)),
    "quarters": (season, np.diag([0.1, 1e-6, 1e-6]), np.array([[1.0, 0, 0], [0.5, 0, 0]]), np.eye(3)),
    "observed explosion": (np.array([[1.05]]), np.eye(1), np.ones((2, 1)), np.eye(1)),
    "unseen walk": (np.eye(2), np.eye(2), np.array([[1.0, 0], [0.5, 0]]), np.eye(2)),
}


@needs_kernels
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-4), ("float64", 1e-11)])
@pytest.mark.parametrize("name", AT_REST)
def test_covariances_at_rest_are_those_of_every_step(name, precision, tolerance):
    transition, noise, emission, first = AT_REST[name]
    state = len(transition)
    given = {
        "transition": transition,
        "transition_noise": noise,
        "emission": emission,
        "emission_noise": np.eye(2),
        "initial_covariance": first,
        "initial_mean": np.zeros(state),
        "transition_offset": np.zeros(state),
        "emission_offset": np.zeros(2),
    }
    model = hs.LinearGaussian(**{k: np.asarray(v, precision) for k, v in given.items()})
    values = np.random.default_rng(0).normal(size=(1500, 2)).astype(precision)
    data = hs.Sequences.of([values])
    known = hs.filter(model, data, strategy=hs.Native())
    found = hs.smooth(model, data, strategy=hs.Native())
    _, _, filtered, smoothed, crossed = by_covariances(model, values.astype(float))
    filtered, smoothed = (np.stack([P for _, P in moments]) for moments in (filtered, smoothed))
    for covariance, expected, own in (
        (known.covariance, filtered, filtered),
        (found.covariance, smoothed, smoothed),
        (found.cross_covariance, crossed, smoothed[:-1]),
    ):
        deviations = np.sqrt(np.diagonal(own, axis1=1, axis2=2))
        scale = deviations[:, :, None] * deviations[:, None]
        assert np.max(np.abs(covariance[0] - expected) / scale) < tolerance


@needs_kernels
@pytest.mark.parametrize("lengths", [[1], [2], [1, 1], [33], [65, 65]])
@pytest.mark.parametrize("size", [1, 32])
def test_short_chains_and_the_largest_states(lengths, size):
    random = np.random.default_rng(6)
    model = a_model(random, size, size, "float64")
    data = some_data(random, model, lengths, missing=False)
    logs, filtered, smoothed, _ = natively(model, data.arrays())
    for i in range(len(lengths)):
        expected, _, known, smooth, crossed = by_covariances(model, np.asarray(data.values[i]))
        assert_close(logs[i], expected)
        for found, wanted in ((filtered, known), (smoothed, smooth)):
            assert_close(found.mean[i], np.stack([m for m, _ in wanted]))
            assert_close(found.covariance[i], np.stack([P for _, P in wanted]))
        assert_close(smoothed.cross_covariance[i], crossed)


@needs_kernels
def test_no_sequence_at_all_gives_no_numbers():
    model = a_model(np.random.default_rng(7), 2, 1, "float64")
    data = hs.Sequences.of([np.zeros((3, 1))] * 2)
    arrays = jax.tree.map(lambda a: a[:0], data.arrays())
    assert [a.shape[0] for a in jax.tree.leaves(natively(model, arrays))].count(0) >= 4


@needs_kernels
def test_nearly_certain_observations_keep_covariances_positive():
    model = hs.LinearGaussian(
        transition=np.array([[1, 1], [0, 1]], "float32"),
        transition_noise=np.array([1e-9, 1e-9], "float32"),
        emission=np.array([[1, 0]], "float32"),
        emission_noise=np.array([1e-10], "float32"),
        initial_mean=np.zeros(2, "float32"),
        initial_covariance=np.array([1, 1], "float32"),
    )
    data = hs.Sequences.of([np.arange(50, dtype="float32")[:, None]])
    for moments in (hs.filter(model, data, strategy=hs.Native()), hs.smooth(model, data, strategy=hs.Native())):
        spread = np.asarray(moments.covariance[0], float)
        assert (np.linalg.eigvalsh(spread) > -1e-6 * np.trace(spread, axis1=1, axis2=2)[:, None]).all()
        assert (np.diagonal(spread, axis1=1, axis2=2) > 0).all()


@needs_kernels
def test_auto_takes_the_kernel_where_there_is_one():
    random = np.random.default_rng(5)
    plain = a_model(random, 2, 2, "float64")
    large = a_model(random, 33, 1, "float64")
    diffuse = hs.LinearGaussian(
        transition=np.eye(1), transition_noise=np.ones(1), emission=np.eye(1), emission_noise=np.ones(1), diffuse=True
    )
    assert isinstance(hs.Auto().choose(plain, 10, "cpu").strategy, hs.Native)
    for model in (large, diffuse):
        assert isinstance(hs.Auto().choose(model, 10, "cpu").strategy, hs.Sequential)
        with pytest.raises(hs.StrategyError, match="no kernel"):
            hs.log_prob(model, np.zeros((1, 4, 1)), strategy=hs.Native())


@needs_kernels
def test_a_singular_transition_noise_is_smoothed_as_before():
    random = np.random.default_rng(6)
    model = hs.LinearGaussian(
        transition=np.array([[1.0, 1.0], [0.0, 1.0]]),
        transition_noise=np.array([0.0, 0.3]),
        emission=np.array([[1.0, 0.0]]),
        emission_noise=np.array([0.5]),
    )
    data = hs.Sequences.of([random.normal(size=(9, 1))])
    found, expected = (hs.smooth(model, data, strategy=s) for s in (hs.Native(), hs.Sequential()))
    assert_close(found, expected)
