"""`Sequences`: ragged sequences held padded, with their lengths, inputs, names and what is missing."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import padding
from hiddenstate.core.errors import DataError
from hiddenstate.core.schema import Schema, infer_schema


class Arrays(NamedTuple):
    """What the compiled functions see of `Sequences`: arrays only, nothing NaN, optional parts None.

    `lengths` is None where every sequence fills the array, `observed` where nothing is missing: such data
    compile to programs without a mask. `context` is None where every step counts.
    """

    values: Any
    lengths: Any = None
    inputs: Any = None
    observed: Any = None
    context: Any = None


class Steps(NamedTuple):
    """One sequence as the methods of a model see it, time first.

    `valid` is None where every step is real, otherwise False at the steps behind the sequence's end; `observed` is
    None where nothing is missing, otherwise False at each missing entry of `values`, which are zero there.
    """

    values: Any
    inputs: Any = None
    observed: Any = None
    valid: Any = None

    @property
    def length(self) -> int:
        """How many steps the arrays hold, padding among them."""
        return self.values.shape[0]


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences of observations, possibly of different lengths.

    Make it with `Sequences.of` (from a list of arrays, or one array) or `Sequences.padded` (from a padded array
    and lengths). `values` has the axes (sequence, time, ...) with zeros behind each end; missing floats are NaN
    there, and `observed` is False wherever something is missing (None if nothing is). Where `context` is given, that
    many first steps of each sequence are a known past: they bring the state up to date and are not scored.
    """

    values: np.ndarray
    lengths: np.ndarray
    inputs: np.ndarray | None
    observed: np.ndarray | None
    names: tuple[str, ...]
    schema: Schema
    context: np.ndarray | None = None

    # -- making ------------------------------------------------------------------------------------------------

    @classmethod
    def of(
        cls,
        arrays: Any,
        *,
        missing: Any = None,
        inputs: Any = None,
        names: Sequence[str] | None = None,
        schema: Schema | None = None,
    ) -> "Sequences":
        """Sequences from a list of arrays, one each, or from one array, which is one sequence.

        An array has the shape (time,) or (time, columns); one array of three axes is (sequence, time, columns).
        `missing` are masks of the same form, True where a value is missing (NaN means missing too); `inputs` are
        arrays (time, inputs) known beforehand.

        >>> data = Sequences.of([[0, 1, 1], [2, 0]])
        >>> data.lengths.tolist(), data.values.tolist()
        ([3, 2], [[0, 1, 1], [2, 0, 0]])
        """
        if isinstance(arrays, Sequences):
            return arrays
        listed = padding.as_list(arrays)
        single = listed is None
        items = [padding.as_array(a, f"sequence {i}") for i, a in enumerate([arrays] if listed is None else listed)]
        if not items:
            raise DataError("the data hold no sequence; give at least one.")
        padding.check_alike(items)
        lengths = np.array([len(a) for a in items], dtype=np.int64)
        if (lengths == 0).any():
            raise DataError(f"sequence {int(np.argmin(lengths))} has length 0; every sequence needs at least 1 step.")
        masks = None
        if missing is not None:
            masks = padding.mates(missing, single, items, "missing", bool)
            for i, (mask, item) in enumerate(zip(masks, items, strict=True)):
                if mask.shape not in (item.shape, item.shape[:1]):
                    raise DataError(
                        f"missing[{i}] has shape {mask.shape}; it must be {item.shape}, or {item.shape[:1]} "
                        "for whole steps."
                    )
            masks = [
                np.broadcast_to(m.reshape(m.shape + (1,) * (a.ndim - m.ndim)), a.shape)
                for m, a in zip(masks, items, strict=True)
            ]
        known = None if inputs is None else padding.mates(inputs, single, items, "inputs", float)
        if known is not None:
            known = [k[:, None] if k.ndim == 1 else k for k in known]
            for i, array in enumerate(known):
                if array.shape[1] != known[0].shape[1]:
                    raise DataError(
                        f"inputs[{i}] has {array.shape[1]} inputs a step, but inputs[0] has {known[0].shape[1]}."
                    )
        return cls._assemble(
            padding.pad(items),
            lengths,
            None if known is None else padding.pad(known),
            None if masks is None else ~padding.pad(masks),
            names,
            schema,
        )

    @classmethod
    def padded(
        cls,
        values: Any,
        lengths: Any = None,
        *,
        missing: Any = None,
        inputs: Any = None,
        names: Sequence[str] | None = None,
        schema: Schema | None = None,
    ) -> "Sequences":
        """Sequences from one array (sequence, time, ...) and how many steps of each are real (all, by default).

        >>> Sequences.padded(np.zeros((2, 5)), [5, 3]).steps
        8
        """
        values = padding.as_array(values, "values")
        if values.ndim not in (2, 3):
            raise DataError(
                f"values has shape {values.shape}; it must be (sequence, time) or (sequence, time, columns)."
            )
        count, time = values.shape[:2]
        if count == 0 or time == 0:
            raise DataError(f"values has shape {values.shape}; it holds no step of any sequence.")
        if lengths is None:
            lengths = np.full(count, time)
        lengths = np.asarray(lengths)
        if lengths.shape != (count,) or not np.issubdtype(lengths.dtype, np.integer):
            raise DataError(f"lengths must be {count} whole numbers, one per sequence; got {lengths!r}.")
        if lengths.min() < 1 or lengths.max() > time:
            worst = int(np.argmin(lengths) if lengths.min() < 1 else np.argmax(lengths))
            raise DataError(
                f"lengths[{worst}] is {lengths[worst]}; it must be between 1 and {time}, the length of the array."
            )
        if missing is not None:
            missing = np.asarray(missing, dtype=bool)
            if missing.shape not in (values.shape, values.shape[:2]):
                raise DataError(f"missing has shape {missing.shape}; it must be {values.shape} or {values.shape[:2]}.")
            missing = np.broadcast_to(
                missing.reshape(missing.shape + (1,) * (values.ndim - missing.ndim)), values.shape
            )
        if inputs is not None:
            inputs = padding.as_known(inputs, "inputs")
            inputs = inputs[..., None] if inputs.ndim == 2 else inputs
            if inputs.ndim != 3 or inputs.shape[:2] != (count, time):
                raise DataError(f"inputs has shape {inputs.shape}; it must be ({count}, {time}, inputs).")
        return cls._assemble(
            values, lengths.astype(np.int64), inputs, None if missing is None else ~missing, names, schema
        )

    @classmethod
    def _assemble(cls, values, lengths, inputs, observed, names, schema) -> "Sequences":
        inside = padding.inside(lengths, values.shape[1])
        spread = inside.reshape(inside.shape + (1,) * (values.ndim - 2))
        values = np.where(spread, values, np.zeros((), values.dtype))
        observed = np.ones(values.shape, bool) if observed is None else observed | ~spread
        if np.issubdtype(values.dtype, np.floating):
            observed = observed & ~np.isnan(values)
            values = np.where(observed, values, np.array(np.nan, values.dtype))
            if np.isinf(values).any():
                where = np.argwhere(np.isinf(values))[0]
                raise DataError(
                    f"sequence {where[0]} holds an infinite value at step {where[1] + 1}; values must be finite."
                )
        else:
            values = np.where(observed, values, np.zeros((), values.dtype))
        if inputs is not None:
            inputs = np.where(inside[..., None], inputs, 0.0)
            if not np.isfinite(inputs).all():
                where = np.argwhere(~np.isfinite(inputs))[0]
                raise DataError(
                    f"inputs of sequence {where[0]} are not finite at step {where[1] + 1}; they must be known "
                    "throughout."
                )
        if names is None:
            names = tuple(str(i) for i in range(len(values)))
        elif len(names) != len(values):
            raise DataError(f"names holds {len(names)} names for {len(values)} sequences.")
        if schema is None:
            schema = infer_schema(values, lengths, observed)
            if inputs is not None:
                schema = replace(schema, inputs=tuple(f"u{i}" for i in range(inputs.shape[2])))
        elif schema.event_shape != values.shape[2:]:
            raise DataError(f"observations have shape {values.shape[2:]} but the schema says {schema.event_shape}.")
        values, inputs = padding.aligned(values), None if inputs is None else padding.aligned(inputs)
        return cls(values, lengths, inputs, None if observed.all() else observed, tuple(names), schema)

    # -- looking -----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def steps(self) -> int:
        """How many steps there are in all sequences together."""
        return int(self.lengths.sum())

    @property
    def scored_steps(self) -> int:
        """How many steps count in a score: all, without those that are only context."""
        return self.steps - (0 if self.context is None else int(self.context.sum()))

    @property
    def length(self) -> int:
        """The length of the longest sequence."""
        return self.values.shape[1]

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of one observation: () or (columns,)."""
        return self.values.shape[2:]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the padded array: (sequence, time, ...)."""
        return self.values.shape

    @property
    def ragged(self) -> bool:
        """Whether some sequence is shorter than the longest."""
        return bool((self.lengths != self.length).any())

    @property
    def valid(self) -> np.ndarray:
        """A boolean array (sequence, time): True at real steps, False behind a sequence's end."""
        return padding.inside(self.lengths, self.length)

    @cached_property
    def extent(self) -> tuple[float, float]:
        """The smallest and the largest value, with zeros where they are missing and behind the ends; found once."""
        known = self.values if self.observed is None else np.where(self.observed, self.values, 0)
        return (known.min().item(), known.max().item()) if known.size else (0, 0)

    @property
    def has_missing(self) -> bool:
        """Whether any observation, or part of one, is missing."""
        return self.observed is not None

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        if self.ragged:
            raise DataError("sequences of different lengths are no plain array; take .values and .lengths instead.")
        return np.array(self.values, dtype=dtype, copy=True if copy is None else copy)

    def __repr__(self) -> str:
        low, high = int(self.lengths.min()), int(self.lengths.max())
        long = f"length {low}" if low == high else f"lengths {low} to {high}"
        what = f"{self.schema.kind} {self.event_shape}" if self.event_shape else self.schema.kind
        extra = f", {self.inputs.shape[2]} inputs" if self.inputs is not None else ""
        gaps = ", some missing" if self.has_missing else ""
        return f"Sequences({len(self)} of {long}, {what}{extra}{gaps})"

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | np.ndarray) -> "Sequences": ...
    def __getitem__(self, index):
        """The array of one sequence, without padding; or, for a slice or a list, the `Sequences` of those."""
        if isinstance(index, int | np.integer):
            return self.values[index, : self.lengths[index]]
        chosen = np.arange(len(self))[index]
        if chosen.size == 0:
            raise DataError(f"the index {index!r} selects none of {len(self)} sequences.")
        return self.select(chosen)

    def arrays(self, dtype: Any = None) -> Arrays:
        """The arrays that compiled functions take, floats in `dtype`, with zeros where values are missing.

        Those of one type are made once.
        """
        kind = None if dtype is None else np.dtype(dtype)
        if kind not in self._arrays:
            self._arrays[kind] = self._arrays_of(kind)
        return self._arrays[kind]

    @cached_property
    def _arrays(self) -> dict[np.dtype | None, Arrays]:
        return {}

    def _arrays_of(self, dtype: np.dtype | None) -> Arrays:
        values = self.values
        if np.issubdtype(values.dtype, np.floating):
            values = np.nan_to_num(values, nan=0.0) if self.has_missing else values
            values = padding.aligned(values if dtype is None else values.astype(dtype, copy=False))
        inputs = self.inputs
        if inputs is not None and dtype is not None:
            inputs = padding.aligned(inputs.astype(dtype, copy=False))
        lengths = self.lengths.astype(np.int32) if self.ragged else None
        context = None if self.context is None else self.context.astype(np.int32)
        return Arrays(values, lengths, inputs, self.observed, context)

    # -- cutting -----------------------------------------------------------------------------------------------

    def split(self, *fractions: float, key: PRNGKeyArray | None = None) -> tuple["Sequences", ...]:
        """Whole sequences in parts, by fractions that leave the last part the rest; shuffled if a key is given.

        ``train, valid, test = data.split(0.7, 0.15, key=key)``
        """
        order = np.arange(len(self)) if key is None else padding.generator(key).permutation(len(self))
        cuts = padding.cuts(fractions, len(self), "sequences")
        return tuple(self.select(part) for part in np.split(order, cuts))

    def split_time(self, *fractions: float, context: bool = False) -> tuple["Sequences", ...]:
        """Each sequence cut in time, at the given fractions of its own length, into earlier and later parts.

        With ``context=True`` a later part brings all that came before along as context, so that it is scored given its
        past: ``train, test = data.split_time(0.8, context=True)``.
        """
        shortest = int(self.lengths.min())
        padding.cuts(fractions, shortest, "steps of the shortest sequence")
        edges = [np.zeros_like(self.lengths)]
        edges += [np.round(self.lengths * total).astype(int) for total in np.cumsum(fractions)]
        edges += [self.lengths]
        pairs = list(itertools.pairwise(edges))
        if not context:
            return tuple(self.window(a, b) for a, b in pairs)
        return tuple(self.window(0, b).after(a) for a, b in pairs)

    def after(self, steps: Any) -> "Sequences":
        """The same sequences with the first `steps` of each as context (one number, or one per sequence)."""
        steps = np.broadcast_to(np.asarray(steps, np.int64), self.lengths.shape)
        if (steps < 0).any() or (steps >= self.lengths).any():
            bad = int(np.argmax((steps < 0) | (steps >= self.lengths)))
            raise DataError(
                f"{steps[bad]} steps of context leave nothing of sequence {bad}, which has {self.lengths[bad]}."
            )
        return replace(self, context=np.array(steps) if steps.any() else None)

    def given(self, steps: int) -> "Sequences":
        """The same sequences with at least the first `steps` of each as context, which is read and not scored.

        So their log-probability is the conditional one given x_1 .. x_steps (remark 1 of Choe, Shin and Spencer 2017,
        for one step). Unlike with `after`, sequences may be shorter: of one that is no longer, nothing counts.
        """
        if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 0:
            raise DataError(f"given is {steps!r}; it must be a whole number of steps, 0 or more.")
        if steps == 0:
            return self
        context = np.minimum(steps if self.context is None else np.maximum(self.context, steps), self.lengths)
        if (context == self.lengths).all():
            raise DataError(
                f"given is {steps}, but the longest sequence has {int(self.lengths.max())} steps: nothing is left to "
                "score."
            )
        return replace(self, context=context)

    def pieces(self, length: int) -> "Sequences":
        """Every sequence cut into consecutive pieces of `length` steps, the last one shorter.

        What came before a piece is forgotten: it makes minibatches out of one long sequence. Steps that were context
        stay so.
        """
        if length < 1:
            raise DataError(f"the length of pieces is {length}; it must be at least 1.")
        cuts = [(i, s) for i, total in enumerate(self.lengths) for s in range(0, int(total), length)]
        rows, starts = (np.array(part) for part in zip(*cuts, strict=True))
        cut = self.select(rows).window(starts, starts + length)
        if self.context is None:
            return cut
        return replace(cut, context=np.clip(self.context[rows] - starts, 0, cut.lengths))

    def window(self, start: Any, stop: Any) -> "Sequences":
        """Steps `start` to `stop` (not included) of every sequence; both may differ between sequences."""
        start, stop = (np.broadcast_to(edge, self.lengths.shape) for edge in (start, stop))
        stop = np.minimum(stop, self.lengths)
        none = (stop <= start) | (start < 0)
        if none.any():
            bad = int(np.argmax(none))
            raise DataError(
                f"steps {start[bad]} to {stop[bad]} of sequence {bad} (length {self.lengths[bad]}) are none."
            )
        lengths = (stop - start).astype(np.int64)
        steps = np.minimum(start[:, None] + np.arange(lengths.max()), self.length - 1)
        rows = np.arange(len(self))[:, None]
        observed = None if self.observed is None else self.observed[rows, steps]
        return type(self)._assemble(
            self.values[rows, steps],
            lengths,
            None if self.inputs is None else self.inputs[rows, steps],
            observed,
            self.names,
            self.schema,
        )

    def batches(self, size: int, *, key: PRNGKeyArray | None = None, buckets: int = 4) -> Iterator["Sequences"]:
        """Minibatches of `size` sequences of similar length, so that little padding is computed.

        Sequences are sorted into at most `buckets` groups by length; every batch comes from one group and has
        that group's length, so that at most `buckets` shapes are compiled. With a key the sequences are shuffled
        within their group and the batches among each other. The last batch of a group is filled up with empty
        sequences, which no function counts.
        """
        for chosen, time, count in self.plan(size, key=key, buckets=buckets):
            yield self.select(chosen, time=time, count=count)

    def plan(
        self, size: int, *, key: PRNGKeyArray | None = None, buckets: int = 4
    ) -> Iterator[tuple[np.ndarray, int, int]]:
        """What `batches` gives, unselected: the indices of each batch, its length, and how many sequences it has."""
        if size < 1:
            raise DataError(f"the batch size is {size}; it must be at least 1.")
        size = min(size, len(self))
        random = None if key is None else padding.generator(key)
        plan = []
        for group in self._groups(size, buckets):
            members = group if random is None else random.permutation(group)
            plan += [(members[i : i + size], int(self.lengths[group].max())) for i in range(0, len(members), size)]
        if random is not None:
            plan = [plan[i] for i in random.permutation(len(plan))]
        yield from ((chosen, time, size) for chosen, time in plan)

    def _groups(self, size: int, buckets: int) -> list[np.ndarray]:
        """Indices by length, cut where it saves most padding: at equal shares, never inside one length."""
        order = np.argsort(self.lengths, kind="stable")
        count = max(1, min(buckets, len(self) // max(1, size)))
        edges = [round(len(order) * i / count) for i in range(1, count)]
        sorted_lengths = self.lengths[order]
        edges = sorted({int(np.searchsorted(sorted_lengths, sorted_lengths[e])) for e in edges} - {0})
        return [group for group in np.split(order, edges) if len(group)]

    def select(self, chosen: np.ndarray, *, time: int | None = None, count: int | None = None) -> "Sequences":
        """The sequences with these indices, padded to `time` steps and with empty ones to `count`, where given."""
        time = int(self.lengths[chosen].max()) if time is None else time
        extra = 0 if count is None else count - len(chosen)

        def take(array: np.ndarray | None, fill: Any = 0) -> np.ndarray | None:
            if array is None:
                return None
            part = array[chosen, :time]
            return np.concatenate([part, np.full((extra, *part.shape[1:]), fill, part.dtype)]) if extra else part

        observed = take(self.observed, True)
        return replace(
            self,
            values=take(self.values),
            lengths=np.concatenate([self.lengths[chosen], np.zeros(extra, np.int64)]),
            inputs=take(self.inputs),
            observed=None if observed is None or observed.all() else observed,
            names=tuple(self.names[i] for i in chosen) + ("",) * extra,
            context=None if self.context is None else np.concatenate([self.context[chosen], np.zeros(extra, np.int64)]),
        )
