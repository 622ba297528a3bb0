"""Randomness in learning: parts of a model that are noisy while it learns and silent otherwise."""

from abc import abstractmethod
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.random as jr

from hiddenstate._types import PRNGKeyArray

Model = TypeVar("Model")


class Noise(eqx.Module):
    """A part of a model that draws random numbers while it has a key, and is deterministic without one.

    Models are built, saved and used without keys. Learning gives one to every sequence of every update (`with_noise`),
    so that what is drawn is one choice for the whole sequence, the same however it is run over time.
    """

    key: eqx.AbstractVar[PRNGKeyArray | None]

    @abstractmethod
    def with_key(self, key: PRNGKeyArray) -> "Noise":
        """The same part with a key to draw from."""


def _is_noise(node: Any) -> bool:
    return isinstance(node, Noise)


def is_noisy(model: Any) -> bool:
    """Whether any part of the model draws random numbers in learning."""
    return any(_is_noise(node) for node in jax.tree.leaves(model, is_leaf=_is_noise))


def with_noise(model: Model, key: PRNGKeyArray) -> Model:
    """The model with a key of its own in each of its noisy parts."""
    nodes, tree = jax.tree.flatten(model, is_leaf=_is_noise)
    keys = iter(jr.split(key, max(1, sum(map(_is_noise, nodes)))))
    return jax.tree.unflatten(tree, [node.with_key(next(keys)) if _is_noise(node) else node for node in nodes])
