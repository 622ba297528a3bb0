"""How gradients fade: against closed forms of linear networks, and plain loops."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import cast
from hiddenstate.inspect import gradients
from marks import quick


def network(matrix, nonlinearity: str = "identity", precision: str = "float64", scale: float = 1.0) -> hs.RNN:
    """A vanilla network with this recurrent matrix."""
    size = len(matrix)
    cell_key, head_key = jr.split(jr.key(0))
    cell = hs.cells.Vanilla(1, size, nonlinearity=nonlinearity, key=cell_key)
    model = hs.RNN(cell, hs.heads.Gaussian(size, None, key=head_key))
    into = scale * model.cell.input_weight
    where = lambda m: (m.cell.recurrent_weight, m.cell.input_weight)  # noqa: E731
    return cast(
        eqx.tree_at(where, model, (jnp.asarray(matrix, jnp.float32 if precision == "float32" else float), into)),
        precision,
    )


def noise(*lengths: int) -> hs.Sequences:
    draws = np.random.default_rng(0)
    return hs.Sequences.of([draws.normal(size=length) for length in lengths])


def turning(radius: float) -> np.ndarray:
    """A dense matrix whose leading eigenvalues are complex, radius * exp(±0.7 i)."""
    blocks = np.zeros((4, 4))
    blocks[:2, :2] = radius * np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
    blocks[2:, 2:] = np.diag([0.5 * radius, -0.3 * radius])
    basis = np.random.default_rng(3).normal(size=(4, 4))
    return basis @ blocks @ np.linalg.inv(basis)


def non_normal(radius: float) -> np.ndarray:
    """Eigenvalues below the radius, with a large step from one to the next, so that differences grow at first."""
    return np.diag([radius, 0.8 * radius, 0.6 * radius]) + np.diag([2.0, 2.0], 1)


LINEAR = {"turning": turning(0.9), "growing": turning(1.05), "non-normal": non_normal(0.95)}


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("precision", quick(["float32", "float64"]))
def test_rate_of_a_linear_network_is_its_spectral_radius(name: str, precision: str):
    matrix = LINEAR[name]
    radius = np.abs(np.linalg.eigvals(matrix)).max()
    found = gradients.decay(network(matrix, precision=precision), noise(540), np.arange(25, 501, 25), starts=4)
    assert found.rate == pytest.approx(radius, rel=0.01)
    assert found.verdict == ("explodes" if radius > 1 else "vanishes")
    assert np.isfinite(found.log_norms).all()
    due = [np.linalg.norm(np.linalg.matrix_power(matrix, lag), 2) for lag in found.lags]
    np.testing.assert_allclose(found.log_norms, np.log(due), atol=2e-3 if precision == "float32" else 1e-9)


def test_norm_at_lag_500_does_not_underflow_in_float32():
    found = gradients.decay(network(turning(0.5), precision="float32"), noise(510), [250, 500], starts=2)
    assert found.rate == pytest.approx(0.5, rel=0.01)
    assert found.log_norms[-1] < np.log(np.finfo(np.float32).tiny)
    assert "e-150" in str(found)


def test_diagonal_linear_cell_decays_by_its_time_constant():
    cell = hs.cells.DiagonalLinear(1, 3, time_constants=[2.0, 5.0, 20.0], key=jr.key(0))
    model = hs.RNN(cell, hs.heads.Gaussian(3, None, key=jr.key(1)))
    found = gradients.decay(model, noise(100), [40, 60, 80])
    assert found.rate == pytest.approx(np.exp(-1 / 20), rel=1e-4)
    assert found.half_life == pytest.approx(20 * np.log(2), rel=1e-2)


def test_mean_norm_is_that_of_a_plain_loop_over_ragged_sequences():
    model, data = network(turning(1.2), "tanh"), noise(9, 4, 12)
    found = gradients.decay(model, data, [1, 3, 6], starts=100)
    jacobians = gradients.through_time(model, data).jacobians
    for lag, log_norm in zip(found.lags, found.log_norms, strict=True):
        norms = []
        for row in (0, 2):  # the second is too short for lag 6
            last = data.lengths[row] - 1 - 6
            places = np.round(last * np.linspace(0, 1, 6)).astype(int)  # as many as the longest sequence has
            for start in places:
                product = np.eye(4)
                for t in range(start, start + lag):
                    product = jacobians[row, t] @ product
                norms.append(np.linalg.norm(product, 2))
        assert log_norm == pytest.approx(np.log(np.mean(norms)), abs=1e-10)
        assert found.windows == len(norms)


def test_what_forgets_all_has_no_gradient():
    cell = hs.cells.OutputFeedback(1, 2, key=jr.key(0))
    model = hs.RNN(cell, hs.heads.Gaussian(2, None, key=jr.key(1)))
    found = gradients.decay(model, noise(8), [1, 2])
    assert found.rate == 0
    assert found.half_life == 0
    assert found.verdict == "vanishes"
    assert (found.norms == 0).all()


def test_gradient_of_a_loss_by_lag_is_that_of_automatic_differentiation():
    model, data = network(turning(1.1), "tanh"), noise(8, 5)
    found = gradients.loss_decay(model, data, [0, 1, 3])
    norms = {lag: [] for lag in (0, 1, 3)}
    for row, length in enumerate(data.lengths):
        xs = jnp.asarray(data.values[row, :length])

        def loss(state, start, t, xs=xs):
            for s in range(start, t):
                state = model.step(state, model.prepare(xs[s]))
            return -model.readout(state).log_prob(xs[t])

        hidden = hs.states(model, data)[row]
        for t in range(3, length):
            for lag in norms:
                norms[lag].append(np.linalg.norm(jax.grad(loss)(hidden[t - lag], t - lag, t)))
    np.testing.assert_allclose(found.norms, [np.mean(norms[lag]) for lag in found.lags], rtol=1e-10)
    assert found.windows == len(norms[0])


def test_spectra_and_products_are_those_of_a_plain_loop():
    model, data = network(turning(1.1), "tanh"), noise(7, 4)
    jacobians = gradients.through_time(model, data).jacobians
    spectra = gradients.jacobian_spectra(model, data)
    found = gradients.products(model, data, 3)
    assert found.matrices.shape == (2, 4, 4, 4)
    for row, length in enumerate(data.lengths):
        for t in range(length):
            np.testing.assert_allclose(
                spectra.singular_values[row, t], np.linalg.svd(jacobians[row, t], compute_uv=False), atol=1e-12
            )
            due = np.linalg.eigvals(jacobians[row, t])
            np.testing.assert_allclose(spectra.eigenvalues[row, t].prod(), due.prod(), atol=1e-12)
            np.testing.assert_allclose(np.abs(spectra.eigenvalues[row, t]), np.sort(np.abs(due))[::-1], atol=1e-12)
        for t in range(length - 3):
            product = jacobians[row, t + 2] @ jacobians[row, t + 1] @ jacobians[row, t]
            np.testing.assert_allclose(found.matrices[row, t] * np.exp(found.log_scales[row, t]), product, atol=1e-12)
            assert found.log_norms[row, t] == pytest.approx(np.log(np.linalg.norm(product, 2)), abs=1e-10)
            moduli = np.sort(np.abs(np.linalg.eigvals(product)))[::-1]
            np.testing.assert_allclose(np.exp(found.log_moduli[row, t]), moduli, rtol=1e-6)
    assert np.isnan(spectra.singular_values[1, 4:]).all()
    assert np.isnan(found.matrices[1, 1:]).all()


def test_lyapunov_exponents_of_a_linear_network_are_logarithms_of_eigenvalues():
    found = gradients.lyapunov(network(turning(0.9)), noise(400, 300), skip=100)
    due = np.log(np.sort(np.abs(np.linalg.eigvals(turning(0.9))))[::-1])
    np.testing.assert_allclose(found.exponents, due, atol=5e-3)
    assert found.verdict == "contracting"
    assert np.isnan(found.running[:, :100]).all()
    np.testing.assert_allclose(found.running[0, -1], found.each[0])


def test_lyapunov_exponent_of_one_unit_is_the_mean_logarithm_of_its_slope():
    model, data = network([[2.5]], "sin", scale=0.0), noise(300)
    model = eqx.tree_at(lambda m: m.cell.bias, model, jnp.asarray([0.4]))
    found = gradients.lyapunov(model, data, skip=0)
    h, total = 0.0, 0.0
    for _ in range(300):  # h' = sin(2.5 h + 0.4): a chaotic map of the line
        slope = 2.5 * np.cos(2.5 * h + 0.4)
        total += np.log(abs(slope))
        h = np.sin(2.5 * h + 0.4)
    assert found.exponents[0] == pytest.approx(total / 300, abs=1e-6)
    assert found.verdict == ("expanding" if total > 0 else "contracting")


def test_leading_exponents_alone_are_the_same():
    model, data = network(turning(1.3), "tanh"), noise(40)
    every = gradients.lyapunov(model, data)
    np.testing.assert_allclose(gradients.lyapunov(model, data, 2).exponents, every.exponents[:2], atol=1e-10)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda m, d: gradients.decay(m, d, [0, 2]), "lags go from 0 to 2; they must lie between 1 and 9"),
        (lambda m, d: gradients.decay(m, d, [1.5]), "lags is .*; it must be whole numbers"),
        (lambda m, d: gradients.decay(m, d, starts=0), "starts is 0; it must be a whole number"),
        (lambda m, d: gradients.decay(m, noise(1)), "the longest sequence has 1 step"),
        (lambda m, d: gradients.products(m, d, 10), "lag is 10; it must be a whole number from 1 to 9"),
        (lambda m, d: gradients.lyapunov(m, d, 5), "count is 5; it must be a whole number from 1 to 4"),
        (lambda m, d: gradients.lyapunov(m, d, skip=10), "skip is 10; it must be a whole number from 0 to 9"),
    ],
)
def test_wrong_arguments_are_refused_in_words(call, sentence: str):
    with pytest.raises(hs.HiddenStateError, match=sentence):
        call(network(turning(0.9)), noise(10))
