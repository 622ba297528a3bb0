"""What a description of a model says of its training."""

from typing import Any, Literal

from hiddenstate.core import HiddenStateError
from hiddenstate.core.description import Described, checked, options_of, read_description
from hiddenstate.learn.em import EM
from hiddenstate.learn.lbfgs import LBFGS
from hiddenstate.learn.method import Method
from hiddenstate.learn.sgd import SGD

_METHODS: dict[str, type[Method]] = {"sgd": SGD, "em": EM, "lbfgs": LBFGS}


def training_of(description: Described) -> dict[str, Any]:
    """The options under `training` in a description: those of the method that it names, and `method`, `validation`.

    `method` is sgd (where nothing is said), em or lbfgs, and `validation` the share of the data that decides when to
    stop. All are checked by name and type; what is not given is not there.
    """
    content, place = read_description(description)
    training = content.get("training", {})
    method = training.get("method", "sgd") if isinstance(training, dict) else "sgd"
    if not isinstance(method, str) or method not in _METHODS:
        raise HiddenStateError(f"method of training of {place} is {method!r}; it must be one of {', '.join(_METHODS)}.")
    known = {"method": Literal["sgd", "em", "lbfgs"], "validation": float, **options_of(_METHODS[method])}
    return checked(training, known, f"training of {place}")
