r"""The affine recurrence :math:`h' = a \odot h + b`, in plain and in log space.

Joining two steps gives one of the same form, which is what makes it a parallel scan (Blelloch 1990):
:math:`(a_2 a_1,\; a_2 b_1 + b_2)`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hiddenstate._types import Array


class Affine(NamedTuple):
    """One step ``h' = a * h + b``, elementwise, real or complex."""

    a: Array
    b: Array


class LogAffine(NamedTuple):
    """One step ``h' = exp(log_a) * h + exp(log_b)`` with positive factors, held as logarithms."""

    log_a: Array
    log_b: Array


def apply(h: Array, step: Affine) -> Array:
    """The state after the step."""
    return step.a * h + step.b


def join(earlier: Affine, later: Affine) -> Affine:
    """Both steps as one."""
    return Affine(later.a * earlier.a, later.a * earlier.b + later.b)


def apply_log(h: Array, step: LogAffine) -> Array:
    """The state after the step. The state itself stays in plain space: it may be zero, and needs no logarithm."""
    return jnp.exp(step.log_a) * h + jnp.exp(step.log_b)


def join_log(earlier: LogAffine, later: LogAffine) -> LogAffine:
    """Both steps as one.

    Only sums of logarithms of neighbouring steps are formed, never a running sum over all time, so that nothing large
    is subtracted from something large.
    """
    return LogAffine(later.log_a + earlier.log_a, jnp.logaddexp(later.log_a + earlier.log_b, later.log_b))


def mixture(logit: Array, candidate: Array) -> Affine:
    """The step ``h' = (1 - z) * h + z * candidate`` with ``z = sigmoid(logit)``.

    1 - z is taken as sigmoid(-logit), so that a gate that is nearly open keeps its small remainder.
    """
    return Affine(jax.nn.sigmoid(-logit), jax.nn.sigmoid(logit) * candidate)


def log_mixture(logit: Array, log_candidate: Array) -> LogAffine:
    """The same step for a positive candidate given as its logarithm: finite at every finite logit."""
    return LogAffine(jax.nn.log_sigmoid(-logit), jax.nn.log_sigmoid(logit) + log_candidate)
