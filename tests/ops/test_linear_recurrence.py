import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hiddenstate.ops.linear_recurrence import Affine, Decay, LogAffine, apply, join, log_mixture, mixture

A_KEY, B_KEY, H_KEY = jr.split(jr.key(0), 3)
A = jr.uniform(A_KEY, (3, 5), minval=0.01, maxval=1.5)
B = jr.normal(B_KEY, (3, 5))
H = jr.normal(H_KEY, (5,))

STEPS = {
    "affine": (lambda i: Affine(A[i], B[i]), lambda i, h: A[i] * h + B[i]),
    "complex": (lambda i: Affine(A[i] + 0.3j, B[i] - 1j), lambda i, h: (A[i] + 0.3j) * h + B[i] - 1j),
    "decay": (lambda i: Decay(jnp.log(A[i]), B[i]), lambda i, h: A[i] * h + B[i]),
    "log": (lambda i: LogAffine(jnp.log(A[i]), B[i]), lambda i, h: A[i] * h + jnp.exp(B[i])),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_the_affine_map_it_holds(name):
    step, truth = STEPS[name]
    np.testing.assert_allclose(apply(H, step(0)), truth(0, H), rtol=1e-13)


@pytest.mark.parametrize("name", STEPS)
def test_joined_steps_are_one_after_the_other(name):
    step, truth = STEPS[name]
    a, b, c = map(step, range(3))
    wanted = truth(2, truth(1, truth(0, H)))
    np.testing.assert_allclose(apply(H, join(join(a, b), c)), wanted, rtol=1e-13)
    np.testing.assert_allclose(apply(H, join(a, join(b, c))), wanted, rtol=1e-13)


def test_steps_held_in_different_ways_cannot_be_joined():
    with pytest.raises(TypeError, match="cannot join Affine with Decay"):
        join(Affine(H, H), Decay(H, H))


def test_a_slow_decay_keeps_its_distance_from_one():
    """1 - 1e-9 is 1 in float32; still, 2**30 such steps, joined in pairs, forget to a factor of about 1/e."""
    step = Decay(jnp.float32(-1e-9), jnp.float32(0))
    for _ in range(30):
        step = join(step, step)
    np.testing.assert_allclose(apply(jnp.float32(1), step), np.exp(-(2.0**30) * 1e-9), rtol=1e-6)


@pytest.mark.parametrize("logit", [-90.0, -3.0, 0.0, 3.0, 90.0])
def test_a_mixture_takes_both_shares_without_cancellation(logit):
    z = 1 / (1 + np.exp(-logit))
    rest = np.exp(-logit) / (1 + np.exp(-logit))
    plain = mixture(jnp.float64(logit), jnp.float64(-2.0))
    np.testing.assert_allclose([jnp.exp(plain.log_a), plain.b], [rest, -2 * z], rtol=1e-13)
    log = log_mixture(jnp.float64(logit), jnp.log(2.0))
    np.testing.assert_allclose([jnp.exp(log.log_a), jnp.exp(log.log_b)], [rest, 2 * z], rtol=1e-13)


@pytest.mark.parametrize("logit", [-1e6, 1e6])
def test_gradients_of_joined_log_steps_are_finite_at_the_extremes(logit):
    def last(logit, log_candidate, h):
        step = log_mixture(logit, log_candidate)
        return apply(h, join(join(step, step), step))

    gradients = jax.grad(last, (0, 1, 2))(jnp.float32(logit), jnp.float32(-1e3), jnp.float32(0))
    assert np.all(np.isfinite(gradients))
