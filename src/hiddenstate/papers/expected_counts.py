"""Expected counts of a hidden Markov model as gradients: of the log-normaliser, and through the softmax."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.nn import logsumexp

from hiddenstate import inference
from hiddenstate._types import Array, Float, Num, PRNGKeyArray
from hiddenstate.core import Steps
from hiddenstate.data import tasks
from hiddenstate.latent import HMM, emissions
from hiddenstate.networks.exact import exact_rnn
from hiddenstate.strategies import Sequential


def log_normaliser(
    log_initial: Float[Array, " state"],
    log_transition: Float[Array, "state next"],
    log_emission: Float[Array, "state symbol"],
    symbols: Num[Array, " time"],
) -> Float[Array, ""]:
    r"""The logarithm of the sum over all paths of what their steps weigh together.

    .. math::

        A = \log \sum_{z_{1:T}} \exp\Big(\log \pi_{z_1} + \sum_{t=2}^T \log P_{z_{t-1}, z_t}
            + \sum_{t=1}^T \log C_{z_t, x_t}\Big)

    Nothing is normalised: the three tables may hold any numbers. Where they hold logarithms of probabilities it is the
    log-probability of the symbols, and its derivatives with respect to the tables are the expected counts
    (Linderman's lecture notes, "A Cool Trick for Computing the Gradients").
    """

    def move(message, x):
        return logsumexp(message[:, None] + log_transition, axis=0) + log_emission[:, x], None

    message, _ = jax.lax.scan(move, log_initial + log_emission[:, symbols[0]], symbols[1:])
    return logsumexp(message)


def compare_counts(
    *, states: int, symbols: int, sequences: int, length: int, key: PRNGKeyArray
) -> list[dict[str, Any]]:
    """How far gradients are from the expected counts of the E step, on data of a random model under another one.

    Two ways for transitions and for emissions: the derivative of the log-normaliser, which is to be the expected count,
    and that of the log-probability with respect to what goes through a softmax, which is to be the expected count less
    what the row as a whole would let expect, :math:`n_{ij} - \\sum_k n_{ik} P_{ij}`.
    """
    data_key, model_key = jr.split(key)
    data = tasks.hmm(states, symbols, sequences=sequences, length=length, key=data_key).data
    other = tasks.hmm(states, symbols, sequences=1, length=1, key=model_key)
    model = HMM(other.initial, other.transition, emissions.Categorical(other.emission))
    seen = jnp.asarray(data.values)
    statistics = jax.jit(jax.vmap(lambda x: model.expected_statistics(Steps(x), Sequential())[0]))(seen)
    counts = {"log P": statistics.transition.sum(0), "log C": statistics.emission.sum(0)}
    tables: Any = (jnp.log(model.initial_probs), jnp.log(model.transition.probs), model.emission.log_probs)  # pyright: ignore[reportAttributeAccessIssue]

    def total(transition, emission):
        return jax.vmap(lambda x: log_normaliser(tables[0], transition, emission, x))(seen).sum()

    free = dict(zip(counts, jax.jit(jax.grad(total, (0, 1)))(*tables[1:]), strict=True))
    through = eqx.filter_jit(eqx.filter_grad(lambda model: inference.log_prob(model, data).sum()))(model)
    squeezed = {"log P": through.transition.rows.logits, "log C": through.emission.logits}
    probs = {"log P": jnp.exp(tables[1]), "log C": jnp.exp(tables[2])}
    rows = []
    for name, expected in counts.items():
        less = expected - expected.sum(-1, keepdims=True) * probs[name]
        largest = float(jnp.abs(expected).max())
        rows += [
            _row(name, "log-normaliser", free[name], expected, largest),
            _row(name, "through the softmax", squeezed[name], less, largest),
        ]
    return rows


def _row(table: str, way: str, gradient: Array, expected: Array, largest: float) -> dict[str, Any]:
    return {
        "table": table,
        "way": way,
        "largest_count": largest,
        "difference": float(jnp.abs(gradient - expected).max()) / largest,
        "row_sum": float(jnp.abs(gradient.sum(-1)).max()) / largest,
    }


def compare_predictions(
    *, states: int, symbols: int, sequences: int, length: int, key: PRNGKeyArray
) -> list[dict[str, Any]]:
    """How far a network made from a hidden Markov model is from the forward recursion, in every prediction."""
    task = tasks.hmm(states, symbols, sequences=sequences, length=length, key=key)
    model = HMM(task.initial, task.transition, emissions.Categorical(task.emission))
    truth = task.optimal().predictive
    return [
        {
            "network": name,
            "predictions": int(truth[..., 0].size),
            "difference": float(np.abs(np.asarray(inference.predictive(network, task.data).probs) - truth).max()),  # pyright: ignore[reportAttributeAccessIssue]
        }
        for name, network in (
            ("beliefs", exact_rnn(model)),
            ("log-odds", exact_rnn(model, reduced=True)),
        )
    ]
