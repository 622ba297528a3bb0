"""The gated recurrent unit over all steps of a sequence."""

from functools import partial

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.native.operation import Operation, call, lengths_of, like
from hiddenstate.native.weights import NONE, none_like, weight_gradient


def gru(
    reset: str,
    weight: Float[Array, "three_hidden hidden"],
    candidate_bias: Float[Array, " hidden"] | None,
    start: Float[Array, " hidden"],
    elements: Float[Array, "time three_hidden"],
    valid: Shaped[Array, " time"] | None,
) -> tuple[Float[Array, "time hidden"], Float[Array, " hidden"]]:
    """The states before every step, and the last one; behind the end of a sequence that stays.

    `elements` are the inputs of r, z and n, `weight` their recurrent weights in the same order. With `reset` "after" r
    multiplies the recurrent part of n, with `candidate_bias` in it; with "before", the state that it comes from.
    """
    bias = jnp.zeros(NONE, weight.dtype) if candidate_bias is None else candidate_bias
    lengths = lengths_of(valid, len(elements))
    states, final = _forward.single(weight, bias, start, elements, lengths, options=(reset == "before",))
    return states, final


def _run(weight, bias, start, elements, lengths, *, options, keep=False):
    none = none_like(elements)
    states = jax.ShapeDtypeStruct((*elements.shape[:-1], weight.shape[-1]), elements.dtype)
    shapes = [states, *like(start, elements if keep else none), *like(none)]
    shapes[3] = states if keep and not options[0] else shapes[3]
    aliases = {3: 2} if keep else {}  # each step's gates take the place of its inputs
    arrays = weight, bias, start, elements, lengths
    return call("gru_forward", shapes, *arrays, aliases=aliases, before=int(options[0]))


def _run_back(weight, lengths, gates, recurrent, states, d_states, d_final, *, options):
    aliases = {2: 1} if options[0] else {2: 1, 3: 2}
    arrays = weight, lengths, gates, recurrent, states, d_states, d_final
    return call("gru_backward", like(d_final, gates, recurrent), *arrays, aliases=aliases, before=int(options[0]))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _differentiable(options, weight, bias, start, elements, lengths):
    return tuple(_forward(weight, bias, start, elements, lengths, options=options))


def _keep(options, weight, bias, start, elements, lengths):
    states, final, gates, recurrent = _keeping(weight, bias, start, elements, lengths, options=options)
    return (states, final), (weight, bias, lengths, gates, recurrent, states)


def _pull(options, kept, cotangents):
    weight, bias, lengths, gates, recurrent, states = kept
    d_start, d_elements, d_recurrent = _backward(
        weight, lengths, gates, recurrent, states, *cotangents, options=options
    )
    units = states.shape[-1]
    # The product with all of d_elements is less work than a copy of the part that belongs to r and z.
    d_gates = weight_gradient(d_elements, states)[:, : 2 * units]
    if options[0]:
        d_candidate = weight_gradient(d_elements[..., 2 * units :], gates[..., :units] * states)
    else:
        d_candidate = weight_gradient(d_recurrent, states)
    d_bias = d_recurrent.sum((1, 2)) if bias.size else jnp.zeros_like(bias)
    return jnp.concatenate([d_gates, d_candidate], 1), d_bias, d_start, d_elements, None


_differentiable.defvjp(_keep, _pull)
_forward = Operation("gru_forward", lambda *x, **o: _run(*x, **o)[:2], shared=2, derivative=_differentiable)
_keeping = Operation("gru_keeping", partial(_run, keep=True), shared=2)
_backward = Operation("gru_backward", _run_back, shared=1)
