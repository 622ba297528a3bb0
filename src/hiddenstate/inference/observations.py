"""From what a caller gave to what a model takes, or a sentence that says what is wrong."""

import os
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
    Form,
    HiddenStateError,
    MissingDataError,
    PairArrays,
    Pairs,
    Remembered,
    Schema,
    SequenceModel,
    Sequences,
    dtype_of,
    has,
    name_of,
)
from hiddenstate.core.schema import contradiction
from hiddenstate.core.sequences import Arrays


def prototype(model: SequenceModel) -> Distribution:
    """The first read-out with shapes in place of numbers: its event shape and support, for free."""
    return _prototype_of(model)


@Remembered
def _prototype_of(model: SequenceModel) -> Distribution:
    leaves, tree = jax.tree.flatten(model)
    kinds = tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if eqx.is_array(leaf) else leaf for leaf in leaves)
    return _prototype(tree, kinds, model.inputs)


@lru_cache(maxsize=256)
def _prototype(tree: Any, kinds: tuple, inputs: int) -> Distribution:
    given = [isinstance(kind, jax.ShapeDtypeStruct) for kind in kinds]

    def first(arrays):
        arrays = iter(arrays)
        leaves = [next(arrays) if array else kind for kind, array in zip(kinds, given, strict=True)]
        model = jax.tree.unflatten(tree, leaves)
        u = jnp.zeros(inputs, dtype_of(model)) if inputs else None
        return model.readout(model.initial(), u)

    return jax.eval_shape(first, [kind for kind, array in zip(kinds, given, strict=True) if array])


def sequences_for(model: SequenceModel, data: Any) -> Sequences:
    """`data` as checked `Sequences` that `model` can read.

    An array with one axis more than the model's observations is one sequence, with two more it is several (but not a
    column of numbers, which is more likely one sequence with an axis too many: that is an error).
    """
    refuse_conditional(model)
    if isinstance(data, Pairs):
        raise DataError(
            f"{name_of(model)} predicts one sequence from its own past, but the data are Pairs; give it pairs.sources "
            "or pairs.targets, or take a model that answers, such as hs.Transducer or hs.Summary."
        )
    if not isinstance(data, Sequences):
        data = _as_sequences(data, len(prototype(model).event_shape))
    check_sequences(model, data)
    return data


def check_model(model: Any) -> None:
    """Raise the sentence that says what to give in place of what is no model."""
    if isinstance(model, eqx.Module):
        return
    if isinstance(model, str | os.PathLike):
        raise HiddenStateError(f"model is {str(model)!r}; it must be a model, such as hs.load(path) reads from a file.")
    if isinstance(model, Sequences | Pairs | np.ndarray | jax.Array | list | tuple):
        raise HiddenStateError(f"model is {type(model).__name__}; the model comes first, then the data.")
    if isinstance(getattr(model, "model", None), eqx.Module):
        raise HiddenStateError(f"model is a {type(model).__name__}; give the model that it holds, its .model.")
    raise HiddenStateError(f"model is a {type(model).__name__}; it must be a model, such as hs.build gives.")


def refuse_conditional(model: Any) -> None:
    """Raise the sentence that says why a model that answers has no distribution over sequences."""
    check_model(model)
    if isinstance(model, ConditionalModel):
        raise HiddenStateError(
            f"{name_of(model)} answers what it reads: it gives probabilities to answers, not to what it reads or to "
            "what comes next. Use hs.log_prob and hs.predictive with hs.Pairs, or take a model of sequences such as "
            "hs.RNN."
        )


def _as_sequences(data: Any, rank: int) -> Sequences:
    """Plain arrays as `Sequences` of observations with so many axes."""
    several = not isinstance(data, list | tuple) and np.ndim(data) == rank + 2
    column = several and rank == 0 and np.size(data) == len(data) > 1
    return Sequences.padded(data) if several and not column else Sequences.of(data)


def pairs_for(model: ConditionalModel, data: Any) -> Pairs:
    """`data` as checked `Pairs` that `model` can read and answer."""
    if not isinstance(data, Pairs):
        raise DataError(
            f"{name_of(model)} answers what it reads, so its data are pairs, but these are "
            f"{'sequences' if isinstance(data, Sequences) else f'a {type(data).__name__}'}; give "
            "hs.Pairs.of(sources, targets)."
        )
    check_sources(model, data.sources)
    check_targets(model, data)
    return data


