"""Models that were looked at before are not taken apart again.

A model is a frozen tree of many small parts. To take it apart costs far more than to score a short sequence, and it is
asked for at every call: for the compiled program, its precision, its first prediction. So what was found is remembered
for as long as the model lives.
"""

import weakref
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Generic, NamedTuple, TypeVar

import equinox as eqx
import jax

from hiddenstate._types import Array

Found = TypeVar("Found")


class Remembered(Generic[Found]):
    """A function of a model that is computed once for each, and forgotten together with it.

    What it finds must not hold on to the model itself.
    """

    def __init__(self, find: Callable[[Any], Found]):
        self._find = find
        self._known: dict[int, tuple[weakref.ref, Found]] = {}

    def __call__(self, model: Any) -> Found:
        """What was found of this model, by looking where it was not."""
        number = id(model)
        held = self._known.get(number)
        if held is not None and held[0]() is model:
            return held[1]
        found = self._find(model)
        if isinstance(model, eqx.Module):
            self._known[number] = weakref.ref(model, lambda _: self._known.pop(number, None)), found
        return found


class Rest:
    """What is left of a model without its arrays; equal for models that one compiled program serves."""

    def __init__(self, tree: Any, others: tuple):
        self.tree, self.others = tree, others
        self._hash = hash((tree, others))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Rest) and self.tree == other.tree and self.others == other.others

    def joined(self, arrays: tuple[Array, ...]) -> Any:
        """The model with these arrays."""
        given = iter(arrays)
        return jax.tree.unflatten(self.tree, [next(given) if leaf is _ARRAY else leaf for leaf in self.others])


class Parts(NamedTuple):
    """A model as its arrays and the rest."""

    arrays: tuple[Array, ...]
    rest: Rest


_ARRAY = object()
"""Stands where a model has an array."""

_rest = lru_cache(maxsize=256)(Rest)


def _taken_apart(model: Any) -> Parts:
    leaves, tree = jax.tree.flatten(model)
    others = tuple(_ARRAY if eqx.is_array(leaf) else leaf for leaf in leaves)
    return Parts(tuple(leaf for leaf in leaves if eqx.is_array(leaf)), _rest(tree, others))


_parts = Remembered(_taken_apart)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function(model, arrays, *options)` compiled for each kind of model, shape of the arrays and options.

    It gives arrays, and options can be hashed. The same as `equinox.filter_jit` does, at a fraction of its cost for a
    model that was looked at before.
    """

    def run(own: tuple[Array, ...], rest: Rest, arrays: Any, options: tuple) -> Any:
        return function(rest.joined(own), arrays, *options)

    run.__name__ = run.__qualname__ = function.__name__
    program = jax.jit(run, static_argnums=(1, 3))

    @wraps(function)
    def call(model: Any, arrays: Any, *options: Any) -> Any:
        own, rest = _parts(model)
        return program(own, rest, arrays, options)

    return call
