"""From what a caller gave to what a model takes, or a sentence that says what is wrong."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution, constraints

from hiddenstate.core import (
    ConditionalModel,
    DataError,
    MissingDataError,
    PairArrays,
    Pairs,
    SequenceModel,
    Sequences,
    dtype_of,
    has,
    name_of,
)
from hiddenstate.core.sequences import Arrays


def prototype(model: SequenceModel) -> Distribution:
    """The first read-out with shapes in place of numbers: its event shape and support, for free."""
    leaves, tree = jax.tree.flatten(eqx.filter(model, eqx.is_array))
    shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)
    static = eqx.filter(model, eqx.is_array, inverse=True)
    return _prototype(tree, shapes, _Static(static, model.inputs))


class _Static:
    """The parts of a model that are no arrays, hashed by their structure."""

    def __init__(self, static: Any, inputs: int):
        self.static, self.inputs = static, inputs
        leaves, tree = jax.tree.flatten(static)
        self.signature = (tuple(leaves), tree, inputs)

    def __hash__(self) -> int:
        return hash(self.signature)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and self.signature == other.signature


@lru_cache(maxsize=256)
def _prototype(tree: Any, shapes: tuple, static: _Static) -> Distribution:
    arrays = jax.tree.unflatten(tree, [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes])

    def first(arrays):
        model = eqx.combine(arrays, static.static)
        u = jnp.zeros(static.inputs, dtype_of(model)) if static.inputs else None
        return model.readout(model.initial(), u)

    return jax.eval_shape(first, arrays)


def sequences_for(model: SequenceModel, data: Any) -> Sequences:
    """`data` as checked `Sequences` that `model` can read.

    An array with one axis more than the model's observations is one sequence, with two more it is several (but not a
    column of numbers, which is more likely one sequence with an axis too many: that is an error).
    """
    if isinstance(data, Pairs):
        raise DataError(
            f"{name_of(model)} predicts one sequence from its own past, but the data are Pairs; give their sources or "
            "their targets alone, or take a model that answers."
        )
    if not isinstance(data, Sequences):
        rank = len(prototype(model).event_shape)
        several = not isinstance(data, list | tuple) and np.ndim(data) == rank + 2
        column = several and rank == 0 and np.size(data) == len(data) > 1
        data = Sequences.padded(data) if several and not column else Sequences.of(data)
    check_sequences(model, data)
    return data


def pairs_for(model: ConditionalModel, data: Any) -> Pairs:
    """`data` as checked `Pairs` that `model` can read and answer."""
    if not isinstance(data, Pairs):
        raise DataError(
            f"{name_of(model)} answers sources with targets, but the data are a {type(data).__name__}; give "
            "hs.Pairs.of(sources, targets)."
        )
    if not data.scored_steps:
        raise DataError("all targets of the pairs are missing; at least one is needed.")
    return data


def data_for(model: SequenceModel | ConditionalModel, data: Any) -> Sequences | Pairs:
    """Checked data of the kind that `model` learns from: `Pairs` where it answers, otherwise `Sequences`."""
    return pairs_for(model, data) if isinstance(model, ConditionalModel) else sequences_for(model, data)


@overload
def arrays_for(model: Any, data: Sequences) -> Arrays: ...
@overload
def arrays_for(model: Any, data: Pairs) -> PairArrays: ...
def arrays_for(model: SequenceModel | ConditionalModel, data: Sequences | Pairs) -> Arrays | PairArrays:
    """The arrays of checked data, in the precision of the model; without inputs where the model takes none."""
    if isinstance(data, Pairs):
        return PairArrays(arrays_for(model, data.sources), data.targets.arrays(dtype_of(model)))
    arrays = data.arrays(dtype_of(model))
    return arrays if model.inputs else arrays._replace(inputs=None)


def check_sequences(model: SequenceModel, data: Sequences) -> None:
    """Raise the sentence that says why `model` cannot read `data`, if it cannot."""
    distribution = prototype(model)
    if data.event_shape != distribution.event_shape:
        hint = ""
        if len(data.event_shape) == len(distribution.event_shape) + 1:
            hint = " If the first axis counts sequences, use hs.Sequences.padded(array)."
        raise DataError(
            f"each observation has shape {data.event_shape}, but {name_of(model)} predicts observations of shape "
            f"{distribution.event_shape}.{hint}"
        )
    if data.observed is not None and not has(model, "prepare_partial"):
        sequence, step = (int(i) for i in np.argwhere(~data.observed)[0][:2])
        raise MissingDataError(
            f"sequence {data.names[sequence]} has a missing value at step {step}, and {name_of(model)} cannot "
            "marginalise missing observations: it needs each one. Fill them in, cut the sequences there, or take a "
            "latent-state model such as hmm or linear-gaussian."
        )
    _check_range(data, dtype_of(model))
    known = data.values if data.observed is None else np.where(data.observed, data.values, 0).astype(data.values.dtype)
    check_support(distribution.support, known, data.valid, data.names)
    if model.inputs:
        if data.inputs is None:
            raise DataError(f"{name_of(model)} takes {model.inputs} inputs at every step, but the data have none.")
        if data.inputs.shape[2] != model.inputs:
            raise DataError(f"{name_of(model)} takes {model.inputs} inputs, but the data have {data.inputs.shape[2]}.")


def _check_range(data: Sequences, dtype: np.dtype) -> None:
    """Raise DataError if a value is too large for the model's precision: it would silently become infinite."""
    large = np.abs(data.values) > np.finfo(dtype).max  # NaN, which is missing, is not
    if large.any():
        sequence, step, *_ = (int(i) for i in np.argwhere(large)[0])
        raise DataError(f"sequence {data.names[sequence]} holds a value beyond the range of {dtype} at step {step}.")


def check_support(support: Any, values: np.ndarray, valid: np.ndarray, names: Sequence[str] = ()) -> None:
    """Raise DataError if a value (sequence, time, ...) at a valid step lies outside a distribution's support."""
    inside = within(support, values) | ~valid
    if not inside.all():
        sequence, step = (int(i) for i in np.argwhere(~inside)[0])
        name = names[sequence] if names else sequence
        got = np.asarray(values[sequence, step]).tolist()
        raise DataError(f"sequence {name} holds {got} at step {step}; observations must be {describe(support)}.")


def within(support: Any, values: np.ndarray) -> np.ndarray:
    """Whether each observation of an array (sequence, time, ...) lies in the support."""
    if _is_symbolic(_base(support)) and not np.issubdtype(values.dtype, np.integer):
        hint = " Missing ones are said by missing=..., not by NaN." if np.isnan(values).any() else ""
        raise DataError(f"observations are {values.dtype}, but symbols are due: {describe(support)}.{hint}")
    inside = np.asarray(support(values))
    return np.asarray(inside.reshape(*inside.shape[:2], -1).all(axis=-1))


def _is_symbolic(constraint: Any) -> bool:
    return isinstance(constraint, type(constraints.integer_interval(0, 1)))


def describe(support: Any) -> str:
    """A support in words."""
    base = _base(support)
    said = getattr(base, "description", None)
    if said is not None:
        return said
    bounds = getattr(base, "lower_bound", None), getattr(base, "upper_bound", None)
    if bounds[0] is not None and bounds[1] is not None and bounds[1] < np.iinfo(np.int32).max:
        return f"whole numbers from {bounds[0]} to {bounds[1]}"
    if base is constraints.boolean:
        return "0 or 1"
    if getattr(base, "is_discrete", False):
        return "whole numbers from 0 on"
    return "real numbers"


def _base(support: Any) -> Any:
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    return support
