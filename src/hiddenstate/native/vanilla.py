"""The plain and the leaky recurrent network over all steps of a sequence."""

from functools import partial

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.native.operation import Operation, call, lengths_of, like
from hiddenstate.native.weights import NONE, none_like, weight_gradient

NONLINEARITIES = ("tanh", "relu", "identity", "sigmoid")
"""Those that the kernel knows."""


def vanilla(
    nonlinearity: str,
    weight: Float[Array, "hidden hidden"],
    alpha: Float[Array, " hidden"] | None,
    start: Float[Array, " hidden"],
    elements: Float[Array, "time hidden"],
    valid: Shaped[Array, " time"] | None,
) -> tuple[Float[Array, "time hidden"], Float[Array, " hidden"]]:
    """The states ``h' = phi(W h + e)`` before every step, and the last; behind the end of a sequence that stays.

    With `alpha` they are ``(1 - alpha) h + alpha phi(W h + e)``.
    """
    leak = jnp.zeros(NONE, weight.dtype) if alpha is None else alpha
    lengths, options = lengths_of(valid, len(elements)), (NONLINEARITIES.index(nonlinearity),)
    states, final = _forward.single(weight, leak, start, elements, lengths, options=options)
    return states, final


def _run(weight, alpha, start, elements, lengths, *, options, keep=False):
    keep = keep and alpha.size > 0  # without a leak the drive of a step is the state after it
    shapes = like(elements, start, elements if keep else none_like(elements))
    arrays = weight, alpha, start, elements, lengths
    return call("vanilla_forward", shapes, *arrays, aliases={3: 2} if keep else {}, nonlinearity=options[0])


def _run_back(weight, alpha, lengths, drive, states, final, d_states, d_final, *, options):
    leaky = alpha.size > 0
    shapes = like(d_final, states, d_final if leaky else none_like(states))
    arrays = weight, alpha, lengths, drive, states, final, d_states, d_final
    return call("vanilla_backward", shapes, *arrays, aliases={3: 1} if leaky else {}, nonlinearity=options[0])


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _differentiable(options, weight, alpha, start, elements, lengths):
    return tuple(_forward(weight, alpha, start, elements, lengths, options=options))


def _keep(options, weight, alpha, start, elements, lengths):
    states, final, drive = _keeping(weight, alpha, start, elements, lengths, options=options)
    return (states, final), (weight, alpha, lengths, drive, states, final)


def _pull(options, kept, cotangents):
    d_start, d_elements, d_alpha = _backward(*kept, *cotangents, options=options)
    return weight_gradient(d_elements, kept[-2]), d_alpha.sum(1), d_start, d_elements, None


_differentiable.defvjp(_keep, _pull)
_forward = Operation("vanilla_forward", lambda *x, **o: _run(*x, **o)[:2], shared=2, derivative=_differentiable)
_keeping = Operation("vanilla_keeping", partial(_run, keep=True), shared=2)
_backward = Operation("vanilla_backward", _run_back, shared=2)
