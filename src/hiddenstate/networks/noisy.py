"""A recipe: a recurrent network with a noisy state, run by particles."""

from typing import Any

import jax.random as jr

from hiddenstate._types import PRNGKeyArray
from hiddenstate.cells import Noisy
from hiddenstate.core import HiddenStateError, Sequences, recipe, recipe_named
from hiddenstate.latent import ParticleFilter
from hiddenstate.networks.build import CELLS
from hiddenstate.networks.rnn import RNN


@recipe("noisy")
def noisy(
    data: Sequences,
    *,
    key: PRNGKeyArray,
    cell: str = "gru",
    hidden: int = 32,
    particles: int = 10,
    scale: float = 0.1,
    family: str = "normal",
    learn_scale: bool = True,
    threshold: float = 0.5,
    **options: Any,
) -> ParticleFilter:
    """A particle filter over an `hs.RNN` of an `hs.cells.Noisy`; the other options are those of the cell's recipe."""
    if cell not in CELLS:
        raise HiddenStateError(f"cell is {cell!r}; it must be one of {', '.join(CELLS)}.")
    network_key, filter_key = jr.split(key)
    plain: RNN = recipe_named(cell)(data, key=network_key, hidden=hidden, **options)
    disturbed = Noisy(plain.cell, scale, family=family, learn=learn_scale)
    start = "zero" if plain.start is None else "learned"
    network = RNN(disturbed, plain.head, encoder=plain.encoder, initial=start, inputs=plain.inputs, schema=plain.schema)
    return ParticleFilter(network, particles, threshold=threshold, key=filter_key)
