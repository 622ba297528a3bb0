"""Minimal gated cells over all steps of a sequence, from their inputs: gates, candidate and recurrence in one pass."""

from functools import partial

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.native.manual import adjoints_alike
from hiddenstate.native.operation import Operation, call, lengths_of, like
from hiddenstate.native.reading import pulled_shape
from hiddenstate.native.weights import NONE, weight_gradients

CELLS = ("mingru", "minlstm")


def minimal(
    cell: str,
    positive: bool,
    weight: Float[Array, "lines input"],
    bias: Float[Array, " lines"] | None,
    start: Float[Array, " hidden"],
    inputs: Float[Array, "time input"],
    valid: Shaped[Array, " time"] | None,
) -> tuple[Float[Array, "time hidden"], Float[Array, " hidden"]]:
    """The states before every step, and the last one; behind the end of a sequence that stays.

    `weight` and `bias` give the lines of z and c ("mingru") or of f, i and c ("minlstm"). With `positive` the candidate
    is g(c), as in log space.
    """
    given = jnp.zeros(NONE, weight.dtype) if bias is None else bias
    arrays = weight, given, start, inputs.astype(weight.dtype), lengths_of(valid, len(inputs))
    states, final = _forward.single(*arrays, options=(CELLS.index(cell), int(positive)))
    return states, final


def _run(weight, bias, start, inputs, lengths, *, options, keep=False):
    states = jax.ShapeDtypeStruct((*inputs.shape[:-1], start.shape[-1]), weight.dtype)
    kept = (*inputs.shape[:-1], weight.shape[-2]) if keep else (*inputs.shape[:2], 0)
    shapes = [states, *like(start), jax.ShapeDtypeStruct(kept, weight.dtype)]
    out = call("minimal_forward", shapes, weight, bias, start, inputs, lengths, **_attributes(options))
    return out if keep else out[:2]


def _run_back(weight, lengths, lines, states, d_states, d_final, *, options):
    inputs = pulled_shape(weight, lines, options)
    arrays = weight, lengths, lines, states, d_states, d_final
    # The adjoints of a step's lines take their place.
    return call("minimal_backward", [*like(d_final, lines), inputs], *arrays, aliases={2: 1}, **_attributes(options))


def _attributes(options):
    return dict(zip(("lstm", "positive"), options[:2], strict=True))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _differentiable(options, *arrays):
    return tuple(_forward(*arrays, options=options))


def _keep(options, weight, bias, start, inputs, lengths):
    states, final, lines = _keeping(weight, bias, start, inputs, lengths, options=options)
    return (states, final), (weight, bias, inputs, lengths, lines, states)


def _pull(options, kept, cotangents):
    weight, bias, inputs, lengths, lines, states = kept
    d_start, d_lines, d_inputs = _backward(weight, lengths, lines, states, *cotangents, options=options)
    none = jnp.zeros((*inputs.shape[:-1], 0), inputs.dtype)
    _, d_weight, d_bias = weight_gradients(d_lines, none, inputs)
    return d_weight, d_bias if bias.size else jnp.zeros_like(bias), d_start, d_inputs, None


_differentiable.defvjp(_keep, adjoints_alike(_pull))
_forward = Operation("minimal_forward", _run, shared=2, derivative=_differentiable)
_keeping = Operation("minimal_keeping", partial(_run, keep=True), shared=2)
_backward = Operation("minimal_backward", _run_back, shared=1, spares=2)
