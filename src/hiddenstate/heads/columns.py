"""Records whose columns are of different kinds."""

from collections.abc import Iterable, Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from hiddenstate._types import Array, Float, Num
from hiddenstate.core import HiddenStateError, dtype_of, register
from hiddenstate.distributions import ColumnsDistribution, pieces_of
from hiddenstate.heads.head import Head, family_of


@register("columns-head")
class Columns(Head):
    """Records whose columns have different types: one head a column, by name, over one linear map.

    >>> Columns({"weather": Categorical(32, 4, key=k1), "rain": Gaussian(32, None, key=k2)})  # doctest: +SKIP

    An observation is one vector of floats, in the order of the heads: a head of single numbers owns one entry
    (symbols and counts as whole numbers), a head of vectors a run of them. Columns are independent given the
    state; a `Mixture` of this head lets them depend on each other. The linear map is made of the given heads'
    own.
    """

    families: tuple[Head, ...]
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, heads: Mapping[str, Head] | Iterable[tuple[str, Head]]):
        pairs: Any = heads.items() if isinstance(heads, Mapping) else heads
        named: list[tuple[str, Head]] = list(pairs)
        if not named:
            raise HiddenStateError("heads is empty; a Columns head needs at least one column.")
        names = tuple(name for name, _ in named)
        if len(set(names)) != len(names):
            raise HiddenStateError(f"the names of the columns are {', '.join(names)}; they must differ.")
        sizes = {name: head.hidden_size for name, head in named}
        if len(set(sizes.values())) != 1:
            raise HiddenStateError(f"the columns' heads have hidden_size {sizes}; they must all have the same.")
        maps = [head.linear for _, head in named]
        self.names = names
        self.families = tuple(family_of(head) for _, head in named)
        self.hidden_size = named[0][1].hidden_size
        self.weight = jnp.concatenate([weight for weight, _ in maps])
        self.bias = jnp.concatenate([bias for _, bias in maps])

    @property
    def event_shape(self) -> tuple[int, ...]:
        """One vector with the entries of all columns."""
        return (sum(head.event_shape[0] if head.event_shape else 1 for head in self.families),)

    @property
    def parameter_count(self) -> int:
        """Those of all columns."""
        return sum(head.parameter_count for head in self.families)

    @property
    def driven(self) -> np.ndarray:
        """What follows the state in each column."""
        return np.concatenate([head.driven for head in self.families])

    @property
    def encoded_size(self) -> int:
        """The codes of all columns."""
        return sum(head.encoded_size for head in self.families)

    def distribution(self, parameters: Float[Array, " parameter"]) -> dist.Distribution:
        """The columns' distributions, side by side."""
        cuts = np.cumsum([head.parameter_count for head in self.families])[:-1]
        parts = jnp.split(parameters, cuts)
        return ColumnsDistribution(
            self.names,
            tuple(head.distribution(part) for head, part in zip(self.families, parts, strict=True)),
        )

    def encode(self, x: Num[Array, " entry"]) -> Float[Array, " encoded"]:
        """The columns' codes, side by side."""
        widths = tuple(head.event_shape[0] if head.event_shape else None for head in self.families)
        pieces = pieces_of(jnp.asarray(x, dtype_of(self)), widths)
        codes = [head.encode(piece).astype(dtype_of(self)) for head, piece in zip(self.families, pieces, strict=True)]
        return jnp.concatenate(codes)