def sources_for(model: ConditionalModel, data: Any) -> Sequences:
    """What is to be read and answered, checked: the sources of `Pairs`, or sequences by themselves."""
    if isinstance(data, Pairs):
        data = data.sources
    if not isinstance(data, Sequences):
        data = _as_sequences(data, len(form.shape) if (form := form_of(model, "source_form")) else 0)
    check_sources(model, data)
    return data


def data_for(model: SequenceModel | ConditionalModel, data: Any, given: int = 0) -> Sequences | Pairs:
    """Checked data of the kind that `model` learns from: `Pairs` where it answers, otherwise `Sequences`.

    Of sequences the first `given` steps are context (see `Sequences.given`).
    """
    check_model(model)
    if not isinstance(model, ConditionalModel):
        return sequences_for(model, data).given(given)
    if given:
        raise DataError(
            f"given is {given}, but {name_of(model)} answers what it reads; only models of sequences have first steps "
            "that are read and not scored."
        )
    return pairs_for(model, data)


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
    _check_schema(model.schema, data)
    if data.observed is not None and not has(model, "prepare_partial"):
        sequence, step = (int(i) for i in np.argwhere(~data.observed)[0][:2])
        raise MissingDataError(
            f"sequence {data.names[sequence]} has a missing value at step {step + 1}, and {name_of(model)} cannot "
            "marginalise missing observations: it needs each one. Fill them in, cut the sequences there, or take a "
            "latent-state model such as hmm or linear-gaussian."
        )
    _check_range(data, dtype_of(model))
    if not _surely_within(distribution.support, data):
        check_support(distribution.support, _known(data), data.valid, data.names)
    _check_inputs(model, data)


def check_sources(model: ConditionalModel, data: Sequences) -> None:
    """Raise the sentence that says why `model` cannot read `data`, if it cannot."""
    _check_form(model, data, form_of(model, "source_form"), "source", "reads")
    _check_schema(model.schema, data)
    if data.observed is not None:
        sequence, step = (int(i) for i in np.argwhere(~data.observed)[0][:2])
        raise MissingDataError(
            f"source {data.names[sequence]} has a missing value at step {step + 1}, and {name_of(model)} reads every "
            "one. Fill them in, or cut the sequences there; only targets may be missing."
        )
    _check_inputs(model, data)


def check_targets(model: ConditionalModel, pairs: Pairs) -> None:
    """Raise the sentence that says why `model` cannot answer with the targets of `pairs`, if it cannot."""
    if not pairs.scored_steps:
        raise DataError("all targets of the pairs are missing; at least one is needed.")
    _check_lengths(model, pairs)
    if pairs.targets.context is not None:
        raise DataError("the targets have a context, which only sequences can have; say what not to score by missing=.")
    _check_form(model, pairs.targets, form_of(model, "target_form"), "target", "answers with")
    _check_schema(model.target_schema, pairs.targets)
    if pairs.targets.observed is not None and has(model, "decoder_start"):
        pair, step = (int(i) for i in np.argwhere(~pairs.targets.observed)[0][:2])
        raise MissingDataError(
            f"target {pairs.names[pair]} has a missing value at step {step + 1}, but {name_of(model)} writes each step "
            "from those before and needs every one of them."
        )


def form_of(model: ConditionalModel, which: str) -> Form | None:
    """What a model says of its sources (``"source_form"``) or targets (``"target_form"``), where it does."""
    return getattr(model, which)() if has(model, which) else None


def fits(form: Form, shape: tuple[int, ...]) -> bool:
    """Whether one step of this shape is of the form."""
    return shape == form.shape or (form.flat and int(np.prod(shape)) == int(np.prod(form.shape)))


def _check_lengths(model: ConditionalModel, pairs: Pairs) -> None:
    sources, targets = pairs.sources.lengths, pairs.targets.lengths
    due = {"source": sources, "one": np.minimum(sources, 1)}.get(model.target_length)  # empty pairs fill up batches
    if due is None or (targets == due).all():
        return
    wrong = int(np.argmax(targets != due))
    has_steps = f"target {pairs.names[wrong]} has {_steps(targets[wrong])}"
    if model.target_length == "one":
        raise DataError(
            f"{has_steps}, but {name_of(model)} gives one answer to a whole sequence. For an answer at every step take "
            "an hs.Transducer."
        )
    raise DataError(
        f"{has_steps} and its source {sources[wrong]}, but {name_of(model)} answers every step. For one answer to a "
        "whole sequence take an hs.Summary."
    )


