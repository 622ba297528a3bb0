"""Ancestors of particles from their weights and given random numbers, in time proportional to their number.

Every sum is formed in the order in which `hiddenstate.ops.resampling` forms it, so that the ancestors are the same;
only where a position lies within the rounding of one product of the border between two particles may they differ.
"""

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.native.operation import Operation, call


def ancestors_by_strata(
    shares: Float[Array, " particle"], positions: Float[Array, " particle"]
) -> Shaped[Array, " particle"]:
    """Where stratum i holds one position, i + positions[i], on the axis of the cumulated shares (M w)."""
    return _strata.single(shares, positions)[0]


def owners_of_tickets(tickets: Shaped[Array, " particle"], drawn: Shaped[Array, " draw"]) -> Shaped[Array, " draw"]:
    """The particle whose tickets hold each number that was drawn; numbers are unsigned and add up to below 2^32."""
    return _tickets.single(tickets, drawn)[0]


def _run_strata(shares, positions, *, options):
    del options
    return call("resampling_strata", [jax.ShapeDtypeStruct(shares.shape, jnp.int32)], shares, positions)


def _run_tickets(tickets, drawn, *, options):
    del options
    return call("resampling_tickets", [jax.ShapeDtypeStruct(drawn.shape, jnp.int32)], tickets, drawn)


_strata = Operation("resampling_strata", _run_strata, shared=0)
_tickets = Operation("resampling_tickets", _run_tickets, shared=0)
