"""Data cut into what one update sees: minibatches of sequences, and chunks of them in time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import jax.random as jr
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import Arrays, ConditionalModel, PairArrays, Pairs, SequenceModel, Sequences
from hiddenstate.inference import arrays_for


class Place(NamedTuple):
    """Where in the order of updates one stands: all three count from 0."""

    epoch: int
    batch: int
    chunk: int


START = Place(0, -1, -1)
"""Before the first update."""


class Minibatch(NamedTuple):
    """What one update sees."""

    place: Place
    arrays: Arrays | PairArrays
    steps: int
    """How many steps in it count."""
    ends_epoch: bool


@dataclass(frozen=True)
class Minibatches:
    """The order of updates: a pure function of the key and the epoch, so that it can be taken up anywhere.

    All batches of one bucket have the same shape, and either all have lengths or none has, so that one
    program serves them all.
    """

    model: SequenceModel | ConditionalModel
    data: Sequences | Pairs
    size: int
    buckets: int
    truncate: int | None
    key: PRNGKeyArray

    def after(self, done: Place, epochs: int | None) -> Iterator[Minibatch]:
        """The minibatches after the place `done`, to the end of the last epoch (None: without end)."""
        epoch = done.epoch
        while epochs is None or epoch < epochs:
            yield from self._epoch(epoch, done)
            epoch += 1

    def _epoch(self, epoch: int, done: Place) -> Iterator[Minibatch]:
        batches = self.data.batches(self.size, key=jr.fold_in(self.key, epoch), buckets=self.buckets)
        for (number, batch), last_batch in marking_last(enumerate(batches)):
            if (epoch, number) < done[:2]:
                continue
            arrays = even(self.model, batch, self.data, self.size)
            for (chunk, part), last_chunk in marking_last(enumerate(chunks(arrays, self.truncate))):
                place = Place(epoch, number, chunk)
                if place > done:
                    yield Minibatch(place, part, scored(part), last_batch and last_chunk)

    @property
    def per_epoch(self) -> int:
        """How many minibatches of whole sequences make an epoch."""
        sources = self.data.sources if isinstance(self.data, Pairs) else self.data
        return sum(1 for _ in sources.plan(self.size, buckets=self.buckets))

    def updates(self, epochs: int | None, steps: int | None) -> int:
        """How many updates are planned: `steps`, or those of all epochs if the first is like the others."""
        if epochs is None:
            assert steps is not None
            return steps
        per_epoch = self.per_epoch if self.truncate is None else sum(m.steps > 0 for m in self.after(START, 1))
        return min(epochs * per_epoch, epochs * per_epoch if steps is None else steps)


@overload
def even(model: Any, batch: Sequences, data: Sequences, size: int) -> Arrays: ...
@overload
def even(model: Any, batch: Any, data: Any, size: int) -> Any: ...
def even(model: Any, batch: Any, data: Any, size: int) -> Any:
    """The arrays of a batch, with lengths and masks wherever another batch of the same data has them."""
    arrays, filled = arrays_for(model, batch), bool(len(data) % min(size, len(data)))
    if isinstance(arrays, PairArrays):
        uneven = filled or data.sources.ragged or data.targets.ragged
        return PairArrays(
            _even(arrays.source, batch.sources, data.sources, uneven),
            _even(arrays.target, batch.targets, data.targets, uneven),
        )
    return _even(arrays, batch, data, filled or data.ragged)


def _even(arrays: Arrays, batch: Sequences, data: Sequences, uneven: bool) -> Arrays:
    if arrays.lengths is None and uneven:
        arrays = arrays._replace(lengths=batch.lengths.astype(np.int32))
    if arrays.observed is None and data.observed is not None:
        arrays = arrays._replace(observed=np.ones(batch.shape, bool))
    return arrays


@overload
def chunks(arrays: Arrays, steps: int | None) -> Iterator[Arrays]: ...
@overload
def chunks(arrays: Any, steps: int | None) -> Iterator[Any]: ...
def chunks(arrays: Any, steps: int | None) -> Iterator[Any]:
    """The arrays in chunks of `steps` in time, all of one shape, to the end of the longest sequence.

    Pairs stay whole: an answer may need all of its source.
    """
    if isinstance(arrays, PairArrays):
        yield arrays
        return
    time = arrays.values.shape[1]
    if steps is None or steps >= time:
        yield arrays
        return
    lengths = arrays.lengths
    if lengths is None and time % steps:
        lengths = np.full(len(arrays.values), time, np.int32)
    longest = time if lengths is None else int(lengths.max())
    for start in range(0, longest, steps):
        yield Arrays(
            _slice(arrays.values, start, steps),
            _within(lengths, start, steps),
            _slice(arrays.inputs, start, steps),
            _slice(arrays.observed, start, steps, True),
            _within(arrays.context, start, steps),
        )


def scored(arrays: Arrays | PairArrays) -> int:
    """How many steps of the arrays count."""
    return int(counting(arrays).sum())


def counting(arrays: Arrays | PairArrays, numbers: Any = np) -> Any:
    """A boolean array (sequence, time): True at the steps that count, which are neither padding nor context.

    Of pairs those are steps of targets, without missing ones. `numbers` is numpy, or jax.numpy in a compiled function.
    """
    scored = arrays.target if isinstance(arrays, PairArrays) else arrays
    count, time = scored.values.shape[:2]
    ends = numbers.full(count, time) if scored.lengths is None else numbers.asarray(scored.lengths)
    counts = numbers.arange(time) < ends[:, None]
    if isinstance(arrays, PairArrays):
        if scored.observed is not None:
            counts = counts & numbers.asarray(scored.observed).reshape(count, time, -1).any(-1)
    elif scored.context is not None:
        counts = counts & (numbers.arange(time) >= numbers.asarray(scored.context)[:, None])
    return counts


def marking_last(items: Iterable[Any]) -> Iterator[tuple[Any, bool]]:
    """Each item with whether it is the last."""
    iterator = iter(items)
    try:
        current = next(iterator)
    except StopIteration:
        return
    for following in iterator:
        yield current, False
        current = following
    yield current, True


def _within(edges: np.ndarray | None, start: int, steps: int) -> np.ndarray | None:
    return None if edges is None else np.clip(edges - start, 0, steps).astype(np.int32)


def _slice(array: np.ndarray | None, start: int, steps: int, fill: Any = 0) -> np.ndarray | None:
    if array is None:
        return None
    part = array[:, start : start + steps]
    short = steps - part.shape[1]
    if not short:
        return part
    return np.concatenate([part, np.full((len(part), short, *part.shape[2:]), fill, part.dtype)], axis=1)
