"""The gated recurrent unit over all steps of a sequence."""

from functools import partial

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.native.manual import adjoints_alike
from hiddenstate.native.operation import Operation, call, lengths_of, like
from hiddenstate.native.reading import Reading, parts_of, pulled, pulled_shape, steps_of
from hiddenstate.native.weights import NONE, weight_gradients


def gru(
    reset: str,
    weight: Float[Array, "three_hidden hidden"],
    candidate_bias: Float[Array, " hidden"] | None,
    start: Float[Array, " hidden"],
    outside: Float[Array, "time three_hidden"] | Reading,
    valid: Shaped[Array, " time"] | None,
) -> tuple[Float[Array, "time hidden"], Float[Array, " hidden"]]:
    """The states before every step, and the last one; behind the end of a sequence that stays.

    `outside` are the inputs of r, z and n, or what the kernel computes them from; `weight` are their recurrent weights
    in the same order. With `reset` "after" r multiplies the recurrent part of n, with `candidate_bias` in it; with
    "before", the state that it comes from.
    """
    own = jnp.zeros(NONE, weight.dtype) if candidate_bias is None else candidate_bias
    input_weight, bias, elements, inputs = parts_of(outside)
    time = steps_of(outside)
    arrays = weight, input_weight, bias, own, start, elements, inputs, lengths_of(valid, time)
    states, final = _forward.single(*arrays, options=(reset == "before", time))
    return states, final


def _run(weight, input_weight, bias, own, start, elements, inputs, lengths, *, options, keep=False):
    before, time = options
    lead, units = start.shape[:2], weight.shape[-1]
    shaped = lambda numbers: jax.ShapeDtypeStruct((*lead, time, numbers) if numbers else (*lead, 0), weight.dtype)  # noqa: E731
    shapes = [shaped(units), *like(start), shaped(3 * units * keep), shaped(units * (keep and not before))]
    aliases = {5: 2} if keep and elements.size else {}  # each step's gates take the place of its inputs
    arrays = weight, input_weight, bias, own, start, elements, inputs, lengths
    return call("gru_forward", shapes, *arrays, aliases=aliases, before=int(before))


def _run_back(weight, input_weight, lengths, gates, recurrent, states, d_states, d_final, *, options):
    aliases = {3: 1} if options[0] else {3: 1, 4: 2}
    arrays = weight, input_weight, lengths, gates, recurrent, states, d_states, d_final
    inputs = pulled_shape(input_weight, gates, options)
    shapes = [*like(d_final, gates, recurrent), inputs]
    return call("gru_backward", shapes, *arrays, aliases=aliases, before=int(options[0]))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _differentiable(options, *arrays):
    return tuple(_forward(*arrays, options=options))


def _keep(options, weight, input_weight, bias, own, start, elements, inputs, lengths):
    arrays = weight, input_weight, bias, own, start, elements, inputs, lengths
    states, final, gates, recurrent = _keeping(*arrays, options=options)
    return (states, final), (weight, input_weight, bias, own, inputs, lengths, gates, recurrent, states)


def _pull(options, kept, cotangents):
    weight, input_weight, bias, own, inputs, lengths, gates, recurrent, states = kept
    d_start, d_elements, d_recurrent, d_inputs = _backward(
        weight, input_weight, lengths, gates, recurrent, states, *cotangents, options=options
    )
    units = states.shape[-1]
    none = jnp.zeros((*states.shape[:-1], 0), states.dtype)
    d_gates, d_read, d_bias = weight_gradients(d_elements, states, inputs, seen_outputs=2 * units)
    if options[0]:
        d_candidate = weight_gradients(d_elements[..., 2 * units :], gates[..., :units] * states, none)
    else:
        d_candidate = weight_gradients(d_recurrent, states, none)
    d_weight = jnp.concatenate([d_gates, d_candidate.seen], 1)
    d_own = d_candidate.bias if own.size else jnp.zeros_like(own)
    d_outside = pulled((d_read, d_bias), d_elements, d_inputs, bias, read=input_weight.size > 0)
    return d_weight, *d_outside[:2], d_own, d_start, *d_outside[2:], None


_differentiable.defvjp(_keep, adjoints_alike(_pull))
_forward = Operation("gru_forward", lambda *x, **o: _run(*x, **o)[:2], shared=4, derivative=_differentiable)
_keeping = Operation("gru_keeping", partial(_run, keep=True), shared=4)
_backward = Operation("gru_backward", _run_back, shared=2, spares=3)
