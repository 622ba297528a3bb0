"""Bootstrap particle filters over all steps of a sequence, with the random numbers that JAX draws from the same key.

The kernels compute the bits of JAX's default generator by themselves, so that nothing is drawn in advance. Sequences of
one model that begin with one key share what is drawn. The derivative goes back along the chosen ancestors
(`hiddenstate.native.particle_backward`).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Num, Shaped
from hiddenstate.native import particle_backward
from hiddenstate.native.operation import Operation, call
from hiddenstate.native.particle_backward import KEEPING

CHOOSING = ("systematic", "stratified")
"""The resampling schemes that kernels know."""


class Linear(NamedTuple):
    r"""Particles :math:`z' = A z + s + B \epsilon` with log-weights :math:`c - |x - C z|^2 / 2`, as arrays.

    `shift` has one row, or one for each step, as `xs` has.
    """

    transition: Float[Array, "state state"]
    root: Float[Array, "state noise"]
    emission: Float[Array, "event state"]
    constant: Float[Array, ""]
    xs: Float[Array, "time event"]
    shift: Float[Array, "_ state"]


class Symbols(NamedTuple):
    """Particles that are symbols: probabilities of moves, as drawn from, and the log-weights of all symbols."""

    probs: Float[Array, "state state"]
    log_likelihoods: Float[Array, "time state"]


class Cloud(NamedTuple):
    """Particles, their log-weights, which particles before they descend from, and the key of the next step."""

    particles: Num[Array, "particle ..."]
    log_weights: Float[Array, " particle"]
    ancestors: Shaped[Array, " particle"]
    key: Shaped[Array, " words"]


class Run(NamedTuple):
    """What a filter gives: of each step the log-probability, the effective sample size of the weights after it, and
    whether particles were chosen anew; the last cloud, and those on the way where they were asked for.

    Behind the end the last ones stand.
    """

    log_evidence: Float[Array, " time"]
    effective_sample_size: Float[Array, " time"]
    resampled: Shaped[Array, " time"]
    final: Cloud
    kept: Cloud | None


def run(
    moves: Linear | Symbols,
    cloud: Cloud,
    seen: Shaped[Array, " time"] | None,
    length: Shaped[Array, ""],
    *,
    resampling: str,
    enough: float,
    keep: str = "nothing",
) -> Run:
    """The filter over all steps, resampled where the effective sample size is below `enough`, and something was seen.

    `keep` is "nothing", "before" or "after": the clouds at all steps, with log-weights without or with what is observed
    there. With "before" there is no derivative. In place of that of a choice of ancestors stands that of the logarithms
    of their weights, in place of that of a symbol that of the log-probability of its move (Ścibior and Wood 2021).
    """
    precise = jnp.result_type(float) == jnp.float64
    options = CHOOSING.index(resampling), KEEPING.index(keep), float(enough), precise
    seen = jnp.zeros(0, bool) if seen is None else seen
    first = cloud.particles, cloud.log_weights, cloud.ancestors
    if isinstance(moves, Linear):
        shared = cloud.key, moves.transition, moves.root, moves.emission, moves.constant[None]
        out = _linear.single(*shared, *first, moves.xs, moves.shift, seen, length, options=options)
    else:
        table = jax.lax.bitcast_convert_type(_table(moves.probs), jnp.uint32)
        shared = cloud.key, table, _log(moves.probs).astype(moves.log_likelihoods.dtype)
        out = _symbols.single(*shared, *first, moves.log_likelihoods, seen, length, options=options)
    kept = Cloud(*out[7:]) if keep != "nothing" else None
    evidence, sizes, resampled = out[:3]
    return Run(evidence, sizes, resampled, Cloud(*out[3:7]), kept)


def _log(probs: Float[Array, "state state"]) -> Float[Array, "state state"]:
    """Logarithms, of which only the derivative is used; that of a move that never happens is zero."""
    return jnp.log(jnp.where(probs > 0, probs, 1.0))


def _table(probs: Float[Array, "state state"]) -> Float[Array, "state _"]:
    """Of each row what draws are compared with: the first entry above a uniform number times the last is drawn.

    As `hiddenstate.ops.inverse_cdf.symbol_at` draws: never one of probability zero, however sums round.
    """
    possible = probs > 0
    cumulated = jnp.cumsum(probs, 1)
    last = probs.shape[1] - 1 - jnp.argmax(possible[:, ::-1], 1)
    reached = jnp.where(possible, cumulated, -1.0)
    reached = jnp.where(jnp.arange(probs.shape[1]) >= last[:, None], jnp.inf, reached)
    return jnp.concatenate([jax.lax.cummax(reached, 1), cumulated[:, -1:]], 1)


def _results(lengths, first, weights, time, options):
    lead, shape, steps = lengths.shape, first.shape[2:], (time,)
    count, kept = shape[0], options[1] > 0

    def shaped(dtype, *sizes):
        return jax.ShapeDtypeStruct((*lead, *sizes), dtype)

    dtype = weights.dtype
    each = [shaped(dtype, *steps), shaped(dtype, *steps), shaped(jnp.bool_, *steps)]
    cloud = (first.dtype, shape), (dtype, (count,)), (jnp.int32, (count,)), (jnp.uint32, (2,))
    last = [shaped(kind, *sizes) for kind, sizes in cloud]
    return each + last + [shaped(kind, *(steps if kept else (0,)), *sizes) for kind, sizes in cloud]


def _attributes(options):
    choosing, keeping, enough, precise = options
    return {"choosing": choosing, "keeping": keeping, "enough": enough, "drawn_in_double": precise}


def _run_linear(*arrays, options):
    first, weights, _, xs, _, _, lengths = arrays[5:]
    shapes = _results(lengths, first, weights, xs.shape[2], options)
    return call("particle_linear", shapes, *arrays, **_attributes(options))


def _run_symbols(key, table, log_probs, *arrays, options):
    del log_probs
    first, weights, _, likelihoods, _, lengths = arrays
    shapes = _results(lengths, first, weights, likelihoods.shape[2], options)
    return call("particle_symbols", shapes, key, table, *arrays, **_attributes(options))


_derivatives = particle_backward.derivatives(lambda: _linear, lambda: _symbols)
_linear = Operation("particle_linear", _run_linear, shared=5, derivative=_derivatives[0])
_symbols = Operation("particle_symbols", _run_symbols, shared=3, derivative=_derivatives[1])
