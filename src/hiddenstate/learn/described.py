"""What a description of a model says of its training."""

import inspect
from typing import Any, Literal

from hiddenstate.catalogue import recipe_named, recipe_names
from hiddenstate.core import HiddenStateError
from hiddenstate.core.description import Described, checked, options_of, read_description
from hiddenstate.learn.em import EM
from hiddenstate.learn.lbfgs import LBFGS
from hiddenstate.learn.method import Method
from hiddenstate.learn.sgd import SGD

_METHODS: dict[str, type[Method]] = {"sgd": SGD, "em": EM, "lbfgs": LBFGS}


def training_of(description: Described) -> dict[str, Any]:
    """The options under `training` in a description: those of the method that it names, and `method`, `validation`.

    `method` is sgd, em or lbfgs; where nothing is said it is em for models of a recipe that has what EM needs, and else
    sgd. `validation` is the share of the data that decides when to stop. All are checked by name and type; what is not
    given is not there.
    """
    content, place = read_description(description)
    training = content.get("training", {})
    if _learns_by_em(content.get("model")) and isinstance(training, dict):
        training = {"method": "em", **training}
    method = training.get("method", "sgd") if isinstance(training, dict) else "sgd"
    if not isinstance(method, str) or method not in _METHODS:
        raise HiddenStateError(f"method of training of {place} is {method!r}; it must be one of {', '.join(_METHODS)}.")
    known = {"method": Literal["sgd", "em", "lbfgs"], "validation": float, **options_of(_METHODS[method])}
    return checked(training, known, f"training of {place}")


def _learns_by_em(model: Any) -> bool:
    """Whether what a recipe of that name says it returns has what EM needs."""
    if not isinstance(model, str) or model not in recipe_names():
        return False
    return hasattr(inspect.signature(recipe_named(model)).return_annotation, "expected_statistics")
