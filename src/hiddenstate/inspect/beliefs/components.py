"""Hidden vectors in the few directions in which they vary most, beside what they might stand for."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenstate.core import HiddenStateError, SequenceModel, Sequences
from hiddenstate.inference.observations import sequences_for
from hiddenstate.inspect.hidden_vectors import beliefs_of, layer_of, vectors_of


@dataclass(frozen=True, eq=False)
class PrincipalComponents:
    r"""The hidden vectors along the directions in which they vary most, at every step.

    `coordinates` (sequence, time, component) are :math:`(h_t - \bar h)^\top v_i` with directions :math:`v_i` of length
    one, the rows of `directions` (component, entry), and the mean `centre`; NaN behind the end of a sequence. `shares`
    is the part of all variance that each direction has, from the largest: of all directions, and they sum to one.

    What points may be coloured by: `beliefs` (sequence, time, state), the belief of a hidden Markov model where one was
    given; `last` (sequence, time), the observation before, NaN at the first step, and None where observations are
    vectors; `steps` (sequence, time), how many observations were seen.
    """

    name: str
    coordinates: np.ndarray
    shares: np.ndarray
    directions: np.ndarray
    centre: np.ndarray
    beliefs: np.ndarray | None
    last: np.ndarray | None
    steps: np.ndarray

    def __str__(self) -> str:
        shown = ", ".join(f"{share:.1%}" for share in self.shares[: len(self.directions)])
        needed = int(np.searchsorted(np.cumsum(self.shares), 0.99 - 1e-12)) + 1
        return f"{self.name}: the first directions have {shown} of the variance; {needed} have 99%"


def principal(
    model: SequenceModel,
    data: Any,
    hmm: SequenceModel | None = None,
    *,
    layer: int | None = None,
    components: int = 3,
    whole_state: bool = False,
) -> PrincipalComponents:
    """The principal components of the hidden vectors of a model over data, all layers together or one of them.

    `layer` counts from the first, 0, or from the last, -1; without it the vectors of all layers are put together. With
    `whole_state` all numbers of a state are taken, not only those that a cell shows. With an `hmm` the beliefs that it
    has at these steps come out as well, to colour the points by. Signs are such that the largest entry of each
    direction is positive.

    >>> print(hs.inspect.beliefs.principal(rnn, data, hmm))  # doctest: +SKIP
    """
    data = sequences_for(model, data if hmm is None else sequences_for(hmm, data))
    found = vectors_of(model, data, whole_state)
    if layer is None and len(found) > 1:
        name, vectors = f"all {len(found)} layers", np.concatenate(list(found.values()), axis=-1)
    else:
        name, vectors = layer_of(found, -1 if layer is None else layer)
    if isinstance(components, bool) or not isinstance(components, int | np.integer) or components < 1:
        raise HiddenStateError(f"components is {components!r}; it must be a whole number from 1 on.")
    rows = vectors[data.valid]
    centre = rows.mean(axis=0)
    variances, axes = np.linalg.eigh((rows - centre).T @ (rows - centre) / len(rows))
    variances, axes = np.maximum(variances[::-1], 0.0), axes.T[::-1][: int(components)]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    axes = axes * np.sign(largest)
    total = variances.sum()
    inside = data.valid[..., None]
    return PrincipalComponents(
        name=name,
        coordinates=np.where(inside, (vectors - centre) @ axes.T, np.nan),
        shares=variances / total if total > 0 else np.zeros_like(variances),
        directions=axes,
        centre=centre,
        beliefs=None if hmm is None else np.where(inside, beliefs_of(hmm, data), np.nan),
        last=_last(data),
        steps=np.where(data.valid, np.arange(data.length), np.nan),
    )


def _last(data: Sequences) -> np.ndarray | None:
    """The observation before each step; None where observations are vectors."""
    if data.event_shape:
        return None
    values = data.values.astype(np.float64)
    if data.observed is not None:
        values = np.where(data.observed, values, np.nan)
    before = np.concatenate([np.full((len(data), 1), np.nan), values[:, :-1]], axis=1)
    return np.where(data.valid, before, np.nan)
