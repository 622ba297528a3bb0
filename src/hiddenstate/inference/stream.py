"""One observation at a time: push it, get the next prediction."""

import hashlib
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
)
from hiddenstate.core.storage import read_tensors, write_tensors
from hiddenstate.inference.observations import describe, fits, form_of, prototype, within
from hiddenstate.inference.score import step_log_prob

_FORMAT = 1


class Stream:
    """A model that runs along with the data.

    >>> stream = hs.Stream(model)                # doctest: +SKIP
    >>> stream.predictive()                      # p(x_1)  # doctest: +SKIP
    >>> stream.push(3)                           # p(x_2 | x_1 = 3)  # doctest: +SKIP

    `log_prob` is the log-probability of everything pushed so far, `last_log_prob` that of the last observation, and
    `steps` how many there were. `save` and `restore`
    keep the state on disk, so that a process can stop and another go on where it was.

    Of a model that answers (`hs.Transducer`, `hs.Summary`), `push` returns the distribution of the answer to what was
    pushed so far, and `log_prob` stays 0: what is read has no probability. Its body must read forwards.
    """

    def __init__(self, model: SequenceModel | ConditionalModel):
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
        self.model: Any = model
        self.answers = isinstance(model, ConditionalModel)
        self.state: State = self.model.begin() if self.answers else self.model.initial()
        self.steps = 0
        self.log_prob = 0.0
        self.last_log_prob: float | None = None

    def predictive(self, u: Any = None) -> Distribution:
        """The distribution of the next observation; `u` is the input at that step, where the model takes inputs.

        Of a model that answers, the distribution of the answer to what was pushed so far.
        """
        if self.answers:
            if not self.steps:
                raise DataError(f"nothing was pushed yet, and {name_of(self.model)} answers what it has read.")
            return _answer(self.model, self.state)
        return _read(self.model, self.state, self._input(u))

    def push(self, x: Any, u: Any = None, *, next_u: Any = None) -> Distribution | None:
        """Take in an observation (and the input at its step) and return the distribution of the next.

        None or NaN stands for an observation, or an entry of one, that is missing, where the model can do without.

        A model with inputs needs `next_u` for that distribution; without it the answer is None, and `predictive` will
        give it once the next input is known.
        """
        x, observed = self._observation(x)
        u = self._input(u)
        if self.answers:
            self.state = _read_one(self.model, self.state, x, u)
            self.steps += 1
            return self.predictive()
        self.state, log_prob = _push(self.model, self.state, x, u, observed)
        self.last_log_prob = float(log_prob)
        self.log_prob += self.last_log_prob
        self.steps += 1
        if self.model.inputs and next_u is None:
            return None
        return self.predictive(next_u)

    def save(self, path: str | Path) -> None:
        """Write the state to a file, whole or not at all."""
        leaves = jax.tree.leaves(self.state)
        header = {
            "stream": _FORMAT,
            "model": fingerprint(self.model),
            "steps": self.steps,
            "log_prob": self.log_prob.hex(),
        }
        write_tensors(path, {f"state/{i:04d}": leaf for i, leaf in enumerate(leaves)}, header)

    @classmethod
    def restore(cls, model: SequenceModel | ConditionalModel, path: str | Path) -> "Stream":
        """The stream that was saved to `path`, of the same model."""
        arrays, header = read_tensors(path)
        if header.get("stream") != _FORMAT:
            raise FileError(f"{path} holds no stream of format {_FORMAT}.")
        if header["model"] != fingerprint(model):
            raise FileError(f"{path} is the stream of another model than the {name_of(model)} given.")
        stream = cls(model)
        leaves, tree = jax.tree.flatten(stream.state)
        stored = [arrays[name] for name in sorted(arrays)]
        if [a.shape for a in stored] != [leaf.shape for leaf in leaves]:
            raise FileError(f"{path} is damaged: its state does not have the shape of the model's.")
        stream.state = jax.tree.unflatten(
            tree, [jnp.asarray(a, leaf.dtype) for a, leaf in zip(stored, leaves, strict=True)]
        )
        stream.steps = int(header["steps"])
        stream.log_prob = float.fromhex(header["log_prob"])
        return stream

    def _observation(self, x: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """The observation, with zeros where entries are missing, and which are not; None where all are there."""
        form = self._form()
        x = np.full(() if form is None else form.shape, np.nan) if x is None else np.asarray(x)
        if x.dtype == bool:
            x = x.astype(np.int32)
        if not np.issubdtype(x.dtype, np.number):
            raise DataError(f"the observation is {x.dtype}; it must be a number or an array of numbers.")
        if form is not None and not fits(form, x.shape):
            raise DataError(f"the observation has shape {x.shape}; {name_of(self.model)} takes {form.shape}.")
        observed = None
        if np.isnan(x).any():
            if not has(self.model, "prepare_partial"):
                raise MissingDataError(f"the observation is missing, and {name_of(self.model)} cannot marginalise it.")
            observed = ~np.isnan(x)
            x = np.where(observed, x, 0)
            x = x.astype(np.int32) if prototype(self.model).is_discrete and (x % 1 == 0).all() else x
        if np.abs(x).max(initial=0) > np.finfo(dtype_of(self.model)).max:
            raise DataError(f"the observation is {x.tolist()}; that is beyond the range of {dtype_of(self.model)}.")
        if form is not None and not within(form.support, x[None, None]).all():
            raise DataError(f"the observation is {x.tolist()}; it must be {describe(form.support)}.")
        return x.astype(np.int32 if np.issubdtype(x.dtype, np.integer) else dtype_of(self.model)), observed

    def _form(self) -> Form | None:
        """What one observation looks like, where the model says."""
        if self.answers:
            return form_of(self.model, "source_form")
        distribution = prototype(self.model)
        return Form(distribution.event_shape, distribution.support)

    def _input(self, u: Any) -> Any:
        if not self.model.inputs:
            return None
        if u is None:
            raise DataError(f"{name_of(self.model)} takes {self.model.inputs} inputs at every step; none were given.")
        u = np.asarray(u, dtype=dtype_of(self.model))
        if u.shape != (self.model.inputs,):
            raise DataError(f"the input has shape {u.shape}; it must be ({self.model.inputs},).")
        return u


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


@eqx.filter_jit
def _read(model, state, u):
    return model.readout(state, u)


@eqx.filter_jit
def _read_one(model, state, x, u):
    return model.read_one(state, x, u)


@eqx.filter_jit
def _answer(model, state):
    return model.answer(state)


@eqx.filter_jit
def _push(model, state, x, u, observed):
    element = model.prepare(x, u) if observed is None else model.prepare_partial(x, u, observed)
    return model.step(state, element), step_log_prob(model, state, element, x, u)
