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

__all__ = ["build", "families", "recipe_names"]

families = (cells, heads, latent, networks)


def build(name: str, data: Any, *, key: PRNGKeyArray, **options: Any) -> Any:
    """A model by its registered name, with sizes and head inferred from the data.

    ``hs.build("gru", data, hidden=32, key=key)``; the options are those of the recipe. `hs.recipe_names()` lists the
    names. From `Pairs` it is a model that answers.
    """
    make = recipe_named(name)
    taken = inspect.signature(make).parameters.values()
    if not any(p.kind is p.VAR_KEYWORD for p in taken):
        known = [p.name for p in taken if p.name not in ("data", "key")]
        for option in options:
            if option not in known:
                raise HiddenStateError(f"{name!r} has no option {option!r}; it takes {', '.join(known)}.")
    return make(_data_for(name, data), key=checked_key(key), **options)


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
