"""The smoother of Rauch, Tung and Striebel, backward from what `hiddenstate.native.kalman` kept."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.native.operation import Operation, call, like


class Gains(NamedTuple):
    """z_t = known + gain (z_{t+1} - ahead) + e for all steps but the last, where e has the covariance `residual`."""

    gain: Float[Array, "pair state state"]
    residual: Float[Array, "pair state state"]


class Spread(NamedTuple):
    """Covariances given all observations, and that of each state with the next."""

    covariance: Float[Array, "time state state"]
    crossed: Float[Array, "pair state state"]


def gains(
    transition: Float[Array, "state state"],
    noise: Float[Array, "state state"],
    filtered: Float[Array, "pair state state"],
) -> Gains:
    """The gains of many steps, from roots of the filter's covariances; `noise` is lower triangular, with an inverse."""
    return Gains(*_gains.single(transition, noise, filtered))


def chain(found: Gains, last: Float[Array, "state state"]) -> Spread:
    """The covariances of one chain; mapped over sequences that share it, it is still computed once."""
    return Spread(*_chain.single(*found, last))


def copied(spread: Spread, mean: Float[Array, "time state"]) -> Spread:
    """The same, but where sequences share it, each of them, with means of its own, has a copy: results are made so.

    JAX would copy too, into memory that the system has to clear in small pages, which takes longer than to smooth.
    """
    return Spread(*(_copies.single(array, mean)[0] for array in spread))


def means(
    found: Gains,
    filtered: Float[Array, "time state"],
    ahead: Float[Array, "time state"],
    length: Shaped[Array, ""],
) -> Float[Array, "time state"]:
    """The means alone; `ahead` holds those before each step."""
    roots = jnp.zeros((len(filtered), *found.gain.shape[1:]), filtered.dtype)
    return _shared.single(*found, roots, filtered, ahead, length, options=(False,))[0]


def each(
    found: Gains,
    roots: Float[Array, "time state state"],
    filtered: Float[Array, "time state"],
    ahead: Float[Array, "time state"],
    length: Shaped[Array, ""],
    *,
    own: bool,
) -> tuple[Float[Array, "time state"], Spread]:
    """Means and covariances of a sequence that ends where it does, or (`own`) has gains of its own."""
    run = _own if own else _shared
    mean, *spread = run.single(*found, roots, filtered, ahead, length, options=(True,))
    return mean, Spread(*spread)


def _run_gains(transition, noise, filtered, *, options):
    del options
    return call("smoother_gains", like(filtered, filtered), transition, noise, filtered)


def _run_chain(gain, residual, last, *, options):
    del options
    groups, pairs, state, _ = gain.shape
    shapes = [jax.ShapeDtypeStruct((groups, 1, steps, state, state), gain.dtype) for steps in (pairs + 1, pairs)]
    return call("smoother_chain", shapes, gain, residual, last)


def _run_copies(shared, mean, *, options):
    del options
    shape = jax.ShapeDtypeStruct((*mean.shape[:2], *shared.shape[1:]), shared.dtype)
    return call("smoother_copies", [shape], shared, mean)


def _run_each(gain, residual, roots, filtered, ahead, length, *, options, own):
    groups, sequences, time, state = filtered.shape
    made = [*like(filtered)]
    for steps in (time, time - 1):
        shape = (groups, sequences, steps if options[0] else 0, state, state)
        made.append(jax.ShapeDtypeStruct(shape, filtered.dtype))
    return call("smoother_each", made, gain, residual, roots, filtered, ahead, length, own=own)


_gains = Operation("smoother_gains", _run_gains, shared=2)
_chain = Operation("smoother_chain", _run_chain, shared=3)
_copies = Operation("smoother_copies", _run_copies, shared=1)
_shared = Operation(
    "smoother_shared", lambda *arrays, options: _run_each(*arrays, options=options, own=False), shared=3
)
_own = Operation("smoother_own", lambda *arrays, options: _run_each(*arrays, options=options, own=True), shared=0)
