"""Calls of kernels that JAX can differentiate and map: batches are folded into the one axis that kernels loop over.

A kernel takes arrays that belong to a model and are shared by its sequences (weights), with one leading axis *group*,
and arrays of each sequence, with two, *group* and *sequence*. Mapping over sequences makes the sequence axis longer;
mapping over models too (several seeds at once) makes the group axis longer. So one call of a kernel sees the whole
batch, whatever was mapped, and the gradient of a weight is one large product over all steps of all sequences.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir, partial_eval

from hiddenstate._types import Array
from hiddenstate.native.library import available
from hiddenstate.native.manual import alike, shaped


class Operation:
    """A function of arrays with leading axes (group) for the first `shared` ones and (group, sequence) for the others.

    `compute` gives a list of arrays with leading axes (group, sequence), by calls of kernels. With `derivative`, a
    function of the same arguments with a `jax.custom_vjp`, it can be differentiated once, backwards. `spares` is the
    number of a result that is not computed where nothing needs it: the options are then followed by `SPARED`.
    """

    def __init__(
        self,
        name: str,
        compute: Callable[..., Sequence[Array]],
        *,
        shared: int,
        derivative: Callable[..., Any] | None = None,
        spares: int | None = None,
    ):
        self.shared = shared
        self.primitive = Primitive(f"hiddenstate_{name}")
        self.primitive.multiple_results = True
        listed = lambda *arrays, **options: list(compute(*arrays, **options))  # noqa: E731
        self.primitive.def_impl(jax.jit(listed, static_argnames=_OPTIONS))
        self.primitive.def_abstract_eval(partial(_abstract, listed))
        mlir.register_lowering(self.primitive, mlir.lower_fun(listed, multiple_results=True))
        batching.primitive_batchers[self.primitive] = self._map
        if spares is not None:
            partial_eval.dce_rules[self.primitive] = partial(_spare, listed, spares)
        ad.primitive_jvps[self.primitive] = partial(_differentiate, derivative) if derivative else _refuse

    def __call__(self, *arrays: Array, options: tuple = ()) -> list[Array]:
        """The results for arrays that have the leading axes."""
        kinds = {str(a.dtype) for a in arrays if jnp.issubdtype(a.dtype, jnp.floating)}
        if len(kinds) > 1:
            raise TypeError(f"a kernel got numbers of {' and '.join(sorted(kinds))}; all must be of one precision.")
        return self.primitive.bind(*alike(*arrays), options=options)

    def single(self, *arrays: Array, options: tuple = ()) -> list[Array]:
        """The results for one sequence, of arrays without leading axes."""
        led = [a[None] if i < self.shared else a[None, None] for i, a in enumerate(arrays)]
        return [a[0, 0] for a in self(*led, options=options)]

    def _map(self, arrays, axes, *, options):
        size = next(a.shape[axis] for a, axis in zip(arrays, axes, strict=True) if axis is not None)
        first = [
            jnp.broadcast_to(a[None], (size, *a.shape)) if axis is None else jnp.moveaxis(a, axis, 0)
            for a, axis in zip(arrays, axes, strict=True)
        ]
        if any(axis is not None for axis in axes[: self.shared]):
            out = self(*(a.reshape(size * a.shape[1], *a.shape[2:]) for a in first), options=options)
            out = [a.reshape(size, first[0].shape[1], *a.shape[1:]) for a in out]
        else:
            each = [_fold_sequences(a) for a in first[self.shared :]]
            out = self(*arrays[: self.shared], *each, options=options)
            out = [a.reshape(a.shape[0], size, first[-1].shape[2], *a.shape[2:]) for a in out]
            out = [jnp.moveaxis(a, 1, 0) for a in out]
        return out, [0] * len(out)


_OPTIONS = ("options",)

SPARED = "spared"
"""The last of the options where a result is not needed, which then has no numbers."""


def call(
    name: str,
    shapes: Sequence[jax.ShapeDtypeStruct],
    *arrays: Array,
    aliases: dict[int, int] | None = None,
    **attributes: Any,
) -> list[Array]:
    """Call the kernel of that name, for results of these shapes.

    `aliases` says which arrays, by their number, may lend their memory to which results: where nothing else needs such
    an array, no new memory is touched.
    """
    if not available():  # which also registers them
        raise RuntimeError(f"no kernel can be called: {available().reason}")
    kernel = jax.ffi.ffi_call(f"hiddenstate_{name}", list(shapes), input_output_aliases=aliases)
    return list(kernel(*arrays, **attributes))


def like(*arrays: Array) -> list[jax.ShapeDtypeStruct]:
    """The shapes of these arrays, for `call`."""
    return [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays]


def one_precision(*arrays: Array) -> tuple[Array, ...]:
    """The arrays in the one type that holds them all, as kernels ask for them."""
    dtype = jnp.result_type(*arrays)
    return tuple(a.astype(dtype) for a in arrays)


def lengths_of(valid: Array | None, time: int) -> Array:
    """How many steps of a sequence count, from the mask of those that do."""
    return jnp.int32(time) if valid is None else jnp.sum(valid, dtype=jnp.int32)


def _fold_sequences(a: Array) -> Array:
    """(mapped, group, sequence, ...) as (group, mapped * sequence, ...)."""
    a = jnp.moveaxis(a, 0, 1)
    return a.reshape(a.shape[0], a.shape[1] * a.shape[2], *a.shape[3:])


def _abstract(compute, *avals, options):
    shapes = jax.eval_shape(partial(compute, options=options), *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals))
    return [shaped(avals, s) for s in shapes]


def _spare(compute, number, used, eqn):
    """How an equation looks of which only some results are used: a rule for removing dead code."""
    if not any(used):
        return [False] * len(eqn.invars), None
    if not used[number] and SPARED not in eqn.params["options"]:
        options = (*eqn.params["options"], SPARED)
        left = _abstract(compute, *(v.aval for v in eqn.invars), options=options)[number]
        outvars = list(eqn.outvars)
        outvars[number] = type(outvars[number])(left)  # a variable that nothing reads
        eqn = eqn.replace(params={**eqn.params, "options": options}, outvars=outvars)
    return [True] * len(eqn.invars), eqn


def _differentiate(derivative, primals, tangents, *, options):
    tangents = tuple(ad.instantiate_zeros(t) for t in tangents)
    out, slopes = jax.jvp(lambda *arrays: list(derivative(options, *arrays)), tuple(primals), tangents)
    return out, slopes


def _refuse(primals, tangents, **_):
    raise TypeError(
        "compiled kernels can be differentiated once, backwards; for further derivatives use strategy=hs.Sequential()."
    )
