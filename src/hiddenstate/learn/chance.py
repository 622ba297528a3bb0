"""What is random in learning, and when: a pure function of a run's key and of where it stands, so that a run that was
interrupted draws what it would have drawn."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from hiddenstate._types import Array, PRNGKeyArray
from hiddenstate.learn.minibatches import Place

_LEARNING, _VALIDATION = 2**32 - 1, 2**32 - 2
"""Numbers that no epoch has: the order of minibatches is drawn from the key and the number of the epoch."""


class Moment(NamedTuple):
    """When something happens: the key of all that is drawn in the run, the place and the number of the update."""

    key: PRNGKeyArray
    place: Array
    """Epoch, batch and chunk."""
    update: Array
    """How many updates there were before."""


class Chance(NamedTuple):
    """One key for each sequence of a minibatch, where there is something to draw."""

    noise: Any
    """For the noisy parts of the model: the same in all chunks of a minibatch."""
    draws: Any
    """For what an objective draws: new in every chunk."""
    update: Any


SILENCE = Chance(None, None, None)
"""Nothing is drawn."""


def learning_key(key: PRNGKeyArray) -> PRNGKeyArray:
    """The key of all that is drawn in updates."""
    return jr.fold_in(key, _LEARNING)


def validation_key(key: PRNGKeyArray) -> PRNGKeyArray:
    """The key of all that is drawn in evaluations: the same in each of them, so that they compare."""
    return jr.fold_in(key, _VALIDATION)


def moment_at(key: PRNGKeyArray, place: Place, update: int) -> Moment:
    """The moment of an update."""
    return Moment(key, np.asarray(place, np.int32), np.asarray(update, np.int32))  # pyright: ignore[reportArgumentType]


def chance_at(moment: Moment | None, sequences: int, *, noisy: bool, draws: bool) -> Chance:
    """The keys of one moment; None where nothing draws from them."""
    if moment is None:
        return SILENCE
    epoch, batch, chunk = moment.place
    noise_key, draw_key = jr.split(jr.fold_in(jr.fold_in(moment.key, epoch), batch))
    return Chance(
        jr.split(noise_key, sequences) if noisy else None,
        jr.split(jr.fold_in(draw_key, chunk), sequences) if draws else None,
        jnp.asarray(moment.update),
    )
