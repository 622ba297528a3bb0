"""`fit`: the one way into learning, for every model and every method."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import (
    ConditionalModel,
    DataError,
    HiddenStateError,
    SequenceModel,
    Sequences,
    checked_key,
    has,
    name_of,
)
from hiddenstate.inference import data_for
from hiddenstate.learn.method import Fit, Method


def fit(
    model: SequenceModel | ConditionalModel,
    data: Any,
    method: Method,
    *,
    key: PRNGKeyArray,
    validation: Any = None,
    checkpoint: str | Path | None = None,
    progress: bool = True,
    given: int = 0,
) -> Fit:
    """Learn a model from data by a method, for example ``hs.fit(model, data, hs.SGD(epochs=50), key=key)``.

    A model of sequences learns from `Sequences`, one that answers from `Pairs`. With `validation` data the model that
    predicts them best is returned. With a path as `checkpoint` a run that was interrupted goes on where it was when it
    is started again with the same arguments, to the same result bit for bit. `progress` shows a bar where there is a
    terminal to show it in.

    With `given`, what is maximised is the conditional likelihood of each sequence given its first so many steps, which
    are read and not scored, in the validation data too (remark 1 of Choe, Shin and Spencer 2017, for one step).
    """
    if not isinstance(model, SequenceModel | ConditionalModel):
        raise HiddenStateError(
            f"the model is a {type(model).__name__}; hs.fit takes a SequenceModel, such as hs.RNN, or a "
            "ConditionalModel."
        )
    if not isinstance(method, Method):
        called = isinstance(method, type) and issubclass(method, Method)
        hint = f" Call it: hs.{method.__name__}()." if called else ""
        raise HiddenStateError(f"the method is {method!r}; it must be a way of learning, such as hs.SGD().{hint}")
    if isinstance(model, ConditionalModel) and not method.learns_pairs:
        raise HiddenStateError(
            f"{name_of(model)} answers sources with targets, which {type(method).__name__} cannot learn; use hs.SGD()."
        )
    if given and not method.learns_conditionally:
        raise HiddenStateError(
            f"given is {given}, but {type(method).__name__} maximises the likelihood of all steps; use hs.SGD() or "
            "hs.LBFGS() for that of later steps given the first."
        )
    checked = data_for(model, data, given)
    if isinstance(checked, Sequences) and checked.observed is not None:
        _refuse_nothing(checked)
    if has(model, "check_learns_from"):
        model.check_learns_from(checked)  # pyright: ignore[reportAttributeAccessIssue]
    found = method.run(
        model,
        checked,
        key=checked_key(key),
        validation=None if validation is None else data_for(model, validation, given),
        checkpoint=None if checkpoint is None else Path(checkpoint),
        progress=progress,
    )
    if not has(found.model, "remarks"):
        return found
    return replace(found, reason="; ".join([found.reason.removesuffix("."), *found.model.remarks(checked)]) + ".")


def _refuse_nothing(data: Sequences) -> None:
    """Raise DataError where every value of every sequence is missing."""
    if not any(data.observed[i, :length].any() for i, length in enumerate(data.lengths)):  # pyright: ignore[reportOptionalSubscript]
        raise DataError("every value of the data is missing: there is nothing to learn from.")
