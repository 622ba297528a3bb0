"""Long short-term memory over all steps of a sequence."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.native.operation import Operation, call, lengths_of, like
from hiddenstate.native.weights import NONE, after, none_like, weight_gradient


def lstm(
    input: str,
    weight: Float[Array, "four_hidden hidden"],
    peephole: Float[Array, "3 hidden"] | None,
    start: tuple[Float[Array, " hidden"], Float[Array, " hidden"]],
    elements: Float[Array, "time four_hidden"],
    valid: Shaped[Array, " time"] | None,
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """The pairs (c, h) before every step, and the last pair; behind the end of a sequence that stays.

    `elements` are the inputs of the gates i, f, g and o, `weight` their recurrent weights in the same order, `peephole`
    those of i, f and o on c. `input` is the nonlinearity of g, "tanh" or "sigmoid".
    """
    seen = jnp.zeros(NONE, weight.dtype) if peephole is None else peephole
    lengths = lengths_of(valid, len(elements))
    c, h, final_c, final_h = _forward.single(weight, seen, *start, elements, lengths, options=(input == "sigmoid",))
    return (c, h), (final_c, final_h)


def _run(weight, peephole, start_c, start_h, elements, lengths, *, options, keep=False):
    states = jax.ShapeDtypeStruct((*elements.shape[:-1], weight.shape[-1]), elements.dtype)
    shapes = [states, states, *like(start_c, start_h, elements if keep else none_like(elements))]
    arrays = weight, peephole, start_c, start_h, elements, lengths
    aliases = {4: 4} if keep else {}  # each step's gates take the place of its inputs
    out = call("lstm_forward", shapes, *arrays, aliases=aliases, sigmoid_input=int(options[0]))
    return out if keep else out[:4]


def _run_back(weight, peephole, lengths, gates, c, final_c, d_c, d_h, d_final_c, d_final_h, *, options):
    shapes = like(d_final_c, d_final_h, gates)
    arrays = weight, peephole, lengths, gates, c, final_c, d_c, d_h, d_final_c, d_final_h
    return call("lstm_backward", shapes, *arrays, aliases={3: 2}, sigmoid_input=int(options[0]))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _differentiable(options, weight, peephole, start_c, start_h, elements, lengths):
    return tuple(_forward(weight, peephole, start_c, start_h, elements, lengths, options=options))


def _keep(options, *arguments):
    weight, peephole, start_c, start_h, elements, lengths = (argument.value for argument in arguments)
    *out, gates = _keeping(weight, peephole, start_c, start_h, elements, lengths, options=options)
    return tuple(out), (weight, peephole, lengths, gates, *out[:3])


def _pull(options, kept, cotangents):
    weight, peephole, lengths, gates, c, h, final_c = kept
    # Most losses see h alone: the adjoints of c are then no array of zeros, but nothing.
    d_c = none_like(c) if isinstance(cotangents[0], SymbolicZero) else cotangents[0]
    shapes = zip(cotangents[1:], (h, final_c, final_c), strict=True)
    others = (jnp.zeros_like(array) if isinstance(d, SymbolicZero) else d for d, array in shapes)
    d_start_c, d_start_h, d_elements = _backward(
        weight, peephole, lengths, gates, c, final_c, d_c, *others, options=options
    )
    d_peephole = jnp.zeros_like(peephole)
    if peephole.size:
        seen = jnp.stack([c, c, after(c, final_c)], -2)
        d_gates = d_elements.reshape(*c.shape[:-1], 4, -1)[..., (0, 1, 3), :]
        d_peephole = jnp.einsum("gstph,gstph->gph", d_gates, seen)
    return weight_gradient(d_elements, h), d_peephole, d_start_c, d_start_h, d_elements, None


_differentiable.defvjp(_keep, _pull, symbolic_zeros=True)
_forward = Operation("lstm_forward", _run, shared=2, derivative=_differentiable)
_keeping = Operation("lstm_keeping", partial(_run, keep=True), shared=2)
_backward = Operation("lstm_backward", _run_back, shared=2)
