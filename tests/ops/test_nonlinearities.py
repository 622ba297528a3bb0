import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hiddenstate.ops.nonlinearities import NONLINEARITIES, log_positive, nonlinearity


def test_log_positive_is_the_logarithm_of_the_published_candidate():
    """Feng et al. 2024, appendix B: g(a) = a + 1/2 for a >= 0, sigmoid(a) below; both sides meet at 1/2."""
    a = np.array([-700.0, -5.0, -1e-12, 0.0, 1e-12, 3.0, 1e30])
    with np.errstate(over="ignore"):
        wanted = np.where(a >= 0, np.log(np.maximum(a, 0) + 0.5), -np.log1p(np.exp(-a)))
    np.testing.assert_allclose(log_positive(jnp.asarray(a)), wanted, rtol=1e-12)


def test_log_positive_has_finite_gradients_everywhere():
    a = jnp.array([-1e30, -1e3, -1.0, 0.0, 1.0, 1e30], jnp.float32)
    assert np.all(np.isfinite(jax.vmap(jax.grad(log_positive))(a)))


@pytest.mark.parametrize("name", NONLINEARITIES)
def test_every_nonlinearity_keeps_shape_and_type(name):
    out = nonlinearity(name)(jnp.linspace(-2, 2, 5, dtype=jnp.float32))
    assert out.shape == (5,)
    assert out.dtype == jnp.float32


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="nonlinearity is 'step'; it must be one of tanh, relu"):
        nonlinearity("step")
