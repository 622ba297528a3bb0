"""Bounds on the likelihood: equal to it without noise, below it with noise, and unbiased before the logarithm."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.networks.build import CELLS
from learn.small_models import symbols
from learn.test_checkpoint import Interruption, assert_same_result, interrupted_at

KEY = jr.key(2)
SCALE = 0.6
XS = np.array([0.5, -1.0, 1.2, 0.3])


def noisy(scale=0.2, hidden=3, **options):
    cell = hs.cells.GRU(3, hidden, key=KEY)
    return hs.RNN(hs.cells.Noisy(cell, scale, **options), hs.heads.Categorical(hidden, 3, key=KEY), initial="learned")


# -- without noise ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CELLS)
def test_without_noise_the_bound_is_the_log_probability(name):
    """Sohl-Dickstein and Kingma 2015, equation 15."""
    model = hs.build(name, symbols(2, 4, ragged=True), hidden=2, key=KEY)
    data = symbols(2, 4, ragged=True)
    found = hs.objectives.elbo(model, None, data, key=KEY)
    np.testing.assert_allclose(found, hs.log_prob(model, data), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("particles", "threshold"), [(1, 1.0), (4, 0.0), (4, 1.0)])
def test_particles_without_noise_are_all_the_same_network(particles, threshold):
    model, data = noisy(0.0, learn=False), symbols(3, 5, ragged=True)
    plain = hs.RNN(model.cell.cell, model.head, initial="learned")
    filter = hs.ParticleFilter(model, particles, threshold=threshold, key=KEY)
    np.testing.assert_allclose(hs.log_prob(filter, data), hs.log_prob(plain, data), rtol=0, atol=1e-12)


# -- with noise: one unit, where the likelihood is known by quadrature -----------------------------------------


@pytest.fixture(scope="module")
def one_unit():
    cell = hs.cells.Vanilla(1, 1, key=jr.key(3))
    cell = eqx.tree_at(lambda c: (c.recurrent_weight, c.bias), cell, (jnp.array([[0.9]]), jnp.array([0.2])))
    head = hs.heads.Gaussian(1, None, dispersion="constant", key=jr.key(1))
    head = eqx.tree_at(lambda h: (h.weight, h.bias), head, (jnp.array([[1.5]]), jnp.array([0.1, -0.5])))
    return hs.RNN(hs.cells.Noisy(cell, SCALE), head)


@pytest.fixture(scope="module")
def true(one_unit):
    """log p(x) by sums over a dense grid of hidden states, in NumPy, from the equations of cell and head."""
    cell, head = one_unit.cell.cell, one_unit.head
    w, b, c = (float(a.squeeze()) for a in (cell.recurrent_weight, cell.input_weight, cell.bias))
    slope, (offset, _) = float(head.weight[0, 0]), np.asarray(head.bias)
    spread = float(one_unit.readout(jnp.zeros(1)).variance) ** 0.5

    def normal(x, mean, deviation):
        return np.exp(-0.5 * ((x - mean) / deviation) ** 2) / deviation / np.sqrt(2 * np.pi)

    grid = np.linspace(-5.0, 5.0, 1201)
    width = grid[1] - grid[0]
    states, mass = np.zeros(1), normal(XS[:1], offset, spread)
    for before, x in itertools.pairwise(XS):
        moved = normal(grid[:, None], np.tanh(w * states + b * before + c), SCALE)
        states, mass = grid, (moved @ mass) * normal(x, slope * grid + offset, spread) * width
    return float(np.log(mass.sum()))


@pytest.fixture(scope="module")
def bent(one_unit):
    """An inference model that knows nothing of the true posterior, but is no model either."""
    made = hs.Correction(one_unit, hidden=2, key=KEY)
    return eqx.tree_at(lambda m: m.outer_weight, made, jnp.array([[0.5, -0.3], [0.2, -0.2]]))


@pytest.fixture(scope="module")
def estimates(one_unit, bent):
    """Every bound, two thousand times with independent draws."""
    data, o = hs.Sequences.of([XS] * 2000), hs.objectives
    return {
        "elbo": o.elbo(one_unit, None, data, key=KEY),
        "elbo, inference": o.elbo(one_unit, bent, data, key=KEY),
        "iwae 5": o.iwae(one_unit, None, data, key=KEY, particles=5),
        "iwae 50": o.iwae(one_unit, None, data, key=KEY, particles=50),
        "fivo 5": o.fivo(one_unit, None, data, key=KEY, particles=5, threshold=1.0),
        "fivo 5, inference": o.fivo(one_unit, bent, data, key=KEY, particles=5),
    }


def mean_and_error(values):
    values = np.asarray(values)
    return values.mean(), values.std() / np.sqrt(len(values))


@pytest.mark.slow
def test_the_likelihood_estimates_are_unbiased(estimates, true):
    for name, values in estimates.items():
        mean, error = mean_and_error(np.exp(np.asarray(values) - true))
        assert abs(mean - 1) < 4 * error, (name, mean, error)
        assert error < 0.05, name


def test_no_bound_exceeds_the_likelihood(estimates, true):
    for name, values in estimates.items():
        mean, error = mean_and_error(values)
        assert mean < true + 3 * error, (name, mean, error)


def test_more_particles_are_tighter(estimates, true):
    elbo, five, fifty, filtering = (estimates[n].mean() for n in ("elbo", "iwae 5", "iwae 50", "fivo 5"))
    assert elbo + 0.05 < five < fifty - 0.05
    assert abs(fifty - true) < 0.03
    assert elbo < filtering


def test_samples_are_averaged(one_unit):
    data = [XS] * 500
    one = np.asarray(hs.objectives.elbo(one_unit, None, data, key=KEY))
    many = np.asarray(hs.objectives.elbo(one_unit, None, data, key=KEY, samples=25))
    np.testing.assert_allclose(many.std() / one.std(), 1 / 5, rtol=0.25)
    assert abs(many.mean() - one.mean()) < 4 * one.std() / np.sqrt(500)


def test_the_gradient_of_the_bound_is_that_of_its_value(one_unit, bent):
    """With the noise held fixed, against finite differences; the model's parameters and the inference's."""
    learned, rest = eqx.partition((one_unit, bent), eqx.is_inexact_array)
    flat, back = jax.flatten_util.ravel_pytree(learned)

    @jax.jit
    def bound(flat):
        model, inference = eqx.combine(back(flat), rest)
        return hs.objectives.iwae(model, inference, XS, key=KEY, particles=3)[0]

    slope = jax.jit(jax.grad(bound))(flat)
    differences = [(bound(flat + d) - bound(flat - d)) / 2e-6 for d in 1e-6 * np.eye(len(flat))]
    np.testing.assert_allclose(slope, differences, atol=1e-6)
    assert (np.abs(slope) > 1e-4).sum() > len(flat) // 2


def test_a_missing_symbol_is_imagined_by_every_particle():
    model = hs.build("gru", symbols(2, 4), hidden=2, key=KEY)
    model = eqx.tree_at(lambda m: m.head.weight, model, 3 * model.head.weight)
    xs = np.array([0, 2, 1, 1])
    every = hs.log_prob(model, [np.array([0, x, 1, 1]) for x in range(3)])
    gap = hs.Sequences.of([xs], missing=[np.arange(4) == 1])
    found = hs.log_prob(hs.ParticleFilter(model, 4000, threshold=0, key=KEY), gap)
    np.testing.assert_allclose(found, jax.nn.logsumexp(every), atol=0.02)
    assert float(jnp.ptp(every)) > 0.1


# -- learning --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_noise_is_learned_away():
    """Section 2.3: noise-free dynamics are optimal for the bound with q = p."""
    data = hs.tasks.modes(2, sequences=32, length=12, key=KEY).data
    plain = hs.build("vanilla", data, hidden=4, key=KEY)
    model = hs.RNN(hs.cells.Noisy(plain.cell, 1.0), plain.head, initial="learned")
    method = hs.SGD(objective=hs.objectives.Bound(), steps=250, learning_rate=0.05, patience=None)
    fit = hs.fit(model, data, method, key=KEY, progress=False)
    assert float(fit.model.cell.scale) < 0.1


@pytest.mark.slow
def test_an_interrupted_run_draws_what_it_would_have_drawn(tmp_path, monkeypatch):
    data = symbols(8, 10)

    def run(checkpoint):
        objective = hs.objectives.Bound(particles=2, threshold=1.0)
        method = hs.SGD(
            epochs=2, batch_size=4, truncate=5, objective=objective, validate="objective", checkpoint_every=0
        )
        return hs.fit(noisy(), data, method, key=KEY, validation=data, checkpoint=checkpoint, progress=False)

    unbroken = run(None)
    with monkeypatch.context() as patch:
        interrupted_at(patch, 6, Interruption())  # between two chunks of the second epoch
        with pytest.raises(Interruption):
            run(tmp_path / "run")
    assert_same_result(run(tmp_path / "run"), unbroken, tmp_path)


def test_wrong_arguments_are_named():
    filter = hs.ParticleFilter(noisy(), 2, key=KEY)
    with pytest.raises(hs.HiddenStateError, match="particles is 3, but ParticleFilter has its own"):
        hs.fit(filter, symbols(2, 3), hs.SGD(objective=hs.objectives.Bound(particles=3)), key=KEY)
    with pytest.raises(hs.HiddenStateError, match="samples is 0"):
        hs.objectives.elbo(noisy(), None, symbols(2, 3), key=KEY, samples=0)
    with pytest.raises(hs.HiddenStateError, match="Transducer of GRU has no hidden states"):
        pairs = hs.Pairs.of(symbols(2, 3), symbols(2, 3))
        hs.objectives.Bound().check(hs.build("gru", pairs, key=KEY), hs.Auto())
    with pytest.raises(hs.HiddenStateError, match=r"proposal is 'auxiliary'.*posterior\(prior, x, u\)"):
        hs.ParticleFilter(noisy(), 2, "auxiliary", key=KEY)
    with pytest.raises(hs.HiddenStateError, match="inference is 'q'; it must be an object with posterior"):
        hs.objectives.elbo(noisy(), "q", symbols(2, 3), key=KEY)
    larger = hs.build("noisy", symbols(2, 3), cell="gru", hidden=7, key=KEY).model
    with pytest.raises(hs.HiddenStateError, match="numbers, but this Correction is for 7"):
        hs.objectives.elbo(noisy(), hs.Correction(larger, key=KEY), symbols(2, 3), key=KEY)
    with pytest.raises(hs.HiddenStateError, match="cell is 'gruu'; it must be one of vanilla"):
        hs.build("noisy", symbols(2, 3), cell="gruu", key=KEY)


def test_the_recipe_makes_a_filter_of_a_noisy_network():
    model = hs.build("noisy", symbols(2, 3), cell="lstm", hidden=2, particles=3, scale=0.2, layers=2, key=KEY)
    assert (model.particles, model.model.cell.hidden_size) == (3, 2)
    np.testing.assert_allclose(model.model.cell.scale, 0.2)
