"""Learning linear Gaussian models: EM, structures, recipes; and nonlinear ones."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import Frozen, Prior, cast, parameter_count, partition
from hiddenstate.inference import masked_log_probs, steps_of
from hiddenstate.latent.linear_gaussian import LinearGaussian, NonlinearGaussian, structural
from hiddenstate.latent.linear_gaussian.build import linear_gaussian
from marks import quick

EVERY = 20
SEQUENTIAL = hs.Sequential()


def random_covariance(rng, n):
    root = rng.normal(size=(n, n))
    return root @ root.T + 0.2 * np.eye(n)


def random_model(seed, **change):
    rng = np.random.default_rng(seed)
    parts = {
        "transition": 0.5 * rng.normal(size=(2, 2)),
        "transition_offset": rng.normal(size=2),
        "transition_input": rng.normal(size=(2, 1)),
        "transition_noise": random_covariance(rng, 2),
        "emission": rng.normal(size=(2, 2)),
        "emission_offset": rng.normal(size=2),
        "emission_input": rng.normal(size=(2, 1)),
        "emission_noise": random_covariance(rng, 2),
        "initial_mean": rng.normal(size=2),
        "initial_covariance": random_covariance(rng, 2),
    }
    return LinearGaussian(**(parts | change))


def random_data(seed):
    rng = np.random.default_rng(seed)
    xs = rng.normal(size=(3, EVERY, 2)).cumsum(1)
    lengths, observed = [EVERY, 9, 4], rng.random((3, EVERY, 2)) < 0.8
    return hs.Sequences.padded(xs, lengths, missing=~observed, inputs=rng.normal(size=(3, EVERY, 1)))


def test_statistics_of_whole_observations_are_those_of_entries_none_of_which_is_missing():
    model, data = random_model(7), random_data(7)
    arrays = data.arrays()._replace(observed=None)
    steps, everything = steps_of(arrays), steps_of(arrays._replace(observed=np.ones(data.observed.shape, bool)))
    run = jax.jit(jax.vmap(lambda steps: model.expected_statistics(steps, SEQUENTIAL)))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-10), run(steps), run(everything))


@eqx.filter_jit
def em_path(model, arrays, count, only=None, prior=None, strategy=SEQUENTIAL):
    """The model after `count` iterations, and the log-probability before each."""
    learned, rest = partition(model)

    def iterate(learned, _):
        model = eqx.combine(learned, rest)
        found, log_probs = jax.vmap(lambda steps: model.expected_statistics(steps, strategy))(steps_of(arrays))
        new = model.maximise(jax.tree.map(lambda a: a.sum(0), found), only=only, prior=prior)
        return partition(new)[0], log_probs.sum()

    learned, path = jax.lax.scan(iterate, learned, length=count)
    return eqx.combine(learned, rest), path


CASES = {
    "all": {},
    "diagonal": {"transition_noise": [1.0, 2.0], "emission_noise": [0.5, 1.0], "initial_covariance": [1.0, 0.0]},
    "singular": {"transition_noise": np.ones((2, 2))},
    "fixed": {"fixed": ("transition", "emission_offset", "emission_noise")},
    "varying": {"emission": np.random.default_rng(5).normal(size=(EVERY, 2, 2))},
    "diffuse": {"diffuse": [True, False]},
}


@pytest.mark.parametrize("name", quick(CASES, 2))
def test_em_never_falls(name):
    for seed in range(6):
        model = random_model(seed, **CASES[name])
        new, path = em_path(model, random_data(seed).arrays(np.float64), 15)
        assert np.diff(path).min() > -1e-8 * abs(path[0]), seed
        assert jax.tree.structure(new) == jax.tree.structure(model)
        for kept in model_parts_fixed(model):
            np.testing.assert_array_equal(getattr(new, kept), getattr(model, kept))


@pytest.mark.slow
def test_small_variances_around_a_high_level_are_learned_in_single_precision():
    """Sums of squares of the level would drown them: 400 squared is a million million times the least variance."""
    rng = np.random.default_rng(0)
    slopes = 0.1 + np.cumsum(1e-3 * rng.normal(size=300))
    xs = 400 + np.cumsum(slopes) + 0.1 * rng.normal(size=300)
    data = hs.Sequences.of([xs.astype(np.float32)])
    model = cast(hs.build("linear-gaussian", data, structure="trend", key=jr.key(0)), jnp.float32)
    fit = hs.fit(model, data, hs.EM(iterations=40, tolerance=0.0), key=jr.key(1), progress=False)
    assert np.diff(fit.history["loss"].to_numpy()).max() < 1e-5, fit.reason
    exact = hs.fit(cast(model, jnp.float64), data, hs.EM(iterations=40, tolerance=0.0), key=jr.key(1), progress=False)
    np.testing.assert_allclose(fit.history["loss"][-1], exact.history["loss"][-1], atol=1e-3)


def model_parts_fixed(model):
    return [
        n
        for n in ("transition", "emission_offset", "emission_noise")
        if isinstance(getattr(model.parameters, n), Frozen)
    ]


@pytest.mark.slow
def test_em_climbs_to_where_the_gradient_is_zero():
    """At its fixed point the likelihood is stationary, in parallel too; `only` changes what it names and no more."""
    rng = np.random.default_rng(0)
    x = np.zeros(60)
    for t in range(1, 60):
        x[t] = 0.8 * x[t - 1] + rng.normal()
    data = hs.Sequences.of([x + 0.5 * rng.normal(size=60)], missing=[rng.random(60) < 0.2])
    model = LinearGaussian(
        transition=[[0.5]],
        transition_noise=[[1.0]],
        emission=[1.0],
        emission_noise=1.0,
        fixed=("emission", "initial_mean", "initial_covariance"),
    )
    arrays = data.arrays(np.float64)
    new, _ = em_path(model, arrays, 3000)
    learned, rest = partition(new)
    slope = jax.grad(lambda p: masked_log_probs(eqx.combine(p, rest), arrays, hs.Sequential())[0].sum())(learned)
    assert max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(slope) if leaf.size) < 1e-4
    parallel, path = em_path(model, arrays, 3, strategy=hs.Associative())
    other, same = em_path(model, arrays, 3)
    np.testing.assert_allclose(path, same, rtol=1e-10)
    np.testing.assert_allclose(parallel.transition_noise, other.transition_noise, rtol=1e-8)
    part, _ = em_path(model, arrays, 2, only=("transition_noise",))
    assert part.transition == model.transition and part.transition_noise != model.transition_noise
    floored, _ = em_path(model, arrays, 5, prior=Prior(variance_floor=3.0))
    assert float(floored.emission_noise) >= 3.0 - 1e-12 and float(floored.transition_noise[0, 0]) >= 3.0 - 1e-12
    with pytest.raises(hs.HiddenStateError, match="only names 'noise'"):
        model.maximise(None, only=("noise",))


@pytest.mark.slow
def test_structures_learn_only_what_is_theirs():
    """EM rises for a sum of all structures; gradients are finite; coefficients stay stationary; files keep them."""
    sun = hs.datasets.sunspots()
    x = np.log1p(sun.values[0, :80])
    data = hs.Sequences.of([x])
    structure = (
        structural.local_linear_trend(0.01, 0.0)
        + structural.seasonal(3, 0.0)
        + structural.ar(2, [0.5, 0.1])
        + structural.damped_oscillation(9.0)
    )
    model = structure.model(emission_noise=0.1)
    assert parameter_count(model) == 1 + 1 + 1 + 2 + 1 + 2  # variances of level, ar, oscillation, noise; coefficients
    new, path = em_path(model, data.arrays(np.float64), 25)
    assert np.diff(path).min() > -1e-8 * abs(path[0])
    autoregression, cycle = new.parameters.transition.blocks[2:]
    assert np.abs(np.roots([1, *-autoregression.coefficients])).max() < 1
    assert 0 < cycle.damping < 1 and cycle.period > 2
    np.testing.assert_array_equal(np.diagonal(new.transition_noise) == 0, np.diagonal(model.transition_noise) == 0)
    learned, rest = partition(model)
    slope = jax.grad(
        lambda p: masked_log_probs(eqx.combine(p, rest), data.arrays(np.float64), hs.Sequential())[0].sum()
    )(learned)
    assert all(np.isfinite(leaf).all() and (leaf != 0).all() for leaf in jax.tree.leaves(slope))


def test_structure_mistakes():
    for make, message in (
        (lambda: structural.seasonal(1), "period is 1; it must be a whole number of at least 2"),
        (lambda: structural.ar(2, [0.9, 0.5]), "are not stationary"),
        (lambda: structural.ar(0), "order is 0"),
        (lambda: structural.damped_oscillation(1.5), "period is 1.5; it must be more than 2 steps"),
        (lambda: structural.damped_oscillation(5, 1.0), "damping is 1.0; it must lie between 0 and 1"),
        (lambda: structural.local_level(-1.0), "variance is -1.0; it must be a number of at least 0"),
    ):
        with pytest.raises(hs.HiddenStateError, match=message):
            make()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"structure": "local-level", "diffuse": True},
        {"structure": "trend+seasonal", "period": 4},
        {"structure": "ar+oscillation"},
    ],
    ids=str,
)
def test_recipe(options, tmp_path):
    data = hs.datasets.nile()
    model = linear_gaussian(data, key=jr.key(0), **options)
    new, path = em_path(model, data.arrays(np.float64), 30)
    assert np.diff(path).min() > -1e-8 * abs(path[0])
    assert path[-1] > -655
    hs.save(new, tmp_path / "model.safetensors")
    assert eqx.tree_equal(hs.load(tmp_path / "model.safetensors"), new)
    again = model.restart(data, key=jr.key(1), how="random")
    assert jax.tree.structure(again) == jax.tree.structure(model)
    assert np.isfinite(hs.log_prob(again, data)).all() and not eqx.tree_equal(again, model)


def test_recipe_of_vectors_and_its_mistakes():
    data = random_data(0)
    model = linear_gaussian(data, key=jr.key(0))
    assert model.state_size == 3 and model.inputs == 1
    path = em_path(model, data.arrays(np.float64), 10)[1]
    assert np.diff(path).min() > 0
    for bad, options, message in (
        (data, {"structure": "level"}, "structures are for single numbers"),
        (hs.datasets.nile(), {"structure": "levels"}, "structure names 'levels'; it takes level, local-level, trend"),
        (hs.datasets.nile(), {"structure": "seasonal"}, "period is None; structure 'seasonal' needs it"),
        (hs.Sequences.of([[0, 1, 2, 1]]), {}, "the data hold symbols"),
    ):
        with pytest.raises(hs.HiddenStateError, match=message):
            linear_gaussian(bad, key=jr.key(0), **options)


def test_continuous_time():
    """A damped spring with an input: exact discretisation equals many small steps; uneven steps vary."""
    A, B = np.array([[0.0, 1.0], [-2.0, -0.3]]), np.array([[0.0], [1.0]])
    noise = np.diag([0.0, 0.7])
    model = LinearGaussian.from_continuous(A, B, [1.0, 0.0], None, 0.5, noise=noise, emission_noise=0.1)
    fine, small, driven, spread = 0.5 / 20000, np.eye(2), np.zeros((2, 1)), np.zeros((2, 2))
    for _ in range(20000):
        driven = driven + fine * (A @ driven + B)
        spread = spread + fine * (A @ spread + spread @ A.T + noise)
        small = small + fine * A @ small
    np.testing.assert_allclose(model.transition, small, atol=1e-4)
    np.testing.assert_allclose(model.transition_input, driven, atol=1e-4)
    np.testing.assert_allclose(model.transition_noise, spread, atol=1e-4)
    uneven = LinearGaussian.from_continuous(A, B, [1.0, 0.0], None, [0.5, 0.25, 0.25], noise=noise, emission_noise=0.1)
    assert uneven.horizon == 3
    np.testing.assert_allclose(uneven.transition[1] @ uneven.transition[2], model.transition, atol=1e-12)
    with pytest.raises(hs.HiddenStateError, match="dt is 0; it must be a positive number"):
        LinearGaussian.from_continuous(A, B, [1.0, 0.0], None, 0, noise=noise, emission_noise=0.1)


@pytest.mark.parametrize("method", quick(["extended", "unscented"]))
@pytest.mark.slow
def test_nonlinear_filters_are_exact_for_linear_functions(method, tmp_path):
    linear = LinearGaussian(
        transition=[[0.9, 0.2], [0.0, 0.7]],
        transition_noise=[0.5, 0.0],
        emission=[[1.0, 0.5], [0.0, 1.0]],
        emission_noise=[0.4, 0.2],
        initial_mean=[1.0, 0.0],
        initial_covariance=[1.0, 2.0],
    )
    model = NonlinearGaussian(
        transition=lambda z, u: linear.transition @ z,
        emission=lambda z, u: linear.emission @ z,
        transition_noise=[0.5, 0.0],
        emission_noise=[0.4, 0.2],
        initial_mean=[1.0, 0.0],
        initial_covariance=[1.0, 2.0],
        method=method,
    )
    rng = np.random.default_rng(0)
    data = hs.Sequences.padded(rng.normal(size=(2, 6, 2)), [6, 3], missing=rng.random((2, 6, 2)) < 0.3)
    np.testing.assert_allclose(hs.log_prob(model, data), hs.log_prob(linear, data), atol=1e-10)
    for ours, exact in (
        (hs.filter(model, data), hs.filter(linear, data)),
        (hs.smooth(model, data), hs.smooth(linear, data)),
    ):
        for name, value in ours._asdict().items():
            np.testing.assert_allclose(value, getattr(exact, name), atol=1e-9)
    slope = eqx.filter_grad(lambda m: hs.log_prob(m, data).sum())(model)
    same = eqx.filter_grad(lambda m: hs.log_prob(m, data).sum())(linear)
    np.testing.assert_allclose(slope.first, same.parameters.initial_mean, atol=1e-8)
    for mine, theirs in zip(slope.noises[1].log_variances, same.parameters.emission_noise.log_variances, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-8)
    with pytest.raises(hs.FileError, match="'transition' of the model is <function"):
        hs.save(model, tmp_path / "model.safetensors")


def test_unscented_points_know_the_mean_of_a_square():
    model = NonlinearGaussian(
        transition=lambda z, u: 0.5 * z,
        emission=lambda z, u: z[0] ** 2,
        transition_noise=[[0.1]],
        emission_noise=0.3,
        initial_mean=[1.0],
        initial_covariance=[[0.5]],
        method="unscented",
    )
    first = model.readout(model.initial())
    np.testing.assert_allclose(first.mean, 1.5, atol=1e-12)
    np.testing.assert_allclose(first.variance, 4 * 0.5 + 2 * 0.25 + 0.3, atol=1e-12)
    assert model.latent_emission(jnp.array([2.0])).mean == 4.0
    with pytest.raises(hs.HiddenStateError, match="method is 'cubature'"):
        NonlinearGaussian(
            transition=lambda z, u: z,
            emission=lambda z, u: z,
            transition_noise=[[1.0]],
            emission_noise=[[1.0]],
            initial_mean=[0.0],
            initial_covariance=[[1.0]],
            method="cubature",
        )
