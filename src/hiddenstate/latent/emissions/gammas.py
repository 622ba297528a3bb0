"""The shape of a gamma distribution from the mean of its variable and that of its logarithm."""

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma

from hiddenstate._types import Array, Float

_FROM = 16.0
_ROUNDS = 6


def log_minus_digamma(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log x - digamma(x) for x > 0: directly below 16, by its series above, where the difference is small."""
    below = x < _FROM
    small, inverse = jnp.where(below, x, 1.0), 1 / jnp.where(below, _FROM, x)
    square = inverse**2
    series = inverse * (1 / 2 + inverse * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240))))
    return jnp.where(below, jnp.log(small) - digamma(small), series)


def gamma_shape(excess: Float[Array, "*shape"], least: float, most: float) -> Float[Array, "*shape"]:
    """The shape r with log r - digamma(r) = `excess`, between `least` and `most`.

    It is the most likely shape of gamma variables whose log-mean exceeds their mean log by `excess`. Newton's rule for
    the logarithms of both sides, which are nearly a straight line, from Minka's (2002) approximation: six rounds are
    exact to rounding.
    """
    lowest = log_minus_digamma(jnp.asarray(most, excess.dtype))
    highest = log_minus_digamma(jnp.asarray(least, excess.dtype))
    c = jnp.clip(excess, lowest, highest)
    guess = (3 - c + jnp.sqrt((c - 3) ** 2 + 24 * c)) / (12 * c)

    def improve(_, log_r):
        r = jnp.exp(log_r)
        value, slope = jax.jvp(log_minus_digamma, (r,), (r,))
        return log_r + jnp.clip((jnp.log(c) - jnp.log(value)) * value / slope, -2, 2)

    return jnp.clip(jnp.exp(jax.lax.fori_loop(0, _ROUNDS, improve, jnp.log(guess))), least, most)
