"""Every family that registers itself, imported once; `build`, which makes a model by its name."""

import inspect
from typing import Any

from hiddenstate import cells, heads, latent, networks
from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import (
    DataError,
    HiddenStateError,
    Pairs,
    Sequences,
    checked_key,
    recipe_named,
    recipe_names,
)
from hiddenstate.core.description import Described, checked, fitted, is_description, read_description
from hiddenstate.networks import describe

__all__ = ["build", "families", "recipe_names"]

families = (cells, heads, latent, networks)


def build(name: Described, data: Any, *, key: PRNGKeyArray, **options: Any) -> Any:
    """A model by its registered name or its description, with sizes and head inferred from the data.

    ``hs.build("gru", data, hidden=32, key=key)``; the options are those of the recipe. `hs.recipe_names()` lists the
    names. A description is a mapping, or the path of a YAML or TOML file; the options take the place of what it says.
    From `Pairs` it is a model that answers.
    """
    if is_description(name):
        content, place = read_description(name)
        return _described({**content, **options}, place, data, checked_key(key))
    if not isinstance(name, str):
        raise HiddenStateError(f"name is {name!r}; it must be the name of a model, a description, or the path of one.")
    make = recipe_named(name)
    taken = inspect.signature(make).parameters.values()
    if not any(p.kind is p.VAR_KEYWORD for p in taken):
        known = [p.name for p in taken if p.name not in ("data", "key")]
        for option in options:
            if option not in known:
                raise HiddenStateError(f"{name!r} has no option {option!r}; it takes {', '.join(known)}.")
    return make(_data_for(name, data), key=checked_key(key), **options)


def _described(content: dict[str, Any], place: str, data: Any, key: PRNGKeyArray) -> Any:
    """The model that a description tells of: a network layer by layer, or a recipe with its options."""
    checked({"training": content.get("training", {})}, {"training": dict[str, Any]}, place)
    name = fitted(content.get("model"), str | None, f"model of {place}")
    if describe.by_layers(content):
        return describe.network(content, place, data if isinstance(data, Pairs) else Sequences.of(data), key=key)
    if name not in recipe_names():
        known = ", ".join(dict.fromkeys((*describe.SHAPES, *recipe_names())))
        raise HiddenStateError(f"model of {place} is {name!r}; it must be one of {known}.")
    return build(name, data, key=key, **describe.recipe_options(recipe_named(name), name, content, place))


def _data_for(name: str, data: Any) -> Sequences | Pairs:
    """Sequences or pairs, whichever the recipe takes."""
    if isinstance(data, Pairs):
        if name not in recipe_names("pairs"):
            raise DataError(
                f"{name!r} is a model of sequences, but the data are Pairs; give it pairs.sources, or to answer them "
                f"build one of {', '.join(recipe_names('pairs'))}."
            )
        return data
    if name not in recipe_names("sequences"):
        raise DataError(
            f"{name!r} is a model that answers, so it is built from pairs; give hs.Pairs.of(sources, targets)."
        )
    return Sequences.of(data)
