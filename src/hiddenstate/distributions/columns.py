"""Records whose columns are of different kinds."""

from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints

from hiddenstate._types import Array
from hiddenstate.core import dtype_of
from hiddenstate.inference.batches import rebatch
from hiddenstate.inference.observations import describe


class ColumnsConstraint(constraints.Constraint):
    """Vectors whose columns have supports of their own; `description` says in words what is due in each."""

    event_dim = 1

    def __init__(self, names: tuple[str, ...], supports: tuple[Any, ...], widths: tuple[int | None, ...]):
        self.names, self.supports, self.widths = names, supports, widths

    @property
    def description(self) -> str:
        """The columns and what each takes."""
        return "records of " + ", ".join(
            f"{name!r} ({'' if width is None else f'{width} entries, '}{describe(support)})"
            for name, support, width in zip(self.names, self.supports, self.widths, strict=True)
        )

    def __call__(self, x: Any) -> Any:
        """Whether each record (..., columns) lies in the support: booleans (...)."""
        inside = np.ones(x.shape[:-1], bool)
        for piece, support in zip(pieces_of(x, self.widths), self.supports, strict=True):
            good = support(piece)
            inside = inside & good.reshape(*inside.shape, -1).all(-1)
        return inside

    def tree_flatten(self) -> Any:
        """No arrays."""
        return (), ((), {"names": self.names, "supports": self.supports, "widths": self.widths})

    def eq(self, other: object, static: bool = False) -> bool:
        """Whether the other has the same columns with the same supports."""
        return isinstance(other, ColumnsConstraint) and vars(self) == vars(other)


class ColumnsDistribution(dist.Distribution):
    """Columns that are independent of each other given the state, side by side in one vector.

    `columns` gives each column's own distribution by its name. Samples are floats, symbols and counts among
    them whole numbers. The `mean` of a symbol column is its expected code, which says something only where
    codes have an order: the probabilities of the symbols are those of ``columns[name]``.
    """

    pytree_data_fields = ("_parts",)
    pytree_aux_fields = ("_names",)

    def __init__(self, names: tuple[str, ...], parts: tuple[dist.Distribution, ...]):
        self._names, self._parts = tuple(names), tuple(parts)
        entries = sum(1 if width is None else width for width in self._widths)
        super().__init__(self._parts[0].batch_shape, (entries,), validate_args=False)

    @property
    def columns(self) -> dict[str, dist.Distribution]:
        """Each column's distribution."""
        return dict(zip(self._names, self._parts, strict=True))

    @property
    def _widths(self) -> tuple[int | None, ...]:
        return tuple(part.event_shape[0] if part.event_shape else None for part in self._parts)

    def rebatch(self, batch_shape: tuple[int, ...]) -> "ColumnsDistribution":
        """The same columns with the batch shape that `vmap` gave their arrays."""
        return ColumnsDistribution(self._names, tuple(rebatch(part, batch_shape) for part in self._parts))

    @property
    def support(self) -> ColumnsConstraint:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What each column takes."""
        return ColumnsConstraint(self._names, tuple(part.support for part in self._parts), self._widths)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        """Records of shape (*sample_shape, *batch_shape, columns)."""
        keys = jr.split(key, len(self._parts))
        return self._join([part.sample(k, sample_shape) for part, k in zip(self._parts, keys, strict=True)])

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        """The sum of the columns' log-probabilities."""
        total: Any = 0.0
        for part, piece in zip(self._parts, pieces_of(jnp.asarray(value), self._widths), strict=True):
            total = total + part.log_prob(piece.astype(jnp.int32) if part.is_discrete else piece)
        return total

    @property
    def mean(self) -> Array:
        """The columns' means; of symbols, the expected code."""
        return self._join([_moments(part)[0] for part in self._parts])

    @property
    def variance(self) -> Array:
        """The columns' variances; of symbols, that of the code."""
        return self._join([_moments(part)[1] for part in self._parts])

    def _join(self, pieces: list[Any]) -> Array:
        dtype = dtype_of(self)
        vectors = [
            (piece[..., None] if width is None else piece).astype(dtype)
            for piece, width in zip(pieces, self._widths, strict=True)
        ]
        return jnp.concatenate(vectors, axis=-1)


def pieces_of(x: Any, widths: tuple[int | None, ...]) -> list[Any]:
    """The columns of vectors (..., entries): (...) for a column of one number, (..., width) for others."""
    pieces, start = [], 0
    for width in widths:
        stop = start + (1 if width is None else width)
        pieces.append(x[..., start] if width is None else x[..., start:stop])
        start = stop
    return pieces


def _moments(part: dist.Distribution) -> tuple[Any, Any]:
    """Mean and variance; of the code where the column holds symbols."""
    highest = getattr(part.support, "upper_bound", None)
    if highest is None:
        return part.mean, part.variance
    codes = jnp.arange(highest + 1).reshape(-1, *(1 for _ in part.batch_shape))
    probs: Any = jnp.exp(part.log_prob(codes))
    mean = (probs * codes).sum(0)
    return mean, (probs * (codes - mean) ** 2).sum(0)
