r"""What a hidden state knows of the belief that a hidden Markov model would have, and the belief of the state.

If a network has learned to predict the sequences of a hidden Markov model, its hidden state must hold what the belief
:math:`p(z_t \mid x_{<t})` says of the future. A linear probe asks whether it holds it in a form that a matrix product
can read; the probe back asks whether it holds anything else. Choe, Shin and Spencer (2017, section 4.1) compare the
states that a trained network and the forward algorithm name as most probable; this compares whole distributions.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import SequenceModel, checked_key
from hiddenstate.inference.observations import sequences_for
from hiddenstate.inspect.hidden_vectors import beliefs_of, divergences, vectors_of
from hiddenstate.inspect.regression import least_squares, parted, r_squared, softmax_regression


@dataclass(frozen=True, eq=False)
class LayerProbe:
    """What one layer knows, on held-out sequences; `name` says which layer it is.

    `belief_r_squared` is the share of the variance of the belief that an affine map of the hidden vector explains, and
    `hidden_r_squared` that of the hidden vector that an affine map of the belief explains: 1 is all of it, 0 what the
    mean does, and it can be negative. `divergence` is the mean Kullback-Leibler divergence, in nats, from the belief to
    what softmax regression reads of the hidden vector. The arrays `..._by_step` are the same at each step of the
    sequences, from the first; a share is NaN where there is nothing to explain, as at the first step.
    """

    name: str
    belief_r_squared: float
    hidden_r_squared: float
    divergence: float
    belief_r_squared_by_step: np.ndarray
    hidden_r_squared_by_step: np.ndarray
    divergence_by_step: np.ndarray


@dataclass(frozen=True, eq=False)
class Probe:
    """What each layer of a network knows of the belief, from the first layer to the last, as `LayerProbe`.

    `mean_divergence` is what an answer that is always the mean belief would score: a probe that reads anything
    is below it. `steps` is the number of held-out steps.
    """

    layers: tuple[LayerProbe, ...]
    mean_divergence: float
    steps: int

    def __str__(self) -> str:
        head = (
            f"{'on ' + str(self.steps) + ' held-out steps':24}{'R2 of belief':>14}{'R2 of hidden':>14}{'KL, nats':>12}"
        )
        rows = [
            f"{layer.name:24}{layer.belief_r_squared:14.4f}{layer.hidden_r_squared:14.4f}{layer.divergence:12.2g}"
            for layer in self.layers
        ]
        return "\n".join([head, *rows, f"{'the mean belief':24}{0.0:14.4f}{'':14}{self.mean_divergence:12.2g}"])


def probe(rnn: SequenceModel, hmm: SequenceModel, data: Any, *, key: PRNGKeyArray, whole_state: bool = False) -> Probe:
    """Regress the belief of `hmm` on the hidden state of `rnn`, and back, for every layer and step.

    `hmm` is a model whose state is a belief, such as `HMM`; `rnn` is any other model of the same observations. What is
    looked at is what each cell shows to the head or to the layer above; with `whole_state` all numbers of its state,
    such as the memory of an `LSTM`. A quarter of the sequences, drawn with `key`, is held out, and all figures are of
    those; the regressions are fitted to the others, one for all steps. Those behind the R2 are affine, by least
    squares; that behind the divergence is softmax regression on the same vectors, whose answers are always
    distributions with no zero in them.

    >>> print(hs.inspect.probe(rnn, hmm, data, key=jr.key(0)))  # doctest: +SKIP
    """
    data = sequences_for(rnn, sequences_for(hmm, data))
    parts = parted(data, key=checked_key(key))
    beliefs = [beliefs_of(hmm, part) for part in parts]
    hidden = [vectors_of(rnn, part, whole_state) for part in parts]
    fitted, held_out = (part.valid for part in parts)
    layers = tuple(
        _layer(name, _Rows(beliefs[0], hidden[0][name], fitted), _Rows(beliefs[1], hidden[1][name], held_out))
        for name in hidden[0]
    )
    mean = beliefs[0][fitted].mean(axis=0)
    constant = divergences(beliefs[1][held_out], np.log(mean, out=np.full_like(mean, -np.inf), where=mean > 0))
    return Probe(layers, float(constant.mean()), int(held_out.sum()))


class _Rows(NamedTuple):
    """Beliefs and hidden vectors (sequence, time, ...), and which steps are real."""

    belief: np.ndarray
    hidden: np.ndarray
    valid: np.ndarray


def _layer(name: str, fitted: _Rows, held_out: _Rows) -> LayerProbe:
    beliefs, hidden = fitted.belief[fitted.valid], fitted.hidden[fitted.valid]
    read = least_squares(hidden, beliefs)(held_out.hidden)
    back = least_squares(beliefs, hidden)(held_out.belief)
    log_probs = softmax_regression(hidden, beliefs)(held_out.hidden)
    diverged = divergences(held_out.belief, log_probs)
    valid = held_out.valid
    return LayerProbe(
        name=name,
        belief_r_squared=float(r_squared(held_out.belief[valid], read[valid], valid[valid])),
        hidden_r_squared=float(r_squared(held_out.hidden[valid], back[valid], valid[valid])),
        divergence=float(diverged[valid].mean()),
        belief_r_squared_by_step=r_squared(held_out.belief, read, valid),
        hidden_r_squared_by_step=r_squared(held_out.hidden, back, valid),
        divergence_by_step=np.where(valid, diverged, 0).sum(0) / np.maximum(valid.sum(0), 1),
    )
