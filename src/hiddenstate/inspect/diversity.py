"""How many particles of a model count, and how far apart they are."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from hiddenstate._types import Array, Float
from hiddenstate.core import HiddenStateError, SequenceModel, has, name_of
from hiddenstate.inference import arrays_for, each_step, sequences_for
from hiddenstate.strategies import Auto, Strategy


@dataclass(frozen=True, eq=False)
class Diversity:
    r"""What the particles of a model do at every step; NaN behind the end of a sequence.

    `responsibilities` (sequence, time, particle) are the shares of the particles in the probability of each
    observation, :math:`r_l = w_l\, p(x_t \mid h_l^t) / p(x_t \mid x_{<t})`. `effective_number` (sequence, time) is
    :math:`1 / \sum_l r_l^2`: one where a single particle explains an observation, and as many as there are where all
    do alike. `distance` (sequence, time) is the mean Euclidean distance between two particles, in what the cell shows
    of them before the observation.
    """

    responsibilities: np.ndarray
    effective_number: np.ndarray
    distance: np.ndarray

    def frame(self) -> pl.DataFrame:
        """The means over all sequences that are that long, one row a step: ready to plot."""
        seen = ~np.isnan(self.distance)
        means = {
            name: np.where(seen, values, 0.0).sum(axis=0) / seen.sum(axis=0)
            for name, values in (("effective_number", self.effective_number), ("distance", self.distance))
        }
        return pl.DataFrame({"step": np.arange(1, seen.shape[1] + 1), **means})


def particles(model: SequenceModel, data: Any, *, strategy: Strategy = Auto()) -> Diversity:
    """How many particles of a model count at every step, and how far apart they are: of an `hs.MultiParticle`.

    Particles that have come together predict the same: all then count alike, and their distance is zero.
    """
    if not (has(model, "responsibilities") and has(model, "particle_vectors")):
        raise HiddenStateError(f"model is a {name_of(model)}; it must be one with particles, such as hs.MultiParticle.")
    data = sequences_for(model, data)
    shares, distance = _diversity(model, arrays_for(model, data), strategy)
    shares = np.where(data.valid[..., None], np.asarray(shares, np.float64), np.nan)
    distance = np.where(data.valid, np.asarray(distance, np.float64), np.nan)
    return Diversity(shares, 1 / (shares**2).sum(axis=-1), distance)


@eqx.filter_jit
def _diversity(model: Any, arrays: Any, strategy: Strategy) -> tuple[Array, Array]:
    def look(state: Any, element: Any, x: Any, u: Any) -> tuple[Array, Array]:
        del element
        return model.responsibilities(state, x, u), mean_distance(model.particle_vectors(state))

    return each_step(model, arrays, strategy, look)[0]


def mean_distance(vectors: Float[Array, "particle size"]) -> Float[Array, ""]:
    """The mean Euclidean distance over all pairs of different particles; zero where there is only one."""
    count = len(vectors)
    between = jax.vmap(lambda one: jnp.linalg.norm(vectors - one, axis=-1))(vectors)
    return between.sum() / max(1, count * (count - 1))
