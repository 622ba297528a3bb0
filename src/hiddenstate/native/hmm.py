"""Recursions of hidden Markov models over one transition matrix, which sequences of one model share."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.native.manual import adjoints_alike
from hiddenstate.native.operation import Operation, call, lengths_of, like


class Passed(NamedTuple):
    """What the forward recursion gives: the log-probability of each step, the last belief, and beliefs on the way.

    Those that were not asked for are None. The log-probability is ``top + log(total)``; the way back takes these.
    """

    evidence: Float[Array, " time"]
    final: Float[Array, " state"]
    top: Float[Array, " time"]
    total: Float[Array, " time"]
    predicted: Float[Array, "time state"] | None
    filtered: Float[Array, "time state"] | None


def forward(
    matrix: Float[Array, "state state"],
    belief: Float[Array, " state"],
    log_likelihoods: Float[Array, "time state"],
    valid: Shaped[Array, " time"] | None,
    *,
    predicted: bool = False,
    filtered: bool = False,
) -> Passed:
    """The forward recursion from a belief before the first observation; behind the end it stands still.

    It can be differentiated, except for `top` and `total`.
    """
    given = matrix, belief, log_likelihoods, lengths_of(valid, len(log_likelihoods))
    found = iter(_forward.single(*given, options=(predicted, filtered)))
    evidence, final, top, total = (next(found) for _ in range(4))
    return Passed(evidence, final, top, total, next(found) if predicted else None, next(found) if filtered else None)


def smooth(
    matrix: Float[Array, "state state"],
    log_likelihoods: Float[Array, "time state"],
    passed: Passed,
    valid: Shaped[Array, " time"] | None,
) -> tuple[Float[Array, "time state"], Float[Array, "state state"]]:
    """The marginals p(z_t | all observations), the last one behind the end, and the expected numbers of moves.

    `passed` is what `forward` gave, with filtered beliefs.
    """
    lengths, filtered = lengths_of(valid, len(log_likelihoods)), passed.filtered
    assert filtered is not None
    marginals, moves = _smooth.single(matrix, log_likelihoods, lengths, filtered, passed.top, passed.total)
    return marginals, moves


def best_path(
    log_matrix: Float[Array, "state state"],
    log_belief: Float[Array, " state"],
    log_likelihoods: Float[Array, "time state"],
    valid: Shaped[Array, " time"] | None,
) -> tuple[Shaped[Array, " time"], Float[Array, " time"]]:
    """The most probable path (Viterbi), behind the end its last state, and the log-probability of each of its steps."""
    path, steps = _best.single(log_matrix, log_belief, log_likelihoods, lengths_of(valid, len(log_likelihoods)))
    return path, steps


def sampled_path(
    matrix: Float[Array, "state state"],
    filtered: Float[Array, "time state"],
    noise: Float[Array, "time state"],
    valid: Shaped[Array, " time"] | None,
) -> Shaped[Array, " time"]:
    """A path drawn from the posterior by Gumbel noise; the last row of the noise is for the last state."""
    return _draw.single(matrix, filtered, noise, lengths_of(valid, len(filtered)))[0]


def _run(matrix, belief, seen, lengths, *, options):
    groups, sequences, time, states = seen.shape
    shape = lambda *rest: jax.ShapeDtypeStruct((groups, sequences, *rest), seen.dtype)  # noqa: E731
    rows = [shape(time if wanted else 0, states) for wanted in options]
    found = call(
        "hmm_forward", [shape(time), shape(states), shape(time), shape(time), *rows], matrix, belief, seen, lengths
    )
    return found[:4] + [a for a, wanted in zip(found[4:], options, strict=True) if wanted]


def _run_slopes(matrix, seen, lengths, filtered, top, total, d_evidence, d_final, *more, options):
    """`more` are the adjoints of predicted and of filtered beliefs, where `options` says so."""
    more = iter(more)
    none = jnp.zeros((*seen.shape[:2], 0, seen.shape[-1]), seen.dtype)
    d_predicted, d_filtered = (next(more) if wanted else none for wanted in options)
    given = matrix, seen, lengths, filtered, top, total, d_evidence, d_final, d_predicted, d_filtered
    return call("hmm_slopes", [*like(seen, d_final), _moves(seen)], *given)


def _run_smooth(matrix, seen, lengths, filtered, top, total, *, options):
    del options
    return call("hmm_smooth", [*like(seen), _moves(seen)], matrix, seen, lengths, filtered, top, total)


def _run_best(matrix, belief, seen, lengths, *, options):
    del options
    shapes = [jax.ShapeDtypeStruct(seen.shape[:3], dtype) for dtype in (jnp.int32, seen.dtype)]
    return call("hmm_best", shapes, matrix, belief, seen, lengths)


def _run_draw(matrix, filtered, noise, lengths, *, options):
    del options
    shapes = [jax.ShapeDtypeStruct(filtered.shape[:3], jnp.int32)]
    return call("hmm_draw", shapes, matrix, filtered, noise, lengths)


def _moves(seen):
    return jax.ShapeDtypeStruct((*seen.shape[:2], seen.shape[-1], seen.shape[-1]), seen.dtype)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _differentiable(options, matrix, belief, seen, lengths):
    return tuple(_forward(matrix, belief, seen, lengths, options=options))


def _keep(options, matrix, belief, seen, lengths):
    found = _forward(matrix, belief, seen, lengths, options=(options[0], True))
    out = found if options[1] else found[:-1]
    return tuple(out), (matrix, seen, lengths, found[-1], found[2], found[3])


def _pull(options, kept, cotangents):
    d_evidence, d_final, _, _, *more = cotangents
    d_seen, d_belief, d_matrix = _slopes(*kept, d_evidence, d_final, *more, options=options)
    return d_matrix.sum(1), d_belief, d_seen, None


_differentiable.defvjp(_keep, adjoints_alike(_pull))
_forward = Operation("hmm_forward", _run, shared=1, derivative=_differentiable)
_slopes = Operation("hmm_slopes", _run_slopes, shared=1)
_smooth = Operation("hmm_smooth", _run_smooth, shared=1)
_best = Operation("hmm_best", _run_best, shared=1)
_draw = Operation("hmm_draw", _run_draw, shared=1)
