"""The kernels of normal emissions against plain sums in float64."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hiddenstate as hs
from hiddenstate.learn.statistics import expect, stack
from hiddenstate.native import normal
from native.kernels import EXAMPLES, assert_close, assert_threads_agree, needs_kernels

each_precision = pytest.mark.parametrize("precision", ["float32", "float64"])
shapes = given(
    states=st.integers(1, 40),
    columns=st.integers(1, 9),
    lengths=st.lists(st.integers(0, 300), min_size=1, max_size=5),
    seed=st.integers(0, 99),
)
axes = (None, None, None, None, 0, 0)


def example(states, columns, lengths, seed):
    """Centres, offsets, inverse deviations, constants, and values and masks of all sequences."""
    random = np.random.default_rng(seed)
    table = lambda: random.normal(size=(states, columns))  # noqa: E731
    values = random.normal(size=(len(lengths), max(1, *lengths), columns))
    valid = np.arange(values.shape[1]) < np.array(lengths)[:, None]
    return 3 * table(), table(), np.exp(0.3 * table()), random.normal(size=states), values, valid


def plainly(centres, offsets, inverse, constants, values, valid):
    deviations = ((values[..., None, :] - centres) - offsets) * inverse
    return jnp.where(valid[..., None], constants - (deviations**2).sum(-1) / 2, 0)


def summed(centres, offsets, inverse, weights, values, valid):
    deviations = ((values[..., None, :] - centres) - offsets) * inverse
    weights = jnp.where(valid[..., None], weights, 0)[..., None]
    return weights.sum((1, 3)), (weights * deviations).sum(1), (weights * deviations**2).sum(1)


def slopes(run, weights):
    return jax.jit(jax.grad(lambda *given: (run(*given) * weights).sum(), (0, 1, 2, 3, 4)))


@needs_kernels
@each_precision
@settings(max_examples=EXAMPLES, deadline=None)
@shapes
def test_densities_and_their_gradients_are_plain_ones(precision, states, columns, lengths, seed):
    *numbers, valid = example(states, columns, lengths, seed)
    given = [jnp.asarray(a, precision) for a in numbers]
    exact = [jnp.asarray(np.asarray(a), "float64") for a in given]
    weights = np.random.default_rng(seed).normal(size=(*valid.shape, states))
    expected = plainly(*exact, valid), slopes(lambda *a: plainly(*a, valid), weights)(*exact)
    every = jax.vmap(normal.log_densities, axes)
    gradient = slopes(lambda *a: every(*a, valid), jnp.asarray(weights, precision))
    for instructions in hs.native.instruction_sets():
        run = lambda: (jax.jit(every)(*given, valid), gradient(*given))  # noqa: E731
        assert_close(assert_threads_agree(run, instructions), expected)


@needs_kernels
@each_precision
@settings(max_examples=EXAMPLES, deadline=None)
@shapes
def test_moments_are_plain_sums(precision, states, columns, lengths, seed):
    centres, offsets, inverse, _, values, valid = example(states, columns, lengths, seed)
    weights = np.random.default_rng(seed).random((*valid.shape, states))
    given = [jnp.asarray(a, precision) for a in (centres, offsets, inverse, weights, values)]
    expected = summed(*(jnp.asarray(np.asarray(a), "float64") for a in given), valid)
    every = jax.jit(jax.vmap(normal.moments, (None, None, None, 0, 0, 0)))
    for instructions in hs.native.instruction_sets():
        assert_close(assert_threads_agree(lambda: every(*given, valid), instructions), expected)


@needs_kernels
def test_moments_stay_precise_over_long_time():
    weights, values = jnp.ones((1_000_000, 1), "float32"), jnp.full((1_000_000, 1), 0.1, "float32")
    nothing, one = jnp.zeros((1, 1), "float32"), jnp.ones((1, 1), "float32")
    weight, first, _ = normal.moments(nothing, nothing, one, weights, values, None)
    assert float(weight[0]) == 1_000_000
    np.testing.assert_allclose(first[0, 0], 1_000_000 * np.float64(np.float32(0.1)), rtol=1e-5)


KINDS = {
    "diagonal": ((3, 2), (3, 2), "diagonal"),
    "spherical": ((3, 2), (3,), "spherical"),
    "single numbers": ((3,), (3,), None),
    "single numbers of one variance": ((3,), (), "tied"),
}


@needs_kernels
@pytest.mark.parametrize("kind", KINDS)
def test_emissions_are_the_same_by_kernels(kind):
    """Every kind whose entries are independent, in value, gradient and expected statistics."""
    random = np.random.default_rng(0)
    shape, spread, covariance = KINDS[kind]
    emission = hs.emissions.Gaussian(random.normal(size=shape), random.uniform(0.5, 2, spread), covariance)
    model = hs.cast(hs.HMM(np.ones(3) / 3, random.dirichlet(np.ones(3), 3), emission), jnp.float64)
    data = hs.Sequences.of([random.normal(size=(n, *shape[1:])) for n in (7, 1, 30)])
    learned, rest = eqx.partition(model, eqx.is_inexact_array)

    def found(strategy):
        total = lambda part: hs.log_prob(eqx.combine(part, rest), data, strategy=strategy, total=True)  # noqa: E731
        statistics = expect(stack([model]), data, strategy)[0]
        return hs.log_prob(model, data, strategy=strategy), jax.grad(total)(learned), statistics

    assert_close(found(hs.Native()), found(hs.Sequential()))
