"""Sequences from a random hidden Markov model, with the best prediction that is possible of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import Column, DataError, Schema, Sequences
from hiddenstate.data.tasks.checks import check_sizes, generator


@dataclass(frozen=True, eq=False)
class Optimal:
    """What the Bayes-optimal predictor says: the log-probability of each symbol, and the beliefs behind it.

    `step_log_probs` (sequence, time) is zero where nothing is observed; `log_prob` sums it. `predicted`
    (sequence, time, state) is p(z_t | x_<t) and `filtered` p(z_t | x_<=t).
    """

    log_prob: np.ndarray
    step_log_probs: np.ndarray
    predicted: np.ndarray
    filtered: np.ndarray
    emission: np.ndarray

    @property
    def predictive(self) -> np.ndarray:
        """The probability of every symbol at every step, p(x_t | x_<t): (sequence, time, symbol)."""
        return self.predicted @ self.emission


@dataclass(frozen=True, eq=False)
class HMMTask:
    """Sequences drawn from a hidden Markov model whose parameters are known.

    `hidden` are the true states (sequence, time) of `data`; `initial`, `transition` and `emission` the
    model's probabilities, in float64.
    """

    data: Sequences
    hidden: np.ndarray
    initial: np.ndarray
    transition: np.ndarray
    emission: np.ndarray

    def optimal(self, data: Any = None) -> Optimal:
        """The forward recursion with the true parameters over `data` (the task's own by default), in float64.

        No predictor has a higher expected log-probability on sequences of this model: what a trained model
        lacks against this is what it has still to learn.
        """
        data = self.data if data is None else self._symbols(data)
        symbols, observed = data.values, data.valid & (True if data.observed is None else data.observed)
        count, time = symbols.shape
        predicted = np.empty((count, time, len(self.initial)))
        filtered = np.empty_like(predicted)
        evidence = np.empty((count, time))
        belief = np.broadcast_to(self.initial, (count, len(self.initial)))
        for t in range(time):
            likelihood = np.where(observed[:, t, None], self.emission.T[symbols[:, t]], 1.0)
            joint = belief * likelihood
            predicted[:, t], evidence[:, t] = belief, joint.sum(axis=1)
            filtered[:, t] = joint / evidence[:, t, None]
            belief = filtered[:, t] @ self.transition
        steps = np.where(observed, np.log(evidence), 0.0)
        return Optimal(steps.sum(axis=1), steps, predicted, filtered, self.emission)

    def optimal_log_prob(self, data: Any = None) -> np.ndarray:
        """The log-probability of each sequence under the true model, in nats."""
        return self.optimal(data).log_prob

    @property
    def optimal_nats_per_step(self) -> float:
        """The cross-entropy per step that the optimal predictor reaches on the task's own data."""
        return float(-self.optimal_log_prob().sum() / self.data.steps)

    @property
    def stationary(self) -> np.ndarray:
        """The share of time spent in each state in the long run."""
        count = len(self.initial)
        # pi (P - I) = 0 and sum(pi) = 1: one equation more than unknowns, but consistent.
        equations = np.vstack([self.transition.T - np.eye(count), np.ones(count)])
        return np.linalg.lstsq(equations, np.append(np.zeros(count), 1.0), rcond=None)[0]

    def _symbols(self, data: Any) -> Sequences:
        data = Sequences.of(data)
        size = self.emission.shape[1]
        if data.event_shape or not np.issubdtype(data.values.dtype, np.integer):
            raise DataError(f"the task's sequences hold one symbol a step; got {data!r}.")
        if data.values.min() < 0 or data.values.max() >= size:
            raise DataError(f"symbols must be whole numbers from 0 to {size - 1}; the largest is {data.values.max()}.")
        return data


def hmm(
    states: int,
    symbols: int,
    *,
    sequences: int,
    length: int,
    key: PRNGKeyArray,
    concentration: float = 1.0,
) -> HMMTask:
    """Sequences of symbols from a hidden Markov model with random parameters.

    The initial, transition and emission probabilities are drawn from Dirichlet distributions with all
    parameters equal to `concentration`, as in Choe, Shin and Spencer (2017, section 4.1), who take 2 states,
    3 symbols, length 8 and concentration 1. Small concentrations give sharp models, large ones nearly uniform
    models.
    """
    check_sizes(states=states, symbols=symbols, sequences=sequences, length=length)
    if not concentration > 0:
        raise DataError(f"concentration is {concentration}; it must be positive.")
    random = generator(key)
    initial = _dirichlet(random, (states,), concentration)
    transition = _dirichlet(random, (states, states), concentration)
    emission = _dirichlet(random, (states, symbols), concentration)
    moves, draws = random.random((2, length, sequences))
    hidden = np.zeros((length, sequences), np.int32)
    hidden[0] = _Inverse(initial[None])(hidden[0], moves[0])
    move = _Inverse(transition)
    for t in range(1, length):
        hidden[t] = move(hidden[t - 1], moves[t])
    seen = _Inverse(emission)(hidden, draws).T
    schema = Schema((Column("x", "symbol", symbols),), scalar=True)
    return HMMTask(Sequences.padded(seen, schema=schema), hidden.T.copy(), initial, transition, emission)


def _dirichlet(random: np.random.Generator, shape: tuple[int, ...], concentration: float) -> np.ndarray:
    """Probabilities over the last axis, from a symmetric Dirichlet distribution."""
    # A gamma of shape a is one of shape a + 1 times U^(1/a): in logs, so that small ones do not underflow.
    logits = np.log(random.standard_gamma(concentration + 1, shape)) + np.log1p(-random.random(shape)) / concentration
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


class _Inverse:
    """The distribution functions of the rows of `probs`, inverted: numbers between 0 and 1 to indices."""

    def __init__(self, probs: np.ndarray):
        count, self.size = probs.shape
        # All rows in one rising list, row i between i and i + 1: one search serves them all.
        self.rising = (np.cumsum(probs, axis=1) + np.arange(count)[:, None]).ravel()

    def __call__(self, rows: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        found = np.searchsorted(self.rising, rows + uniform, side="right")
        return np.minimum(found - rows * self.size, self.size - 1).astype(np.int32)
