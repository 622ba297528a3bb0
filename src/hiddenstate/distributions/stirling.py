"""What Stirling's formula leaves of the log-gamma function.

Densities with gamma functions are differences of large log-gammas, and in float32 the difference is noise
where a count, a concentration or a number of degrees of freedom is large. With the remainder

    s(x) = log Gamma(x) - (x - 1/2) log x + x - 1/2 log 2 pi

the large parts cancel on paper (Loader 2000, Fast and accurate computation of binomial probabilities).
"""

import math

import jax.numpy as jnp
from jax.scipy.special import gammaln

from hiddenstate._types import Array, Float

LOG_2_PI = math.log(2 * math.pi)
_FROM = 16.0


def stirling_remainder(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """s(x) for x > 0: directly below 16, where nothing is large; above by its series, good to 1e-14."""
    below = x < _FROM
    small, inverse = jnp.where(below, x, 1.0), 1 / jnp.where(below, _FROM, x)
    direct = gammaln(small) - (small - 0.5) * jnp.log(small) + small - 0.5 * LOG_2_PI
    square = inverse**2
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    return jnp.where(below, direct, series)
