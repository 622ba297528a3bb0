r"""The affine recurrence :math:`h' = a \odot h + b`, in four ways of holding one step.

Joining two steps gives one of the same form, which is what makes it a parallel scan (Blelloch 1990):
:math:`(a_2 a_1,\; a_2 b_1 + b_2)`.

A factor close to one loses its distance from one when it is rounded: in float32 a time constant of 20,000
steps comes out a thousandth wrong. `Decay` and `LogAffine` hold the logarithm of the factor, which keeps that
distance to full precision, and only ever add logarithms of neighbouring steps. `Turn` does so for the modulus of a
complex factor, and adds its angles.

What is left in float32 is the rounding of the state itself. Joined in pairs, a hundred thousand steps lose
less than 1e-6; one after the other, less than 1e-5 where the drive varies, but up to 1e-3 where a unit that
hardly forgets adds up one and the same number, as any running sum does.
"""

import math
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Shaped
from hiddenstate.native.affine import affine


class Affine(NamedTuple):
    """One step ``h' = a * h + b``, elementwise, real or complex."""

    a: Array
    b: Array


class Decay(NamedTuple):
    """One step ``h' = exp(log_a) * h + b`` with a positive factor, held as its logarithm."""

    log_a: Array
    b: Array


class LogAffine(NamedTuple):
    """One step ``h' = exp(log_a) * h + exp(log_b)`` with both positive, held as logarithms."""

    log_a: Array
    log_b: Array


class Turn(NamedTuple):
    """One step ``h' = exp(log_a + i * angle) * h + b`` of complex numbers, with the angle between -pi and pi.

    The modulus is as exact as that of `Decay`. Angles of joined steps are added and wrapped: what their rounding
    turns too far grows with the number of steps, by about 1e-7 a step in float32.
    """

    log_a: Array
    angle: Array
    b: Array


LinearStep: TypeAlias = Affine | Decay | LogAffine | Turn
"""One step of the recurrence, held in any of the ways."""


def apply(h: Array, step: LinearStep) -> Array:
    """The state after the step. The state is in plain space: it may be zero, and needs no logarithm."""
    match step:
        case Affine(a, b):
            return a * h + b
        case Decay(log_a, b):
            return _decayed(h, log_a, b)
        case LogAffine(log_a, log_b):
            return _decayed(h, log_a, jnp.exp(log_b))
        case Turn(log_a, angle, b):
            return jnp.where(log_a > -0.5, h + (_change(log_a, angle) * h + b), _factor(log_a, angle) * h + b)


def join(earlier: LinearStep, later: LinearStep) -> LinearStep:
    """Both steps, held in the same way, as one."""
    match earlier, later:
        case Affine(a_1, b_1), Affine(a_2, b_2):
            return Affine(a_2 * a_1, a_2 * b_1 + b_2)
        case Decay(log_a_1, b_1), Decay(log_a_2, b_2):
            return Decay(log_a_2 + log_a_1, jnp.exp(log_a_2) * b_1 + b_2)
        case LogAffine(log_a_1, log_b_1), LogAffine(log_a_2, log_b_2):
            return LogAffine(log_a_2 + log_a_1, jnp.logaddexp(log_a_2 + log_b_1, log_b_2))
        case Turn(log_a_1, angle_1, b_1), Turn(log_a_2, angle_2, b_2):
            return Turn(log_a_2 + log_a_1, _wrapped(angle_2 + angle_1), _factor(log_a_2, angle_2) * b_1 + b_2)
        case _:
            raise TypeError(f"cannot join {type(earlier).__name__} with {type(later).__name__}.")


def run_natively(
    h: Array, steps: Affine | Decay | LogAffine, valid: Shaped[Array, " time"] | None
) -> tuple[Array, Array]:
    """The states before each of many real steps and the one after the last, by a compiled kernel."""
    match steps:
        case Affine(a, b):
            return affine("plain", h, a, b, valid)
        case Decay(log_a, b):
            return affine("decay", h, log_a, b, valid)
        case LogAffine(log_a, log_b):
            return affine("logarithms", h, log_a, log_b, valid)


def mixture(logit: Array, candidate: Array) -> Decay:
    """The step ``h' = (1 - z) * h + z * candidate`` with ``z = sigmoid(logit)``.

    1 - z is taken as sigmoid(-logit), so that a gate that is nearly open keeps its small remainder.
    """
    return Decay(jax.nn.log_sigmoid(-logit), jax.nn.sigmoid(logit) * candidate)


def log_mixture(logit: Array, log_candidate: Array) -> LogAffine:
    """The same step for a positive candidate given as its logarithm: finite at every finite logit."""
    return LogAffine(jax.nn.log_sigmoid(-logit), jax.nn.log_sigmoid(logit) + log_candidate)


def _decayed(h: Array, log_a: Array, b: Array) -> Array:
    # A slow decay as a small change of h, so that the rounding of a near one does not build up over time; a
    # fast one as a product, so that what is forgotten leaves no rounding error behind.
    slow = h + (jnp.expm1(log_a) * h + b)
    return jnp.where(log_a > -0.5, slow, jnp.exp(log_a) * h + b)


def _factor(log_a: Array, angle: Array) -> Array:
    """exp(log_a + i angle)."""
    modulus = jnp.exp(log_a)
    return jax.lax.complex(modulus * jnp.cos(angle), modulus * jnp.sin(angle))


def _change(log_a: Array, angle: Array) -> Array:
    """exp(log_a + i angle) - 1, exact where it is small; as in `_decayed`."""
    modulus, turn = jnp.expm1(log_a), jax.lax.complex(-2 * jnp.sin(angle / 2) ** 2, jnp.sin(angle))
    return modulus + turn + modulus * turn


def _wrapped(angle: Array) -> Array:
    return angle - 2 * math.pi * jnp.round(angle / (2 * math.pi))
