"""Recurrent weights of one sign a unit, as Dale's law has it, and the currents that weights make."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to, constraints

from hiddenstate._types import Array, Float
from hiddenstate.core import HiddenStateError, register

_POSITIVE: Any = biject_to(constraints.softplus_positive)

Signs: TypeAlias = float | Sequence[float] | Any | None
"""The share of excitatory units, a sign (1 or -1) for each, or None where weights are free."""

LEAST = 1e-3
"""Weights that would start at zero start at this share of the mean magnitude: at zero itself they could not learn."""


class Currents(NamedTuple):
    """What flows into each unit: by excitatory synapses, by inhibitory ones, and from outside."""

    excitatory: Float[Array, " hidden"]
    inhibitory: Float[Array, " hidden"]
    external: Float[Array, " hidden"]


@register("signed-weight")
class SignedWeight(eqx.Module):
    r"""Weights :math:`W_{ij} = s_j \, \mathrm{softplus}(v_{ij})`: all that leaves unit j has the sign :math:`s_j`."""

    unconstrained: Float[Array, "hidden hidden"]
    signs: tuple[int, ...] = eqx.field(static=True)

    @property
    def value(self) -> Float[Array, "hidden hidden"]:
        """W."""
        return _POSITIVE(self.unconstrained) * jnp.asarray(self.signs, self.unconstrained.dtype)


RecurrentWeight: TypeAlias = Float[Array, "hidden hidden"] | SignedWeight
"""Recurrent weights as a cell holds them: free, or each column of one sign."""


def recurrent_weight(drawn: Float[Array, "hidden hidden"], signs: Signs) -> RecurrentWeight:
    """Initial weights as drawn, or with their magnitudes under the signs that were asked for.

    Where there are units of both signs, those of each inhibitory one are enlarged until both kinds balance on average,
    and then all are scaled to the spectral radius that was drawn (Rajan and Abbott 2006; Song et al. 2016): without
    that, weights of one sign add up, and the state saturates at once.
    """
    if signs is None:
        return drawn
    kept = checked_signs(signs, len(drawn))
    magnitudes = jnp.abs(drawn)
    magnitudes = jnp.maximum(magnitudes, LEAST * magnitudes.mean())
    excitatory = kept.count(1)
    if 0 < excitatory < len(kept):
        balance = excitatory / (len(kept) - excitatory)
        magnitudes = magnitudes * jnp.where(jnp.asarray(kept) < 0, balance, 1.0).astype(drawn.dtype)
    signed = magnitudes * jnp.asarray(kept, drawn.dtype)
    scale = spectral_radius(drawn) / spectral_radius(signed)
    return SignedWeight(_POSITIVE.inv(magnitudes * scale), kept)


def weight_of(held: RecurrentWeight) -> Float[Array, "hidden hidden"]:
    """The matrix itself."""
    return held.value if isinstance(held, SignedWeight) else held


def signs_told(held: RecurrentWeight) -> dict[str, Any]:
    """The option that makes weights of the same signs again, where they have any."""
    return {"signs": list(held.signs)} if isinstance(held, SignedWeight) else {}


def currents_of(
    weight: Float[Array, "hidden hidden"], rates: Float[Array, " hidden"], external: Float[Array, " hidden"]
) -> Currents:
    """What positive weights and negative weights carry of the rates, beside what comes from outside."""
    return Currents(jnp.maximum(weight, 0.0) @ rates, jnp.minimum(weight, 0.0) @ rates, external)


def checked_signs(signs: Any, hidden_size: int) -> tuple[int, ...]:
    """1 or -1 for each unit; a share makes so many of the first units excitatory, to the nearest."""
    try:
        given = np.asarray(signs, float)
    except (TypeError, ValueError):
        given = np.full(1, np.nan)
    if given.shape == () and not isinstance(signs, bool) and 0 <= given <= 1:
        excitatory = round(float(given) * hidden_size)
        return (1,) * excitatory + (-1,) * (hidden_size - excitatory)
    if given.shape != (hidden_size,) or not np.isin(given, (-1, 1)).all():
        raise HiddenStateError(
            f"signs is {signs!r}; it must be the share of excitatory units, from 0 to 1, or 1 or -1 for each of the "
            f"{hidden_size} units."
        )
    return tuple(int(sign) for sign in given)


def spectral_radius(matrix: Float[Array, "size size"], doublings: int = 10) -> Float[Array, ""]:
    r"""The largest modulus of an eigenvalue, by Gelfand's formula :math:`|A^n|^{1/n}` with n a power of two.

    Unlike eigenvalues it runs on every device. It is at most a few thousandths too large.
    """

    def square(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
        power, log_norm = carry
        power = power @ power
        norm = jnp.linalg.norm(power)
        return (power / jnp.where(norm > 0, norm, 1.0), 2 * log_norm + jnp.log(norm)), None

    norm = jnp.linalg.norm(matrix)
    begin = (matrix / jnp.where(norm > 0, norm, 1.0), jnp.log(norm))
    (_, log_norm), _ = jax.lax.scan(square, begin, None, length=doublings)
    return jnp.exp(log_norm / 2**doublings)
