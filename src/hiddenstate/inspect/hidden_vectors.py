"""Hidden states as rows of numbers: beliefs where they are that, and the vectors that a network shows."""

from typing import Any

import jax
import numpy as np

from hiddenstate._types import State
from hiddenstate.core import HiddenStateError, SequenceModel, Sequences, has, name_of
from hiddenstate.inference import states
from hiddenstate.ops.vectors import as_vector


def beliefs_of(hmm: SequenceModel, data: Sequences) -> np.ndarray:
    """The belief at every step, (sequence, time, state)."""
    rows = as_beliefs(states(hmm, data))
    if rows is None:
        raise HiddenStateError(f"hmm is a {name_of(hmm)} whose state is no belief over hidden states; take an hs.HMM.")
    return rows


def as_beliefs(found: State) -> np.ndarray | None:
    """States (sequence, time, state) in float64 where they are distributions, None where they are something else."""
    if not isinstance(found, jax.Array) or found.ndim != 3:
        return None
    rows = np.asarray(found, np.float64)
    return None if (rows < 0).any() or (np.abs(rows.sum(-1) - 1) > 1e-3).any() else rows


def vectors_of(rnn: Any, data: Sequences, whole_state: bool = False) -> dict[str, np.ndarray]:
    """The vectors of each layer at every step, (sequence, time, entry), by the name of the layer.

    They are what each cell shows to the head or to the layer above, or all numbers of its state.
    """
    found = states(rnn, data)
    if has(rnn, "layers"):
        cells, each = rnn.layers(), found
    else:
        cells, each = (getattr(rnn, "cell", None),), (found,)
    names = [f"layer {n}, {type(c).__name__}" if len(cells) > 1 else name_of(rnn) for n, c in enumerate(cells, 1)]

    def vector(cell: Any, state: State) -> Any:
        return as_vector(state if whole_state or not has(cell, "output") else cell.output(state))

    rows = {
        name: np.asarray(jax.vmap(jax.vmap(lambda s, c=cell: vector(c, s)))(state), np.float64)
        for name, cell, state in zip(names, cells, each, strict=True)
    }
    for name, vectors in rows.items():
        if not np.isfinite(vectors[data.valid]).all():
            raise HiddenStateError(f"{name} has states that are not finite, which no regression can take.")
    return rows


def layer_of(vectors: dict[str, np.ndarray], layer: int) -> tuple[str, np.ndarray]:
    """The name and the vectors of one layer, counted from the first, 0, or from the last, -1."""
    if isinstance(layer, bool) or not isinstance(layer, int) or not -len(vectors) <= layer < len(vectors):
        raise HiddenStateError(
            f"layer is {layer!r}; the model has {len(vectors)}, counted from 0, or from -1 backwards."
        )
    name = list(vectors)[layer]
    return name, vectors[name]


def divergences(beliefs: np.ndarray, log_probs: np.ndarray) -> np.ndarray:
    """Kullback-Leibler divergences from beliefs to distributions given by logarithms."""
    possible = beliefs > 0
    return (beliefs * np.where(possible, np.log(np.where(possible, beliefs, 1.0)) - log_probs, 0.0)).sum(-1)
