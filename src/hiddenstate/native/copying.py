"""Recursions of chains whose state is kept or drawn afresh, at a cost linear in the states."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.native.manual import adjoints_alike
from hiddenstate.native.operation import Operation, call, lengths_of, like


class Passed(NamedTuple):
    """The log-probability of each step, the last belief, and beliefs before and after each observation.

    The latter are None where they were not asked for.
    """

    evidence: Float[Array, " time"]
    final: Float[Array, " state"]
    predicted: Float[Array, "time state"] | None
    filtered: Float[Array, "time state"] | None


def forward(
    stay: Float[Array, ""],
    fresh: Float[Array, " state"],
    belief: Float[Array, " state"],
    log_likelihoods: Float[Array, "time state"],
    valid: Shaped[Array, " time"] | None,
    *,
    keep: bool = False,
) -> Passed:
    """The forward recursion from a belief before the first observation; behind the end it stands still.

    `stay` is the probability that the state is kept, `fresh` those of resets into each state. Without `keep` it can be
    differentiated.
    """
    given = stay[None], fresh, belief, log_likelihoods, lengths_of(valid, len(log_likelihoods))
    if not keep:
        evidence, final = _forward.single(*given)
        return Passed(evidence, final, None, None)
    evidence, final, predicted, filtered = _kept.single(*given)
    return Passed(evidence, final, predicted, filtered)


def smooth(
    stay: Float[Array, ""],
    fresh: Float[Array, " state"],
    filtered: Float[Array, "time state"],
    valid: Shaped[Array, " time"] | None,
) -> Float[Array, "time state"]:
    """The marginals p(z_t | all observations), from filtered beliefs."""
    return _smooth.single(stay[None], fresh, lengths_of(valid, len(filtered)), filtered)[0]


def best_path(
    log_stay: Float[Array, ""],
    log_fresh: Float[Array, " state"],
    log_belief: Float[Array, " state"],
    log_likelihoods: Float[Array, "time state"],
    valid: Shaped[Array, " time"] | None,
) -> tuple[Shaped[Array, " time"], Float[Array, " time"]]:
    """The most probable path (Viterbi), behind the end its last state, and the log-probability of each of its steps."""
    again = jnp.logaddexp(log_stay, log_fresh)  # a state that is found again was kept, or drawn once more
    lengths = lengths_of(valid, len(log_likelihoods))
    path, steps = _best.single(again, log_fresh, log_belief, log_likelihoods, lengths)
    return path, steps


def sampled_path(
    stay: Float[Array, ""],
    fresh: Float[Array, " state"],
    filtered: Float[Array, "time state"],
    noise: Float[Array, "time state"],
    valid: Shaped[Array, " time"] | None,
) -> Shaped[Array, " time"]:
    """A path drawn from the posterior by Gumbel noise; the last row of the noise is for the last state."""
    return _draw.single(stay[None], fresh, filtered, noise, lengths_of(valid, len(filtered)))[0]


def _run(arrays, *, predicted, filtered):
    seen = arrays[3]
    groups, sequences, time, states = seen.shape
    shape = lambda *rest: jax.ShapeDtypeStruct((groups, sequences, *rest), seen.dtype)  # noqa: E731
    shapes = [shape(time), shape(states), shape(predicted * time, states), shape(filtered * time, states)]
    return call("copying_forward", shapes, *arrays)


def _run_forward(*arrays, options):
    """With options the filtered beliefs too."""
    found = _run(arrays, predicted=False, filtered=bool(options))
    return [*found[:2], found[3]] if options else found[:2]


def _run_kept(*arrays, options):
    del options
    return _run(arrays, predicted=True, filtered=True)


def _run_slopes(stay, fresh, belief, lengths, *rows, options):
    del options
    shapes = [*like(rows[1], belief), jax.ShapeDtypeStruct(lengths.shape, belief.dtype), *like(belief)]
    return call("copying_slopes", shapes, stay, fresh, belief, lengths, *rows)


def _run_smooth(stay, fresh, lengths, filtered, *, options):
    del options
    return call("copying_smooth", like(filtered), stay, fresh, lengths, filtered)


def _run_best(again, fresh, belief, seen, lengths, *, options):
    del options
    shapes = [jax.ShapeDtypeStruct(seen.shape[:3], dtype) for dtype in (jnp.int32, seen.dtype)]
    return call("copying_best", shapes, again, fresh, belief, seen, lengths)


def _run_draw(stay, fresh, filtered, noise, lengths, *, options):
    del options
    shapes = [jax.ShapeDtypeStruct(filtered.shape[:3], jnp.int32)]
    return call("copying_draw", shapes, stay, fresh, filtered, noise, lengths)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _differentiable(options, *arrays):
    return tuple(_forward(*arrays, options=options))


def _keep(options, stay, fresh, belief, seen, lengths):
    del options
    evidence, final, filtered = _forward(stay, fresh, belief, seen, lengths, options=("filtered",))
    return (evidence, final), (stay, fresh, belief, lengths, evidence, filtered)


def _pull(options, kept, cotangents):
    del options
    d_seen, d_belief, d_stay, d_fresh = _slopes(*kept, *cotangents)
    return d_stay.sum(1)[:, None], d_fresh.sum(1), d_belief, d_seen, None


_differentiable.defvjp(_keep, adjoints_alike(_pull))
_forward = Operation("copying_forward", _run_forward, shared=2, derivative=_differentiable)
_kept = Operation("copying_kept", _run_kept, shared=2)
_slopes = Operation("copying_slopes", _run_slopes, shared=2)
_smooth = Operation("copying_smooth", _run_smooth, shared=2)
_best = Operation("copying_best", _run_best, shared=2)
_draw = Operation("copying_draw", _run_draw, shared=2)
