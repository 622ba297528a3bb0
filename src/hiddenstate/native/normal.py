"""Independent normal columns under each of several states: log-densities of all steps, and weighted moments."""

from functools import partial

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.native.manual import adjoints_alike
from hiddenstate.native.operation import Operation, call, lengths_of


def log_densities(
    centres: Float[Array, "state column"],
    offsets: Float[Array, "state column"],
    inverse: Float[Array, "state column"],
    constants: Float[Array, " state"],
    values: Float[Array, "time column"],
    valid: Shaped[Array, " time"] | None,
) -> Float[Array, "time state"]:
    """``constants - (a**2).sum(-1) / 2`` with ``a = ((values - centres) - offsets) * inverse``; zero behind the end."""
    return _densities.single(centres, offsets, inverse, constants, values, lengths_of(valid, len(values)))[0]


def moments(
    centres: Float[Array, "state column"],
    offsets: Float[Array, "state column"],
    inverse: Float[Array, "state column"],
    weights: Float[Array, "time state"],
    values: Float[Array, "time column"],
    valid: Shaped[Array, " time"] | None,
) -> tuple[Float[Array, " state"], Float[Array, "state column"], Float[Array, "state column"]]:
    """Sums over time of the weights, and of these times the same deviations and their squares."""
    weight, first, second = _moments.single(centres, offsets, inverse, weights, values, lengths_of(valid, len(values)))
    return weight, first, second


def _run_densities(centres, offsets, inverse, constants, values, lengths, *, options):
    del options
    shape = jax.ShapeDtypeStruct((*values.shape[:3], centres.shape[1]), values.dtype)
    return call("normal_densities", [shape], centres, offsets, inverse, constants, values, lengths)


def _run_moments(centres, offsets, inverse, weights, values, lengths, *, options):
    del options
    shape = lambda *rest: jax.ShapeDtypeStruct((*values.shape[:2], *rest), values.dtype)  # noqa: E731
    shapes = [shape(centres.shape[1]), shape(*centres.shape[1:]), shape(*centres.shape[1:])]
    return call("normal_moments", shapes, centres, offsets, inverse, weights, values, lengths)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _differentiable(options, *given):
    return tuple(_densities(*given, options=options))


def _keep(options, *given):
    return _differentiable(options, *given), given


def _pull(options, given, cotangents):
    del options
    (slopes,) = cotangents
    centres, offsets, inverse, _, values, lengths = given
    weight, first, second = (a.sum(1) for a in _moments(centres, offsets, inverse, slopes, values, lengths))
    d_means = inverse * first
    inside = jnp.arange(values.shape[2]) < lengths[..., None]
    d_values = _value_slopes(centres, offsets, inverse, jnp.where(inside[..., None], slopes, 0), values)
    return d_means, d_means, -second / inverse, weight, d_values, None


def _value_slopes(centres, offsets, inverse, slopes, values):
    """By products of matrices, around the mean of all centres so that no digits are lost."""
    middle = centres.mean(1, keepdims=True)
    square = inverse**2
    pull = jnp.einsum("gstk,gki->gsti", slopes, square * (centres - middle + offsets), precision="highest")
    return pull - jnp.einsum("gstk,gki->gsti", slopes, square, precision="highest") * (values - middle[:, :, None])


_differentiable.defvjp(_keep, adjoints_alike(_pull))
_densities = Operation("normal_densities", _run_densities, shared=4, derivative=_differentiable)
_moments = Operation("normal_moments", _run_moments, shared=3)