def _steps(count: int) -> str:
    return f"{count} step{'' if count == 1 else 's'}"


def _check_form(model: ConditionalModel, data: Sequences, form: Form | None, what: str, does: str) -> None:
    """Raise DataError if the values of sources or targets are not what the model reads, or answers with."""
    if form is not None and not fits(form, data.event_shape):
        raise DataError(
            f"each step of a {what} has shape {data.event_shape}, but {name_of(model)} {does} steps of shape "
            f"{form.shape}."
        )
    _check_range(data, dtype_of(model), what)
    if form is not None:
        known = _known(data).reshape(*data.shape[:2], *form.shape)  # a flat form takes any shape of as many entries
        check_support(form.support, known, data.valid, data.names, what)


def _check_schema(made_for: Schema | None, data: Sequences) -> None:
    """Raise DataError if the columns are not those that the model was made for, as far as the data tell."""
    if made_for is None or made_for is data.schema:
        return
    why = contradiction(made_for, data.schema)
    if why is not None:
        raise DataError(f"{why}. Read a file with hs.read(..., schema=model.schema).")


def _check_inputs(model: SequenceModel | ConditionalModel, data: Sequences) -> None:
    if not model.inputs:
        return
    if data.inputs is None:
        raise DataError(f"{name_of(model)} takes {model.inputs} inputs at every step, but the data have none.")
    if data.inputs.shape[2] != model.inputs:
        raise DataError(f"{name_of(model)} takes {model.inputs} inputs, but the data have {data.inputs.shape[2]}.")


def _known(data: Sequences) -> np.ndarray:
    """The values with zeros in place of missing ones."""
    return data.values if data.observed is None else np.where(data.observed, data.values, 0).astype(data.values.dtype)


def _check_range(data: Sequences, dtype: np.dtype, what: str = "sequence") -> None:
    """Raise DataError if a value is too large for the model's precision: it would silently become infinite."""
    most = float(np.finfo(dtype).max)
    if max(map(abs, data.extent)) <= most:  # not so where there is a NaN
        return
    large = np.abs(data.values) > most  # NaN, which is missing, is not
    if large.any():
        sequence, step, *_ = (int(i) for i in np.argwhere(large)[0])
        raise DataError(f"{what} {data.names[sequence]} holds a value beyond the range of {dtype} at step {step + 1}.")


def _surely_within(support: Any, data: Sequences) -> bool:
    """Whether the extent of the values, which is known without looking at each, tells that all are in the support."""
    base, (low, high) = _base(support), data.extent
    if _is_symbolic(base):
        return np.issubdtype(data.values.dtype, np.integer) and base.lower_bound <= low <= high <= base.upper_bound
    return base is constraints.real and bool(np.isfinite(low) and np.isfinite(high))


def check_support(
    support: Any, values: np.ndarray, valid: np.ndarray, names: Sequence[str] = (), what: str = "sequence"
) -> None:
    """Raise DataError if a value (sequence, time, ...) at a valid step lies outside a distribution's support."""
    due = "observations" if what == "sequence" else f"{what}s"
    inside = within(support, values, due) | ~valid
    if not inside.all():
        sequence, step = (int(i) for i in np.argwhere(~inside)[0])
        name = names[sequence] if names else sequence
        got = np.asarray(values[sequence, step]).tolist()
        raise DataError(f"{what} {name} holds {got} at step {step + 1}; {due} must be {describe(support)}.")


def within(support: Any, values: np.ndarray, what: str = "observations") -> np.ndarray:
    """Whether each observation of an array (sequence, time, ...) lies in the support."""
    if _is_symbolic(_base(support)) and not np.issubdtype(values.dtype, np.integer):
        hint = " Missing ones are said by missing=..., not by NaN." if np.isnan(values).any() else ""
        raise DataError(f"{what} are {values.dtype}, but symbols are due: {describe(support)}.{hint}")
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
