"""Other starting values of transitions and initial probabilities, for EM."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core.padding import generator
from hiddenstate.latent.hmm.initials import InitialProbs, Stationary
from hiddenstate.latent.hmm.rows import Rows


def restarted_moves(rows: Rows, key: PRNGKeyArray) -> Rows:
    """Random transitions that are not extreme, and that more or less like to stay."""
    random, stay = generator(key), jnp.eye(rows.allowed.shape[0], dtype=rows.values.dtype)
    drawn: Any = random.dirichlet(np.ones(len(stay)), len(stay)).astype(stay.dtype)
    sticky = float(random.uniform(0, 3))  # chains that move on are not found from starts that all like to stay
    return rows.with_counts(drawn + sticky * stay + 0.05)


def restarted_start(start: InitialProbs | Stationary, key: PRNGKeyArray) -> InitialProbs | Stationary:
    """Random initial probabilities; a stationary start follows from the transitions and stays what it is."""
    if isinstance(start, Stationary):
        return start
    rows = start.rows
    counts: Any = generator(key).dirichlet(np.full(rows.allowed.shape[0], 5.0)).astype(rows.values.dtype)
    return start.maximise(counts + 0.05, 0.0)


def moves_into(rows: Rows, empty: np.ndarray) -> Rows:
    """Transitions with a way into the states that nothing is in."""
    return rows.with_counts(jnp.where(jnp.asarray(empty), 0.1, 0.0).astype(rows.values.dtype) + rows.probs)
