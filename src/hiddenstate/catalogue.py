"""Every family that registers itself, imported once, and `build`, which makes a model by its name."""

from typing import Any

from hiddenstate import cells, heads, networks
from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import SequenceModel, Sequences, recipe_named

__all__ = ["build", "families"]

families = (cells, heads, networks)


def build(name: str, data: Any, *, key: PRNGKeyArray, **options: Any) -> SequenceModel:
    """A model by its registered name, with sizes and head inferred from the data.

    ``hs.build("gru", data, hidden=32, key=key)``; the options are those of the recipe. `hs.recipe_names()` lists the
    names.
    """
    return recipe_named(name)(Sequences.of(data), key=key, **options)
