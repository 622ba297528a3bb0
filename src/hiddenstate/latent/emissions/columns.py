"""Records whose columns are of different kinds."""

from collections.abc import Iterable, Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from hiddenstate._types import Array, Float
from hiddenstate.core import HiddenStateError, Prior, Steps, register
from hiddenstate.distributions import ColumnsDistribution, pieces_of
from hiddenstate.latent.emissions.emission import NOTHING, Emission, PartialEmission, replaced
from hiddenstate.latent.emissions.seeding import Seen


@register("columns-emission")
class Columns(PartialEmission):
    """Records whose columns have different types: one emission a column, by name.

    >>> Columns({"rain": Bernoulli(probs=[0.1, 0.9]), "wind": Poisson(rates=[2.0, 9.0])})  # doctest: +SKIP

    An observation is one vector of floats, in the order of the emissions: one of single numbers owns one entry
    (symbols and counts as whole numbers), one of vectors a run of them. Columns are independent given the hidden
    state. All have as many states, and those that take inputs take the same.
    """

    parts: tuple[Emission, ...]
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, emissions: Mapping[str, Emission] | Iterable[tuple[str, Emission]]):
        pairs: Any = emissions.items() if isinstance(emissions, Mapping) else emissions
        named: list[tuple[str, Emission]] = list(pairs)
        if not named:
            raise HiddenStateError("emissions is empty; Columns needs at least one column.")
        for name, part in named:
            if not isinstance(name, str) or not isinstance(part, Emission):
                raise HiddenStateError(
                    f"emissions holds {name!r}: {type(part).__name__}; each column is a name and one of hs.emissions."
                )
            if part.history:
                raise HiddenStateError(
                    f"column {name!r} depends on past observations; {type(part).__name__} emissions stand alone."
                )
        self.names, self.parts = (tuple(each) for each in zip(*named, strict=True))
        doubled = [name for i, name in enumerate(self.names) if name in self.names[:i]]
        if doubled:
            raise HiddenStateError(f"column {doubled[0]!r} is given twice.")
        for what in ("states", "inputs"):
            counts = [(name, getattr(part, what)) for name, part in named]
            counts = [(name, count) for name, count in counts if count]
            for name, count in counts:
                if count != counts[0][1]:
                    raise HiddenStateError(
                        f"column {counts[0][0]!r} has {counts[0][1]} {what}, but column {name!r} has {count}."
                    )

    @property
    def emissions(self) -> dict[str, Emission]:
        """The emission of each column."""
        return dict(zip(self.names, self.parts, strict=True))

    @property
    def states(self) -> int:
        """The number of hidden states."""
        return self.parts[0].states

    @property
    def event_shape(self) -> tuple[int, ...]:
        """A vector of all columns."""
        return (sum(1 if width is None else width for width in self._widths),)

    @property
    def inputs(self) -> int:
        """How many inputs some of the columns depend on."""
        return max(part.inputs for part in self.parts)

    @property
    def block(self) -> int:
        """The largest that a column asks for."""
        return max(part.block for part in self.parts)

    @property
    def free_parameters(self) -> int:
        """Those of all columns."""
        return sum(part.free_parameters for part in self.parts)

    @property
    def _widths(self) -> tuple[int | None, ...]:
        return tuple(part.event_shape[0] if part.event_shape else None for part in self.parts)

    def distribution(self, u: Any = None, past: Any = None) -> dist.Distribution:
        """The columns' distributions, side by side."""
        return ColumnsDistribution(self.names, tuple(part.distribution(u) for part in self.parts))

    def log_likelihoods(self, x: Any, u: Any = None, past: Any = None) -> Float[Array, " states"]:
        """The sum over columns."""
        pieces = pieces_of(jnp.asarray(x), self._widths)
        each = [part.log_likelihoods(piece, u) for part, piece in zip(self.parts, pieces, strict=True)]
        return jnp.stack(each).sum(0)

    def partial_log_likelihoods(self, x: Any, u: Any, observed: Any) -> Float[Array, " states"]:
        """The sum over the columns that were observed."""
        pieces, masks = (pieces_of(jnp.asarray(array), self._widths) for array in (x, observed))
        each = [
            part.partial_log_likelihoods(piece, u, mask)  # pyright: ignore[reportAttributeAccessIssue]
            for part, piece, mask in zip(self.parts, pieces, masks, strict=True)
        ]
        return jnp.stack(each).sum(0)

    def sums(self, weights: Float[Array, "time states"], steps: Steps, pasts: Any = None) -> tuple[Any, ...]:
        """The sums of each column."""
        values = pieces_of(jnp.asarray(steps.values), self._widths)
        masks = [None] * len(values) if steps.observed is None else pieces_of(steps.observed, self._widths)
        return tuple(
            part.sums(weights, steps._replace(values=value, observed=mask))
            for part, value, mask in zip(self.parts, values, masks, strict=True)
        )

    def maximise(self, statistics: tuple[Any, ...], prior: Prior = NOTHING) -> "Columns":
        """Each column by itself."""
        return self._each(lambda part, sums: part.maximise(sums, prior), statistics)

    def recentred(self) -> "Columns":
        """Each column by itself."""
        return self._each(lambda part: part.recentred())

    def permuted(self, order: Any) -> "Columns":
        """The same states in another order, in every column."""
        return self._each(lambda part: part.permuted(order))

    def around(self, seen: Seen, random: np.random.Generator) -> "Columns":
        """Each column by itself."""
        return self._each(lambda part, own: part.around(own, random), self._seen(seen))

    def reseeded(self, empty: np.ndarray, seen: Seen, random: np.random.Generator) -> "Columns":
        """Each column by itself."""
        return self._each(lambda part, own: part.reseeded(empty, own, random), self._seen(seen))

    def points(self, seen: Seen) -> np.ndarray | None:
        """The columns that have distances, side by side."""
        found = [part.points(own) for part, own in zip(self.parts, self._seen(seen), strict=True)]
        known = [points for points in found if points is not None]
        return np.concatenate(known, axis=1) if known else None

    def clustered(self, seen: Seen, labels: np.ndarray, random: np.random.Generator) -> "Columns":
        """Each column by itself, all in the same clusters."""
        return self._each(lambda part, own: part.clustered(own, labels, random), self._seen(seen))

    def _each(self, function: Any, *others: Any) -> "Columns":
        return replaced(self, parts=tuple(function(*each) for each in zip(self.parts, *others, strict=True)))

    def _seen(self, seen: Seen) -> list[Seen]:
        edges = np.cumsum([0, *(1 if width is None else width for width in self._widths)])
        pairs = zip(edges[:-1].tolist(), self._widths, strict=True)
        return [seen.columns(start if width is None else slice(start, start + width)) for start, width in pairs]
