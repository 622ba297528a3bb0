"""The affine recurrence of independent units, in each of the ways that `hiddenstate.ops.linear_recurrence` holds it."""

from functools import partial

import jax

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.native.manual import adjoints_alike
from hiddenstate.native.operation import Operation, call, lengths_of, like

FORMS = ("plain", "decay", "logarithms")
"""(a, b) of ``h' = a h + b``, (log a, b), or (log a, log b)."""


def affine(
    form: str,
    start: Float[Array, " unit"],
    a: Float[Array, "time unit"],
    b: Float[Array, "time unit"],
    valid: Shaped[Array, " time"] | None,
) -> tuple[Float[Array, "time unit"], Float[Array, " unit"]]:
    """The states before every step, and the last one; behind the end of a sequence the last one stays."""
    states, final = _forward.single(start, a, b, lengths_of(valid, len(a)), options=(FORMS.index(form),))
    return states, final


def _run(start, a, b, lengths, *, options):
    return call("affine_forward", like(a, start), start, a, b, lengths, form=options[0])


def _run_back(a, b, lengths, states, d_states, d_final, *, options):
    shapes = like(d_final, a, a)
    return call("affine_backward", shapes, a, b, lengths, states, d_states, d_final, form=options[0])


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _differentiable(options, start, a, b, lengths):
    return tuple(_forward(start, a, b, lengths, options=options))


def _keep(options, start, a, b, lengths):
    states, final = _forward(start, a, b, lengths, options=options)
    return (states, final), (a, b, lengths, states)


def _pull(options, kept, cotangents):
    d_start, d_a, d_b = _backward(*kept, *cotangents, options=options)
    return d_start, d_a, d_b, None


_differentiable.defvjp(_keep, adjoints_alike(_pull))
_forward = Operation("affine_forward", _run, shared=0, derivative=_differentiable)
_backward = Operation("affine_backward", _run_back, shared=0)
