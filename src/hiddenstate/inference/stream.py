"""One observation at a time: push it, get the next prediction."""

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution

from hiddenstate._types import State
from hiddenstate.core import (
    ConditionalModel,
    DataError,
    FileError,
    Form,
    HiddenStateError,
    MissingDataError,
    SequenceModel,
    dtype_of,
    has,
    name_of,
    own,
)
from hiddenstate.core.storage import read_tensors, write_tensors
from hiddenstate.inference.awaited import await_, awaited
from hiddenstate.inference.observations import check_model, describe, fits, form_of, prototype, within
from hiddenstate.inference.stepping import Stepper

_FORMAT = 1


class Stream:
    """A model that runs along with the data.

    >>> stream = hs.Stream(model)                # doctest: +SKIP
    >>> stream.predictive()                      # p(x_1)  # doctest: +SKIP
    >>> stream.push(3)                           # p(x_2 | x_1 = 3)  # doctest: +SKIP

    `log_prob` is the log-probability of everything pushed so far, `last_log_prob` that of the last observation, and
    `steps` how many there were. `save` and `restore`
    keep the state on disk, so that a process can stop and another go on where it was.

    With `streams`, so many independent ones of the same model advance together: `push` takes an observation of each,
    with one leading axis, the distributions have the batch shape (streams,), and log-probabilities are arrays.

    >>> both = hs.Stream(model, streams=2)       # doctest: +SKIP
    >>> both.push([3, 0])                        # doctest: +SKIP

    Of a model that answers (`hs.Transducer`, `hs.Summary`), `push` returns the distribution of the answer to what was
    pushed so far, and `log_prob` stays 0: what is read has no probability. Its body must read forwards.

    Where compiled kernels have the model (`hs.native.available`; networks of the plain, gated and minimal cells and of
    skips in time, hidden Markov and switch-copy models with independent entries, linear Gaussian models), a push takes
    a microsecond or a few. The distribution that it returns is made when something is asked of it.
    """

    def __init__(self, model: SequenceModel | ConditionalModel, *, streams: int | None = None):
        check_model(model)
        if has(model, "decoder_start"):
            raise HiddenStateError(
                f"{name_of(model)} writes its answer when it has read a whole sequence, and a stream has no end that "
                "it could wait for. Use hs.generate on whole sequences."
            )
        if isinstance(model, ConditionalModel) and not has(model, "answer"):
            raise HiddenStateError(
                f"{name_of(model)} answers when it has read a whole sequence, and a stream has no end that it could "
                "wait for (a bidirectional network even begins there). Use hs.predictive on whole sequences, or a "
                "network that reads forwards only."
            )
        if streams is not None and (isinstance(streams, bool) or not isinstance(streams, int) or streams < 1):
            raise HiddenStateError(f"streams is {streams!r}; it must be a whole number from 1 on, or None for one.")
        self.model: Any = model
        self.answers = isinstance(model, ConditionalModel)
        self.streams = streams
        self.steps = 0
        self.log_prob: Any = 0.0 if streams is None else np.zeros(streams)
        self.last_log_prob: Any = None
        self._inputs = model.inputs
        self._stepper = Stepper(model, streams)
        self._native = _compiled(model, streams)
        self._leaves: list[Any] = self._stepper.begin
        if self._native is not None:
            self._native.set_leaves(self._leaves)

    @property
    def state(self) -> State:
        """What the model remembers of everything pushed so far; of several streams, with one leading axis."""
        return self._stepper.state([jnp.asarray(leaf) for leaf in self._current()])

    @state.setter
    def state(self, state: State) -> None:
        self._leaves = jax.tree.leaves(state)
        if self._native is not None:
            self._native.set_leaves(self._leaves)

    def predictive(self, u: Any = None) -> Distribution:
        """The distribution of the next observation; `u` is the input at that step, where the model takes inputs.

        Of a model that answers, the distribution of the answer to what was pushed so far.
        """
        if self.answers and not self.steps:
            raise DataError(f"nothing was pushed yet, and {name_of(self.model)} answers what it has read.")
        return self._stepper.read(self._current(), None if self.answers else self._input(u))

    def push(self, x: Any, u: Any = None, *, next_u: Any = None) -> Distribution | None:
        """Take in an observation (and the input at its step) and return the distribution of the next.

        None or NaN stands for an observation, or an entry of one, that is missing, where the model can do without.

        A model with inputs needs `next_u` for that distribution; without it the answer is None, and `predictive` will
        give it once the next input is known.
        """
        if self._native is None:
            return self._push(x, u, next_u)
        log_prob = self._native.push(x, u)
        if log_prob is None:  # perhaps an observation in other clothes, perhaps none: then the sentence says why
            log_prob = self._native.push(*self._plain(x, u), True)
        self._count(log_prob if self.streams is None else np.frombuffer(log_prob))
        if not self._inputs:
            return await_(self._awaited, self._read_later, self._native.snapshot(), None)
        if next_u is None:
            return None
        return await_(self._awaited, self._read_later, self._native.snapshot(), self._input(next_u))

    def save(self, path: str | Path) -> None:
        """Write the state to a file, whole or not at all."""
        each = [self.log_prob] if self.streams is None else self.log_prob.tolist()
        header = {
            "stream": _FORMAT,
            "model": fingerprint(self.model),
            "steps": self.steps,
            "log_prob": " ".join(value.hex() for value in each),
            **({} if self.streams is None else {"streams": self.streams}),
        }
        write_tensors(path, {f"state/{i:04d}": leaf for i, leaf in enumerate(self._current())}, header)

    @classmethod
    def restore(cls, model: SequenceModel | ConditionalModel, path: str | Path) -> "Stream":
        """The stream that was saved to `path`, of the same model; or the streams, as many as there were."""
        arrays, header = read_tensors(path)
        if header.get("stream") != _FORMAT:
            raise FileError(f"{path} holds no stream of format {_FORMAT}.")
        if header["model"] != fingerprint(model):
            raise FileError(f"{path} is the stream of another model than the {name_of(model)} given.")
        stream = cls(model, streams=header.get("streams"))
        leaves, tree = jax.tree.flatten(stream.state)
        stored = [arrays[name] for name in sorted(arrays)]
        if [a.shape for a in stored] != [leaf.shape for leaf in leaves]:
            raise FileError(f"{path} is damaged: its state does not have the shape of the model's.")
        stream.state = jax.tree.unflatten(
            tree, [jnp.asarray(a, leaf.dtype) for a, leaf in zip(stored, leaves, strict=True)]
        )
        stream.steps = int(header["steps"])
        each = [float.fromhex(word) for word in header["log_prob"].split()]
        stream.log_prob = each[0] if stream.streams is None else np.array(each)
        return stream

    def __getstate__(self) -> dict[str, Any]:
        """What a copy needs, which then goes its own way."""
        kept = ("model", "streams", "steps", "log_prob", "last_log_prob")
        return {**{name: getattr(self, name) for name in kept}, "state": self.state}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__init__(kept["model"], streams=kept["streams"])
        for name, value in kept.items():
            setattr(self, name, value)

    def _push(self, x: Any, u: Any, next_u: Any) -> Distribution | None:
        """`push` by functions that XLA has compiled."""
        x, observed = self._observation(x)
        u = self._input(u)
        predict = self.answers or not self._inputs or next_u is not None
        following = self._input(next_u) if predict and not self.answers else None
        pushed = self._stepper.push(self._leaves, x, u, observed, following, predict)
        self._leaves = pushed.leaves
        if self.answers:
            self.steps += 1
        else:
            self._count(float(pushed.log_prob) if self.streams is None else np.asarray(pushed.log_prob, float))
        if not predict:
            return None
        return await_(awaited(self._stepper.family), self._stepper.distribution, pushed.prediction)

    def _count(self, log_prob: Any) -> None:
        self.last_log_prob = log_prob
        self.log_prob = self.log_prob + log_prob
        self.steps += 1

    def _current(self) -> list[Any]:
        """The arrays of the state."""
        if self._native is None:
            return self._leaves
        return self._native.leaves(self._native.snapshot(), self._stepper.shapes)

    def _read_later(self, snapshot: bytes, u: Any) -> Distribution:
        assert self._native is not None
        return self._stepper.read(self._native.leaves(snapshot, self._stepper.shapes), u)

    def _plain(self, x: Any, u: Any) -> tuple[np.ndarray, Any]:
        """An observation as an array with NaN where entries are missing, and the inputs, both checked."""
        x, observed = self._observation(x)
        return x if observed is None else np.where(observed, x, np.nan), self._input(u)

    def _observation(self, x: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """The observation, with zeros where entries are missing, and which are not; None where all are there."""
        form, dtype = self._form, self._dtype
        x = self._array(x, form)
        if not np.issubdtype(x.dtype, np.number):
            raise DataError(f"the observation is {x.dtype}; it must be a number or an array of numbers.")
        self._check_shape(x, form)
        observed = None
        if np.isnan(x).any():
            if not has(self.model, "prepare_partial"):
                raise MissingDataError(f"the observation is missing, and {name_of(self.model)} cannot marginalise it.")
            observed = ~np.isnan(x)
            x = np.where(observed, x, 0)
            x = x.astype(np.int32) if self._is_discrete and (x % 1 == 0).all() else x
        rows = x[None] if self.streams is None else x
        held = np.abs(rows).reshape(len(rows), -1).max(1, initial=0) <= np.finfo(dtype).max
        if not held.all():
            raise DataError(f"{self._first(rows, held)}; that is beyond the range of {dtype}.")
        if form is not None:
            inside = within(form.support, rows[None])[0]
            if not inside.all():
                raise DataError(f"{self._first(rows, inside)}; it must be {describe(form.support)}.")
        whole = np.issubdtype(x.dtype, np.integer) and np.abs(x).max(initial=0) <= np.iinfo(np.int32).max
        return x.astype(np.int32 if whole else dtype), observed

    def _array(self, x: Any, form: Form | None) -> np.ndarray:
        """What was given as an array, with NaN for None."""
        shape = () if form is None else form.shape
        if x is None:
            return np.full(shape if self.streams is None else (self.streams, *shape), np.nan)
        if self.streams is not None and isinstance(x, list | tuple) and any(one is None for one in x):
            x = [np.full(shape, np.nan) if one is None else one for one in x]
        x = np.asarray(x)
        return x.astype(np.int32) if x.dtype == bool else x

    def _check_shape(self, x: np.ndarray, form: Form | None) -> None:
        if self.streams is None:
            if form is not None and not fits(form, x.shape):
                raise DataError(f"the observation has shape {x.shape}; {name_of(self.model)} takes {form.shape}.")
        elif x.shape[:1] != (self.streams,) or (form is not None and not fits(form, x.shape[1:])):
            due = f"{(self.streams, *form.shape)}" if form is not None else f"a first axis of {self.streams}"
            raise DataError(f"the observations have shape {x.shape}; {self.streams} streams take {due}.")

    def _first(self, rows: np.ndarray, good: np.ndarray) -> str:
        """The first observation that is not good, in words."""
        row = int(np.argmin(good))
        where = "" if self.streams is None else f" of stream {row}"
        return f"the observation{where} is {rows[row].tolist()}"

    @cached_property
    def _form(self) -> Form | None:
        """What one observation looks like, where the model says."""
        if self.answers:
            return form_of(self.model, "source_form")
        distribution = prototype(self.model)
        return Form(distribution.event_shape, distribution.support)

    @cached_property
    def _awaited(self) -> type[Any]:
        return awaited(type(prototype(self.model)))

    @cached_property
    def _is_discrete(self) -> bool:
        return bool(prototype(self.model).is_discrete)

    @cached_property
    def _dtype(self) -> np.dtype:
        return dtype_of(self.model)

    def _input(self, u: Any) -> Any:
        if not self._inputs:
            return None
        if u is None:
            raise DataError(f"{name_of(self.model)} takes {self._inputs} inputs at every step; none were given.")
        u = np.asarray(u, dtype=self._dtype)
        due = (self._inputs,) if self.streams is None else (self.streams, self._inputs)
        if u.shape != due:
            raise DataError(
                f"the input has shape {u.shape}; it must be {due if self.streams else f'({self._inputs},)'}."
            )
        return u


def _compiled(model: Any, streams: int | None) -> Any:
    """Streams whose steps are compiled kernels, where the model has them."""
    try:
        streamer = own(model, "streamer")
    except AttributeError:
        return None
    return streamer(streams)


def fingerprint(model: Any) -> str:
    """A digest of a model's structure and numbers: equal for equal models, in any process."""
    digest = hashlib.sha256(str(jax.tree.structure(model)).encode())
    for path, leaf in jax.tree_util.tree_leaves_with_path(model):
        digest.update(jax.tree_util.keystr(path).encode())
        if eqx.is_array(leaf):
            array = np.asarray(leaf)
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        else:
            digest.update(repr(leaf).encode())
    return digest.hexdigest()
