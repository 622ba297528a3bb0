"""The plain and the leaky recurrent network over all steps of a sequence."""

from functools import partial

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.native.manual import adjoints_alike
from hiddenstate.native.operation import Operation, call, lengths_of, like
from hiddenstate.native.reading import Reading, parts_of, pulled, pulled_shape, steps_of
from hiddenstate.native.weights import NONE, none_like, weight_gradients

NONLINEARITIES = ("tanh", "relu", "identity", "sigmoid")
"""Those that the kernel knows."""


def vanilla(
    nonlinearity: str,
    weight: Float[Array, "hidden hidden"],
    alpha: Float[Array, " hidden"] | None,
    start: Float[Array, " hidden"],
    outside: Float[Array, "time hidden"] | Reading,
    valid: Shaped[Array, " time"] | None,
) -> tuple[Float[Array, "time hidden"], Float[Array, " hidden"]]:
    """The states ``h' = phi(W h + e)`` before every step, and the last; behind the end of a sequence that stays.

    With `alpha` they are ``(1 - alpha) h + alpha phi(W h + e)``. `outside` are all e, or what the kernel computes them
    from.
    """
    leak = jnp.zeros(NONE, weight.dtype) if alpha is None else alpha
    input_weight, bias, elements, inputs = parts_of(outside)
    time = steps_of(outside)
    arrays = weight, input_weight, bias, leak, start, elements, inputs, lengths_of(valid, time)
    states, final = _forward.single(*arrays, options=(NONLINEARITIES.index(nonlinearity), time))
    return states, final


def _run(weight, input_weight, bias, alpha, start, elements, inputs, lengths, *, options, keep=False):
    phi, time = options
    keep = keep and alpha.size > 0  # without a leak the drive of a step is the state after it
    lead, units = start.shape[:2], weight.shape[-1]
    states, drive = (jax.ShapeDtypeStruct(shape, weight.dtype) for shape in ((*lead, time, units), (*lead, 0)))
    arrays = weight, input_weight, bias, alpha, start, elements, inputs, lengths
    aliases = {5: 2} if keep and elements.size else {}
    shapes = [states, *like(start), states if keep else drive]
    return call("vanilla_forward", shapes, *arrays, aliases=aliases, nonlinearity=phi)


def _run_back(weight, input_weight, alpha, lengths, drive, states, final, d_states, d_final, *, options):
    leaky = alpha.size > 0
    inputs = pulled_shape(input_weight, states, options)
    shapes = [*like(d_final, states, d_final if leaky else none_like(states)), inputs]
    arrays = weight, input_weight, alpha, lengths, drive, states, final, d_states, d_final
    return call("vanilla_backward", shapes, *arrays, aliases={4: 1} if leaky else {}, nonlinearity=options[0])


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _differentiable(options, *arrays):
    return tuple(_forward(*arrays, options=options))


def _keep(options, weight, input_weight, bias, alpha, start, elements, inputs, lengths):
    arrays = weight, input_weight, bias, alpha, start, elements, inputs, lengths
    states, final, drive = _keeping(*arrays, options=options)
    return (states, final), (bias, inputs, weight, input_weight, alpha, lengths, drive, states, final)


def _pull(options, kept, cotangents):
    bias, inputs, *rest = kept
    d_start, d_elements, d_alpha, d_inputs = _backward(*rest, *cotangents, options=options)
    d_weight, d_read, d_bias = weight_gradients(d_elements, rest[-2], inputs)
    d_outside = pulled((d_read, d_bias), d_elements, d_inputs, bias, read=rest[1].size > 0)
    return d_weight, *d_outside[:2], d_alpha.sum(1), d_start, *d_outside[2:], None


_differentiable.defvjp(_keep, adjoints_alike(_pull))
_forward = Operation("vanilla_forward", lambda *x, **o: _run(*x, **o)[:2], shared=4, derivative=_differentiable)
_keeping = Operation("vanilla_keeping", partial(_run, keep=True), shared=4)
_backward = Operation("vanilla_backward", _run_back, shared=3, spares=3)
