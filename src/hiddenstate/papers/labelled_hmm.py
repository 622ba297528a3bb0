r"""Networks that learn to say the hidden state of a hidden Markov model, beside its forward algorithm.

This is the experiment of Choe, Shin and Spencer (2017, section 4), after Andreas (2016): sequences are drawn from a
hidden Markov model whose probabilities are drawn from Dirichlet(1), a network reads the symbols and is taught the
hidden state at each step, and what it says is set beside :math:`\arg\max_h p(H_t = h \mid x_{1:t})`, which the
forward algorithm computes with the true probabilities.

There the state :math:`h_t` has seen :math:`x_t`; that is how an `hs.Transducer` answers. It begins at zero, so every
sequence is read with one more symbol before it, always the same and without a label: what the network makes of it is a
first state that is learned, as the initial distribution of the hidden Markov model is its first belief.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.catalogue import build
from hiddenstate.core import Column, Pairs, Schema, Sequences
from hiddenstate.data import tasks
from hiddenstate.data.tasks import HMMTask, Optimal
from hiddenstate.inference import predictive
from hiddenstate.learn import SGD, Fits, fit_seeds

LENGTH = 8
"""Steps of each sequence, in all experiments of the paper."""


@dataclass(frozen=True, eq=False)
class LabelledHMM:
    """Sequences of one hidden Markov model with their hidden states: to learn from, to choose by and to test with.

    The pairs have the start symbol; `hidden` and `symbols` are those of the test sequences without it.
    """

    task: HMMTask
    train: Pairs
    validation: Pairs
    test: Pairs

    @property
    def symbols(self) -> np.ndarray:
        """What the test sequences show: (sequence, time)."""
        return self.test.sources.values[:, 1:]

    @property
    def hidden(self) -> np.ndarray:
        """The true states of the test sequences: (sequence, time)."""
        return self.test.targets.values[:, 1:]

    def optimal(self) -> Optimal:
        """What the forward algorithm says of the test sequences, with the true probabilities."""
        return self.task.optimal(Sequences.padded(self.symbols))


def draw_labelled(
    states: int, symbols: int, *, train: int, validation: int, test: int, key: PRNGKeyArray
) -> LabelledHMM:
    """A hidden Markov model with rows from Dirichlet(1), and so many labelled sequences of it."""
    task = tasks.hmm(states, symbols, sequences=train + validation + test, length=LENGTH, key=key)
    pairs = _with_start(task)
    cuts = (slice(train), slice(train, train + validation), slice(train + validation, None))
    return LabelledHMM(task, *(pairs[cut] for cut in cuts))


def _with_start(task: HMMTask) -> Pairs:
    """Symbols behind a start symbol, with the hidden states as labels; the start has none."""
    states, symbols = task.emission.shape
    seen = np.pad(task.data.values, ((0, 0), (1, 0)), constant_values=symbols)
    labels = np.pad(task.hidden, ((0, 0), (1, 0)))
    missing = np.zeros(labels.shape, bool)
    missing[:, 0] = True
    return Pairs.of(
        Sequences.padded(seen, schema=Schema((Column("x", "symbol", symbols + 1),), scalar=True)),
        Sequences.padded(labels, missing=missing, schema=Schema((Column("state", "symbol", states),), scalar=True)),
    )


def learn_states(
    drawn: LabelledHMM,
    units: int,
    *,
    seeds: int,
    updates: int,
    batch_size: int,
    learning_rate: float,
    weight_decay: float = 0.0,
    key: PRNGKeyArray,
) -> Fits:
    """Plain tanh networks of so many units that learn the hidden states, from several beginnings at once.

    The learning rate falls to zero as a cosine, and each network is kept as it was where it did best on the validation
    sequences.
    """
    make = partial(_network, drawn.train, units)
    method = falling(updates, batch_size, learning_rate, weight_decay)
    return fit_seeds(make, drawn.train, method, key=key, seeds=seeds, validation=drawn.validation, progress=False)


def falling(updates: int, batch_size: int, learning_rate: float, weight_decay: float = 0.0) -> SGD:
    """So many updates at a rate that falls to zero, with a look at the validation data after every fiftieth."""
    return SGD(
        steps=updates,
        batch_size=batch_size,
        learning_rate=learning_rate,
        decay="cosine",
        weight_decay=weight_decay,
        patience=None,
        evaluate_steps=min(50, updates),
        buckets=1,
    )


def _network(pairs: Pairs, units: int, key: PRNGKeyArray) -> Any:
    return build("vanilla", pairs, hidden=units, key=key)


def beliefs_of(model: Any, pairs: Pairs) -> np.ndarray:
    """What a network says of the hidden state at each step behind the start: (sequence, time, state)."""
    answers: Any = predictive(model, pairs.sources)
    return np.asarray(answers.probs, np.float64)[:, 1:]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Hidden states as a `guesser` predicts them and as the `forward` algorithm does, beside the true ones.

    All arrays are (sequence, time): whether each was right, whether both agree, and by how much the guess is less
    probable than the forward algorithm's, given what was seen. The mean of `lost` is the accuracy that the guesser
    lacks in expectation: near ties count little in it, although they count fully as disagreement.
    """

    right: np.ndarray
    forward_right: np.ndarray
    agree: np.ndarray
    lost: np.ndarray


def compare_predictions(predicted: np.ndarray, forward: np.ndarray, hidden: np.ndarray) -> Comparison:
    """Predicted states (sequence, time) beside the forward algorithm's, from its beliefs (sequence, time, state)."""
    best = forward.argmax(axis=-1)
    likely = np.take_along_axis(forward, predicted[..., None], axis=-1)[..., 0]
    return Comparison(predicted == hidden, best == hidden, predicted == best, forward.max(axis=-1) - likely)


def joined(found: Sequence[Comparison], *, axis: int) -> Comparison:
    """Comparisons of other sequences (axis 0), or of the same ones made several times (axis 1), as one."""
    return Comparison(
        *(np.concatenate([getattr(one, field.name) for one in found], axis=axis) for field in fields(Comparison))
    )


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """The mean over sequences and steps, and its standard error: sequences are independent, steps of one are not."""
    each = np.asarray(values, np.float64).reshape(len(values), -1).mean(axis=1)
    return float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each)))


def summary_of(compared: Comparison) -> dict[str, float]:
    """Accuracies, agreement and lost accuracy with their standard errors, and the paired gap of the accuracies."""
    named = {
        "accuracy": compared.right,
        "forward_accuracy": compared.forward_right,
        "agreement": compared.agree,
        "lost_accuracy": compared.lost,
        "advantage": compared.right.astype(float) - compared.forward_right,
    }
    found: dict[str, float] = {}
    for name, values in named.items():
        found[name], found[f"{name}_error"] = mean_and_error(values)
    return found


def margin_of(found: dict[str, float]) -> str:
    """In words how near to a tie the predictions are that differ, of a `summary_of` with some that do."""
    margin = found["lost_accuracy"] / (1 - found["agreement"])
    return f"the forward algorithm's state is the more probable one by {margin:.3f} on average"


def divergence(optimal: np.ndarray, approximate: np.ndarray) -> np.ndarray:
    """The Kullback-Leibler divergence from optimal probabilities to others, over the last axis, in nats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = optimal * (np.log(optimal) - np.log(approximate))
    return np.where(optimal > 0, terms, 0.0).sum(axis=-1)


def hmm_parameters(states: int, symbols: int) -> int:
    """How many probabilities of a hidden Markov model are free: each distribution has one less than it has values."""
    return (states - 1) + states * (states - 1) + states * (symbols - 1)
