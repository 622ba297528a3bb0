r"""Beliefs as points: those of the forward algorithm, those that can be read from a network, and all that can be had.

A belief over m states is a point of the simplex, for three states a triangle with a corner for each. The beliefs that
a hidden Markov model can come to are countably many and often lie in a pattern that repeats itself at every scale
(Blackwell 1957 shows that the entropy rate is an integral over them). If the hidden vectors of a network are an affine
image of this set, least squares finds it again in them (Shai et al. 2024 do so for transformers).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import HiddenStateError, SequenceModel, Sequences, checked_key
from hiddenstate.inference import final_states, log_prob
from hiddenstate.inference.observations import sequences_for
from hiddenstate.inspect.hidden_vectors import as_beliefs, beliefs_of, divergences, layer_of, vectors_of
from hiddenstate.inspect.homomorphisms import symbols_of
from hiddenstate.inspect.regression import least_squares, parted, r_squared, softmax_regression

MOST_WORDS = 2**20
"""More words than this are not enumerated."""

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
"""Where a triangle has its three states: all sides are 1 long."""


@dataclass(frozen=True, eq=False)
class SimplexBeliefs:
    r"""The belief :math:`p(z_t \mid x_{<t})` at every step of held-out sequences, and what is read of a hidden vector.

    `true` is the belief of the hidden Markov model, `read` what softmax regression reads of the hidden vector, which is
    a distribution, and `affine` what least squares reads, which need not be one: all (sequence, time, state), NaN
    behind the end of a sequence. `divergence` (sequence, time) is the Kullback-Leibler divergence from `true` to `read`
    in nats, and `mean_divergence` what an answer that is always the mean belief would have. `r_squared` is the share of
    the variance of the belief that `affine` explains. `name` says which layer was read.
    """

    name: str
    true: np.ndarray
    read: np.ndarray
    affine: np.ndarray
    divergence: np.ndarray
    r_squared: float
    mean_divergence: float

    @property
    def states(self) -> int:
        """How many hidden states a belief is about."""
        return self.true.shape[-1]

    def rows(self, which: str = "true") -> np.ndarray:
        """Beliefs (step, state) of all steps of all sequences: ``"true"``, ``"read"`` or ``"affine"``."""
        found = {"true": self.true, "read": self.read, "affine": self.affine}
        if which not in found:
            raise HiddenStateError(f"which is {which!r}; it must be one of {', '.join(found)}.")
        return found[which][~np.isnan(self.divergence)]

    def __str__(self) -> str:
        steps = int((~np.isnan(self.divergence)).sum())
        return (
            f"{self.name}, {steps} held-out steps: R2 {self.r_squared:.4f} by an affine map, "
            f"KL {np.nanmean(self.divergence):.2g} nats by softmax regression ({self.mean_divergence:.2g} for the mean "
            "belief)"
        )


class Reachable(NamedTuple):
    r"""Every belief that words of one length lead to: `beliefs` (word, state), the `words` (word, time), their `probs`.

    The belief behind :math:`x_1 \ldots x_n` is :math:`p(z_{n+1} \mid x_{\le n})`; words that the model cannot say are
    left out, so that the probabilities sum to one.
    """

    beliefs: np.ndarray
    words: np.ndarray
    probs: np.ndarray


def simplex(
    model: SequenceModel,
    hmm: SequenceModel,
    data: Any,
    *,
    key: PRNGKeyArray,
    layer: int = -1,
    whole_state: bool = False,
) -> SimplexBeliefs:
    """The true belief at every step beside the belief that can be read from the hidden vector of a network.

    As in `hs.inspect.probe`, a quarter of the sequences, drawn with `key`, is held out, and the regressions are fitted
    to the others; all that comes out is of the held-out ones. `layer` counts from the first, 0, or from the last, -1;
    with `whole_state` all numbers of its state are read, not only those that it shows.

    >>> hs.inspect.beliefs.simplex(rnn, hmm, data, key=jr.key(0)).rows("read")  # doctest: +SKIP
    """
    data = sequences_for(model, sequences_for(hmm, data))
    known, held_out = parted(data, key=checked_key(key))
    name, vectors = layer_of(vectors_of(model, held_out, whole_state), layer)
    learned_from, targets = (
        vectors_of(model, known, whole_state)[name][known.valid],
        beliefs_of(hmm, known)[known.valid],
    )
    valid, true = held_out.valid, beliefs_of(hmm, held_out)
    affine = least_squares(learned_from, targets)(vectors)
    log_probs = softmax_regression(learned_from, targets)(vectors)
    mean = targets.mean(axis=0)
    constant = divergences(true[valid], np.log(mean, out=np.full_like(mean, -np.inf), where=mean > 0))
    inside = valid[..., None]
    return SimplexBeliefs(
        name=name,
        true=np.where(inside, true, np.nan),
        read=np.where(inside, np.exp(log_probs), np.nan),
        affine=np.where(inside, affine, np.nan),
        divergence=np.where(valid, divergences(true, log_probs), np.nan),
        r_squared=float(r_squared(true[valid], affine[valid], valid[valid])),
        mean_divergence=float(constant.mean()),
    )


def reachable(hmm: SequenceModel, steps: int) -> Reachable:
    """Every belief that a hidden Markov model over symbols can have after so many steps, with its probability.

    All words of that length are looked at, so there must not be too many: up to 2^20.

    >>> hs.inspect.beliefs.reachable(hmm, 8).beliefs  # doctest: +SKIP
    """
    symbols = symbols_of(hmm, "hmm")
    if hmm.inputs:
        raise HiddenStateError(f"hmm takes {hmm.inputs} inputs at every step; it must take none.")
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
        raise HiddenStateError(f"steps is {steps!r}; it must be a whole number from 1 on.")
    if symbols**steps > MOST_WORDS:
        raise HiddenStateError(
            f"steps is {steps}, which makes {symbols}^{steps} words of {symbols} symbols; at most {MOST_WORDS} are "
            f"enumerated, so take at most {int(np.log(MOST_WORDS) / np.log(symbols))}."
        )
    words = np.stack(np.unravel_index(np.arange(symbols**steps), (symbols,) * steps), axis=1).astype(np.int32)
    data = Sequences.padded(words, schema=hmm.schema) if hmm.schema else Sequences.padded(words)
    probs = np.exp(np.asarray(log_prob(hmm, data), np.float64))
    possible = probs > 0
    found: Any = final_states(hmm, data)
    beliefs = as_beliefs(found[:, None][possible])
    if beliefs is None:
        beliefs_of(hmm, data)  # which says what is wrong
        raise AssertionError("states are beliefs, but the last ones are not")
    return Reachable(beliefs[:, 0], words[possible], probs[possible])


def in_triangle(beliefs: Any, states: Sequence[int] = (0, 1, 2)) -> np.ndarray:
    """Beliefs (..., state) as points (..., 2) of a triangle with a corner for each of three states.

    Of more states than three these are the beliefs given that the state is one of the three, NaN where that is
    impossible.
    """
    beliefs = np.asarray(beliefs, np.float64)
    chosen = tuple(states)
    count = beliefs.shape[-1]
    if len(chosen) != 3 or len(set(chosen)) != 3 or not all(0 <= state < count for state in chosen):
        raise HiddenStateError(f"states are {chosen}; they must be three different ones of {count}, numbered from 0.")
    three = beliefs[..., list(chosen)]
    if count > 3:
        total = three.sum(-1, keepdims=True)
        three = np.divide(three, total, out=np.full_like(three, np.nan), where=total > 0)
    return three @ CORNERS
