"""Noise on a cell's state: densities against scipy, draws and gradients by hand, and clear words where it cannot be."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats

import hiddenstate as hs
from hiddenstate.core import cast, partition
from hiddenstate.distributions.perturbed import PerturbedDistribution
from hiddenstate.networks.build import CELLS
from hiddenstate.ops.vectors import as_vector, entries, from_vector

KEY = jr.key(4)
X = jnp.array([0.3, -1.0, 0.5])
FAMILIES = {
    "normal": scipy.stats.norm,
    "laplace": scipy.stats.laplace,
    "logistic": scipy.stats.logistic,
    "student-t": scipy.stats.t(4.0),
}


def lstm():
    return hs.cells.LSTM(3, 2, key=KEY)


def rnn(cell):
    return hs.RNN(cell, hs.heads.Categorical(cell.output_size, 3, key=KEY))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_density_is_that_of_independent_noise_around_the_step(family):
    cell = hs.cells.Noisy(lstm(), [0.1, 0.2, 0.3, 0.4], family=family)
    state = hs.cells.LSTMState(jnp.array([0.1, -0.4]), jnp.array([0.2, 0.3]))
    step = cell.cell.step(state, cell.prepare(X))
    spread = cell.step_distribution(state, cell.prepare(X))
    where = np.array([0.3, -0.2, 0.1, 0.0])
    apart = where - np.concatenate([step.c, step.h])
    scale = np.array([0.1, 0.2, 0.3, 0.4])
    expected = (FAMILIES[family].logpdf(apart / scale) - np.log(scale)).sum()
    np.testing.assert_allclose(spread.log_prob(where), expected, rtol=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
def test_draws_have_the_distribution_of_their_family(family):
    spread = PerturbedDistribution(jnp.array([1.0, -2.0]), jnp.array([0.5, 0.0]), family)
    drawn = np.asarray(spread.sample(KEY, (4000,)))
    assert scipy.stats.kstest((drawn[:, 0] - 1.0) / 0.5, FAMILIES[family].cdf).pvalue > 1e-3
    assert (drawn[:, 1] == -2.0).all()


def test_an_entry_without_noise_is_certain():
    spread = PerturbedDistribution(jnp.array([1.0, -2.0]), jnp.array([0.5, 0.0]))
    np.testing.assert_allclose(spread.log_prob(jnp.array([1.2, -2.0])), scipy.stats.norm(1, 0.5).logpdf(1.2))
    assert spread.log_prob(jnp.array([1.2, -2.001])) == -np.inf
    slope = jax.grad(lambda z: spread.log_prob(jnp.array([z, -2.0])))(1.2)
    np.testing.assert_allclose(slope, -0.2 / 0.25)


def test_the_gradient_through_a_step_holds_the_noise_fixed():
    cell = hs.cells.Noisy(hs.cells.GRU(3, 2, key=KEY), 0.4)
    learned, rest = partition(cell)
    flat, back = jax.flatten_util.ravel_pytree(learned)
    noise = jr.normal(jr.key(8), (2,))

    def drawn(flat):
        cell = eqx.combine(back(flat), rest)
        return (cell.step_distribution(jnp.array([0.2, -0.1]), cell.prepare(X)).sample(jr.key(8)) ** 2).sum()

    slope = np.asarray(jax.grad(drawn)(flat))
    small = 1e-6 * np.eye(len(flat))
    both = jax.jit(jax.vmap(drawn))
    np.testing.assert_allclose(slope, (both(flat + small) - both(flat - small)) / 2e-6, atol=1e-7)
    # the derivative to the logarithm of the scale is that of sum (m + s e)^2
    mean = cell.cell.step(jnp.array([0.2, -0.1]), cell.prepare(X))
    np.testing.assert_allclose(slope[-1], (2 * (mean + 0.4 * noise) * 0.4 * noise).sum(), rtol=1e-10)


@pytest.mark.parametrize("name", [*CELLS, "complex"])
def test_every_state_is_a_vector_and_back(name):
    cell = hs.cells.DiagonalLinear(3, 2, complex=True, key=KEY) if name == "complex" else CELLS[name](3, 2, key=KEY)
    state = cell.step(cell.initial(), cell.prepare(X))
    vector = as_vector(state)
    assert vector.shape == (entries(state),) and vector.dtype == jnp.float64
    jax.tree.map(np.testing.assert_array_equal, from_vector(vector, jax.eval_shape(cell.initial)), state)


def test_scale_can_be_given_as_the_state_is():
    both = hs.cells.Noisy(lstm(), hs.cells.LSTMState(np.zeros(2), np.array([0.1, 0.2])), learn=False)
    np.testing.assert_allclose(both.scale, [0, 0, 0.1, 0.2])
    assert hs.cells.Noisy(lstm(), 0.3).scale.shape == ()
    np.testing.assert_allclose(hs.cells.Noisy(lstm(), 0.3).scale, 0.3)


def test_only_a_scale_that_is_learned_is_learned():
    count = hs.parameter_count(lstm())
    assert hs.parameter_count(hs.cells.Noisy(lstm(), 0.1)) == count + 1
    assert hs.parameter_count(hs.cells.Noisy(lstm(), [0.1] * 4)) == count + 4
    assert hs.parameter_count(hs.cells.Noisy(lstm(), 0.1, learn=False)) == count


def test_no_noise_is_the_cell_itself():
    data = [np.array([0, 1, 2, 1])]
    silent = hs.cells.Noisy(lstm(), 0.0, learn=False)
    np.testing.assert_array_equal(hs.log_prob(rnn(silent), data), hs.log_prob(rnn(lstm()), data))


@pytest.mark.parametrize(
    "use",
    [
        lambda model, data: hs.log_prob(model, data),
        lambda model, data: hs.states(model, data),
        lambda model, data: hs.Stream(model).push(1),
        lambda model, data: hs.sample(model, 2, key=KEY),
        lambda model, data: hs.fit(model, data, hs.SGD(steps=1), key=KEY, progress=False),
    ],
    ids=["log_prob", "states", "Stream", "sample", "fit"],
)
def test_what_needs_an_exact_likelihood_says_what_to_do(use):
    with pytest.raises(hs.HiddenStateError, match=r"ParticleFilter.*elbo.*Bound"):
        use(rnn(hs.cells.Noisy(lstm(), 0.1)), [np.array([0, 1, 2])])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scale": 0.0}, "scale is 0.0; it must be positive"),
        ({"scale": -1.0, "learn": False}, "scale is -1.0; it must be zero or more"),
        ({"scale": [1.0, 2.0]}, "one for each of the 4 entries"),
        ({"scale": "much"}, "scale is 'much'"),
        ({"scale": np.nan}, "finite"),
        ({"family": "uniform"}, "family is 'uniform'; it must be one of 'normal'"),
        ({"degrees": 0.0}, "degrees is 0.0; it must be a positive number"),
        ({"cell": hs.cells.MinGRU(3, 2, log_space=True, key=KEY)}, "log_space"),
        ({"cell": hs.cells.Noisy(hs.cells.Vanilla(3, 2, key=KEY))}, "cell is Noisy"),
    ],
)
def test_wrong_options_are_named(options, words):
    with pytest.raises(hs.HiddenStateError, match=words):
        hs.cells.Noisy(**{"cell": lstm(), **options})


def test_single_precision_stays_single():
    cell = cast(hs.cells.Noisy(lstm(), 0.1, family="student-t"), jnp.float32)
    spread = cell.step_distribution(cell.initial(), cell.prepare(X.astype(jnp.float32)))
    drawn = spread.sample(KEY)
    assert drawn.dtype == spread.log_prob(drawn).dtype == jnp.float32
