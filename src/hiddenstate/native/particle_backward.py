"""The derivative of bootstrap particle filters: by a kernel, backwards, along the ancestors that were chosen.

What the way there keeps is the cloud of each step; the noise that moved it is drawn again from the key of the step.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from hiddenstate._types import Array
from hiddenstate.native.manual import adjoints_alike
from hiddenstate.native.operation import Operation, call, like

KEEPING = ("nothing", "before", "after")
AFTER = KEEPING.index("after")


class Kept(NamedTuple):
    """What a filter gave, with the clouds of all steps as weighted by what was observed there."""

    evidence: Array
    sizes: Array
    resampled: Array
    particles: Array
    weights: Array
    ancestors: Array
    keys: Array
    last: Array
    last_ancestors: Array

    def passed(self) -> tuple[Array, ...]:
        """What both kernels take of it, behind whether something was seen and lengths."""
        return (
            self.evidence,
            self.sizes,
            self.resampled,
            self.weights,
            self.ancestors,
            self.keys,
            self.last_ancestors,
        )


def derivatives(linear: Callable[[], Operation], symbols: Callable[[], Operation]) -> tuple[Any, Any]:
    """The functions of both filters with their derivatives, from the operations, which are made of these."""
    return _with_slopes(linear, _pull_linear), _with_slopes(symbols, _pull_symbols)


def _with_slopes(operation: Callable[[], Operation], pull: Callable[..., Any]) -> Any:
    def compute(options, *arrays):
        return tuple(operation()(*arrays, options=options))

    def keep(options, *arrays):
        choosing, keeping, *rest = options
        if keeping == KEEPING.index("before"):
            raise TypeError("a compiled particle filter has no derivative of states; use strategy=hs.Sequential().")
        evidence, sizes, resampled, *cloud = operation()(*arrays, options=(choosing, AFTER, *rest))
        last, along = cloud[:4], cloud[4:]
        particles, weights, ancestors, keys = along
        kept = Kept(evidence, sizes, resampled, particles, weights, ancestors, keys, last[0], last[2])
        out = along if keeping == AFTER else [a[:, :, :0] for a in along]
        return (evidence, sizes, resampled, *last, *out), (arrays, kept)

    function = jax.custom_vjp(compute, nondiff_argnums=(0,))
    function.defvjp(keep, adjoints_alike(pull))
    return function


def _pull_linear(options, given, cotangents):
    (_, transition, root, emission, _, *_, xs, shift, seen, lengths), kept = given
    d_evidence, d_sizes, _, d_last, d_last_weights, _, _, d_kept, d_weights, _, _ = cotangents
    arrays = transition, emission, xs, kept.particles, seen, lengths, *kept.passed()
    adjoints = d_evidence, d_sizes, d_last, d_last_weights, d_kept, d_weights
    slopes = _linear_slopes(*arrays, *adjoints, options=(root.shape[-1], options[3]))
    *shared, d_first, d_first_weights, d_xs, d_shift = slopes
    d_shift = d_shift if shift.shape[2] == xs.shape[2] else d_shift.sum(2, keepdims=True)
    return None, *(a.sum(1) for a in shared), d_first, d_first_weights, None, d_xs, d_shift, None, None


def _pull_symbols(options, given, cotangents):
    del options
    (_, _, log_probs, *_, seen, lengths), kept = given
    d_evidence, d_sizes, _, _, d_last_weights, _, _, _, d_weights, _, _ = cotangents
    arrays = kept.particles, kept.last, seen, lengths, *kept.passed()
    slopes = _symbols_slopes(*arrays, d_evidence, d_sizes, d_last_weights, d_weights, options=(log_probs.shape[-1],))
    d_log_probs, d_first_weights, d_likelihoods = slopes
    return None, None, d_log_probs.sum(1), None, d_first_weights, None, d_likelihoods, None, None


def _run_linear_slopes(*arrays, options):
    transition, emission, xs = arrays[:3]
    d_last, d_last_weights = arrays[15:17]
    noises, precise = options
    lead, size = d_last.shape[:2], transition.shape[-1]
    shape = lambda *rest: jax.ShapeDtypeStruct((*lead, *rest), xs.dtype)  # noqa: E731
    shared = [shape(size, size), shape(size, noises), shape(*emission.shape[1:]), shape(1)]
    shapes = [*shared, *like(d_last, d_last_weights, xs), shape(xs.shape[2], size)]
    return call("particle_linear_slopes", shapes, *arrays, drawn_in_double=precise)


def _run_symbols_slopes(*arrays, options):
    (states,) = options
    evidence, d_last_weights = arrays[4], arrays[13]
    shape = lambda *rest: jax.ShapeDtypeStruct((*evidence.shape[:2], *rest), evidence.dtype)  # noqa: E731
    shapes = [shape(states, states), *like(d_last_weights), shape(evidence.shape[2], states)]
    return call("particle_symbols_slopes", shapes, *arrays)


_linear_slopes = Operation("particle_linear_slopes", _run_linear_slopes, shared=2)
_symbols_slopes = Operation("particle_symbols_slopes", _run_symbols_slopes, shared=0)
