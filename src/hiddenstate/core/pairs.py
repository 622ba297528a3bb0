"""`Pairs`: sequences that are read, each with the sequence that is to be answered."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, overload

import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import padding
from hiddenstate.core.errors import DataError
from hiddenstate.core.schema import Schema
from hiddenstate.core.sequences import Arrays, Sequences


class PairArrays(NamedTuple):
    """What the compiled functions see of `Pairs`."""

    source: Arrays
    target: Arrays


@dataclass(frozen=True, eq=False)
class Pairs:
    """What is read and what is to be answered: `sources` and `targets`, one each.

    A target is one step (the label of a whole sequence), as many steps as its source (a label for every step), or any
    number (a translation). Targets that are missing are not asked for: they count in no score.

    >>> pairs = Pairs.of([[0, 1, 1], [2, 0]], [1, 0])
    >>> pairs.single, pairs.targets.values.tolist()
    (True, [[1], [0]])
    """

    sources: Sequences
    targets: Sequences

    @classmethod
    def of(
        cls,
        sources: Any,
        targets: Any,
        *,
        missing: Any = None,
        inputs: Any = None,
        names: Sequence[str] | None = None,
        schema: Schema | None = None,
        target_schema: Schema | None = None,
    ) -> "Pairs":
        """Pairs from sequences to read (as `Sequences.of` takes them) and their targets.

        `targets` is one value for each source, or one array each. `missing` says which targets do not count, `inputs`
        are known beforehand beside the sources.
        """
        if not isinstance(sources, Sequences):
            sources = Sequences.of(sources, inputs=inputs, names=names, schema=schema)
        elif inputs is not None:
            raise DataError("the sources are Sequences, which have their inputs already; leave inputs out.")
        if not isinstance(targets, Sequences):
            targets = _targets(targets, len(sources), missing, sources.names, target_schema)
        elif missing is not None:
            raise DataError("the targets are Sequences, which know what is missing; leave missing out.")
        if len(sources) != len(targets):
            raise DataError(f"there are {len(sources)} sources but {len(targets)} targets; each needs one.")
        return cls(sources, targets)

    # -- looking -----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.sources)

    def __repr__(self) -> str:
        return f"Pairs({self.sources!r} -> {self.targets!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sources."""
        return self.sources.names

    @property
    def aligned(self) -> bool:
        """Whether every target has as many steps as its source."""
        return bool((self.sources.lengths == self.targets.lengths).all())

    @property
    def single(self) -> bool:
        """Whether every target is one step."""
        return bool((self.targets.lengths == 1).all())

    @property
    def scored_steps(self) -> int:
        """How many steps of the targets count in a score: all that are not missing."""
        return int(self.scored.sum())

    @property
    def scored(self) -> np.ndarray:
        """A boolean array (pair, time of targets): True where a target counts."""
        valid, observed = self.targets.valid, self.targets.observed
        return valid if observed is None else valid & observed.reshape(*valid.shape, -1).any(axis=-1)

    def arrays(self, dtype: Any = None) -> PairArrays:
        """The arrays that compiled functions take, floats in `dtype`."""
        return PairArrays(self.sources.arrays(dtype), self.targets.arrays(dtype))

    # -- cutting -----------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | np.ndarray) -> "Pairs": ...
    def __getitem__(self, index: Any) -> Any:
        """The arrays of one pair, without padding; or, for a slice or a list, the `Pairs` of those."""
        if isinstance(index, int | np.integer):
            return self.sources[int(index)], self.targets[int(index)]
        return type(self)(self.sources[index], self.targets[index])

    def split(self, *fractions: float, key: PRNGKeyArray | None = None) -> tuple["Pairs", ...]:
        """Pairs in parts, by fractions that leave the last part the rest; shuffled if a key is given."""
        order = np.arange(len(self)) if key is None else padding.generator(key).permutation(len(self))
        cuts = padding.cuts(fractions, len(self), "pairs")
        return tuple(self[part] for part in np.split(order, cuts))

    def batches(self, size: int, *, key: PRNGKeyArray | None = None, buckets: int = 4) -> Iterator["Pairs"]:
        """Minibatches of `size` pairs with sources of similar length; the last one is filled up with empty pairs.

        As `Sequences.batches`: all batches of one bucket have one shape.
        """
        for chosen, time, count in self.sources.plan(size, key=key, buckets=buckets):
            group = self.sources.lengths <= time
            longest = int(self.targets.lengths[group].max())
            yield type(self)(
                self.sources.select(chosen, time=time, count=count),
                self.targets.select(chosen, time=longest, count=count),
            )


def _targets(targets: Any, count: int, missing: Any, names: Sequence[str], schema: Schema | None) -> Sequences:
    """One value each from a flat list or array of as many; otherwise one array each."""
    nested = isinstance(targets, list | tuple) and any(np.ndim(t) for t in targets)
    if nested or (count == 1 and np.ndim(targets) == 1 and len(targets) > 1):
        return _counted(Sequences.of(targets, missing=missing, schema=schema), count, names)
    values = np.asarray(targets)
    if values.ndim == 1:
        values = values[:, None]
        missing = None if missing is None else np.asarray(missing, bool).reshape(-1, 1)
    return _counted(Sequences.padded(values, missing=missing, schema=schema), count, names)


def _counted(targets: Sequences, count: int, names: Sequence[str]) -> Sequences:
    if len(targets) != count:
        raise DataError(f"there are {count} sources but {len(targets)} targets; each needs one.")
    return replace(targets, names=tuple(names))
