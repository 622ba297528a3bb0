"""Long short-term memory over all steps of a sequence."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.native.manual import adjoints_alike
from hiddenstate.native.operation import Operation, call, lengths_of, like
from hiddenstate.native.reading import Reading, parts_of, pulled, pulled_shape, steps_of
from hiddenstate.native.weights import NONE, after, none_like, weight_gradients


def lstm(
    input: str,
    weight: Float[Array, "four_hidden hidden"],
    peephole: Float[Array, "3 hidden"] | None,
    start: tuple[Float[Array, " hidden"], Float[Array, " hidden"]],
    outside: Float[Array, "time four_hidden"] | Reading,
    valid: Shaped[Array, " time"] | None,
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """The pairs (c, h) before every step, and the last pair; behind the end of a sequence that stays.

    `outside` are the inputs of the gates i, f, g and o, or what the kernel computes them from; `weight` are their
    recurrent weights in the same order, `peephole` those of i, f and o on c. `input` is the nonlinearity of g, "tanh"
    or "sigmoid".
    """
    seen = jnp.zeros(NONE, weight.dtype) if peephole is None else peephole
    input_weight, bias, elements, inputs = parts_of(outside)
    lengths = lengths_of(valid, steps_of(outside))
    arrays = weight, input_weight, bias, seen, *start, elements, inputs, lengths
    c, h, final_c, final_h = _forward.single(*arrays, options=(input == "sigmoid", steps_of(outside)))
    return (c, h), (final_c, final_h)


def _run(weight, input_weight, bias, peephole, start_c, start_h, elements, inputs, lengths, *, options, keep=False):
    sigmoid, time, *spared = options
    lead, units = start_c.shape[:2], weight.shape[-1]
    states = jax.ShapeDtypeStruct((*lead, time, units), weight.dtype)
    gates = jax.ShapeDtypeStruct((*lead, time, 4 * units) if keep else (*lead, 0), weight.dtype)
    arrays = weight, input_weight, bias, peephole, start_c, start_h, elements, inputs, lengths
    aliases = {6: 4} if keep and elements.size else {}  # each step's gates take the place of its inputs
    inner = jax.ShapeDtypeStruct((*lead, time, 0), weight.dtype) if spared else states
    shapes = [inner, states, *like(start_c, start_h), gates]
    out = call("lstm_forward", shapes, *arrays, aliases=aliases, sigmoid_input=int(sigmoid))
    return out if keep else out[:4]


def _run_back(weight, input_weight, peephole, lengths, gates, c, final_c, d_c, d_h, d_final_c, d_final_h, *, options):
    inputs = pulled_shape(input_weight, gates, options)
    shapes = [*like(d_final_c, d_final_h, gates), inputs]
    arrays = weight, input_weight, peephole, lengths, gates, c, final_c, d_c, d_h, d_final_c, d_final_h
    return call("lstm_backward", shapes, *arrays, aliases={4: 2}, sigmoid_input=int(options[0]))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _differentiable(options, *arrays):
    return tuple(_forward(*arrays, options=options))


def _keep(options, *arguments):
    weight, input_weight, bias, peephole, *each, inputs, lengths = (argument.value for argument in arguments)
    *out, gates = _keeping(weight, input_weight, bias, peephole, *each, inputs, lengths, options=options)
    return tuple(out), (weight, input_weight, bias, peephole, inputs, lengths, gates, *out[:3])


def _pull(options, kept, cotangents):
    weight, input_weight, bias, peephole, inputs, lengths, gates, c, h, final_c = kept
    # Most losses see h alone: the adjoints of c are then no array of zeros, but nothing.
    d_c = none_like(c) if isinstance(cotangents[0], SymbolicZero) else cotangents[0]
    shapes = zip(cotangents[1:], (h, final_c, final_c), strict=True)
    others = (jnp.zeros_like(array) if isinstance(d, SymbolicZero) else d for d, array in shapes)
    d_start_c, d_start_h, d_gates, d_inputs = _backward(
        weight, input_weight, peephole, lengths, gates, c, final_c, d_c, *others, options=options
    )
    d_peephole = jnp.zeros_like(peephole)
    if peephole.size:
        seen = jnp.stack([c, c, after(c, final_c)], -2)
        each = d_gates.reshape(*c.shape[:-1], 4, -1)[..., (0, 1, 3), :]
        d_peephole = jnp.einsum("gstph,gstph->gph", each, seen)
    d_weight, d_read, d_bias = weight_gradients(d_gates, h, inputs)
    d_outside = pulled((d_read, d_bias), d_gates, d_inputs, bias, read=input_weight.size > 0)
    return d_weight, *d_outside[:2], d_peephole, d_start_c, d_start_h, *d_outside[2:], None


_differentiable.defvjp(_keep, adjoints_alike(_pull), symbolic_zeros=True)
_forward = Operation("lstm_forward", _run, shared=4, derivative=_differentiable, spares=0)
_keeping = Operation("lstm_keeping", partial(_run, keep=True), shared=4)
_backward = Operation("lstm_backward", _run_back, shared=3, spares=3)
