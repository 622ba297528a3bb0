r"""The variational updates that the note on minGRU prints, beside those that follow from its factorisation.

One observation x of a switch z and a state s, with P(z), P(s) and P(x | s, z). For Q(s, z) = Q(z) Q(s | z) the note
prints

.. math::

    \log Q(z) &= \mathbb{E}_{Q(s \mid z)}[\log P(x \mid s, z)] + \log P(z) \\
    \log Q(s \mid z) &= \mathbb{E}_{Q(z)}[\log P(x \mid s, z)] + \log P(s)

up to constants. Maximising the bound :math:`\mathbb{E}_Q[\log P(x, s, z) - \log Q(s, z)]` gives

.. math::

    \log Q(s \mid z) &= \log P(x \mid s, z) + \log P(s) + \text{const} \\
    \log Q(z) &= \mathbb{E}_{Q(s \mid z)}[\log P(x, s \mid z) - \log Q(s \mid z)] + \log P(z) + \text{const}

which is the exact posterior, and the bound is then :math:`\log p(x)`.
"""

from typing import Any

import numpy as np

STATES = 4
SWEEPS = 200
"""So often the printed updates are made in turn: far more than they need to settle."""


def bound_gaps(models: int, seed: int) -> list[dict[str, Any]]:
    """What the bound lacks after each kind of updates, in nats: over models whose probabilities are drawn at random."""
    random = np.random.default_rng(seed)
    reset = random.uniform(0.05, 0.95, models)
    log_switch = np.log(np.stack([1 - reset, reset], axis=1))
    log_state = np.log(random.dirichlet(np.ones(STATES), models))
    log_likelihood = np.log(random.uniform(0.01, 1, (models, 2, STATES)))
    log_joint = log_likelihood + log_state[:, None] + log_switch[:, :, None]
    evidence = np.logaddexp.reduce(log_joint.reshape(models, -1), axis=1)
    found = {
        "right": right_updates(log_likelihood, log_state, log_switch),
        "as printed": printed_updates(log_likelihood, log_state, log_switch),
        "right, without the entropy": without_entropy(log_likelihood, log_state, log_switch),
    }
    rows = []
    for name, (log_z, log_s) in found.items():
        gap = evidence - bound(log_joint, log_z, log_s)
        rows.append(
            {
                "updates": name,
                "models": models,
                "mean_gap": float(gap.mean()),
                "error": float(gap.std(ddof=1) / np.sqrt(models)),
                "largest_gap": float(abs(gap).max()),
            }
        )
    return rows


def right_updates(
    log_likelihood: np.ndarray, log_state: np.ndarray, log_switch: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """log Q(z), (model, switch), and log Q(s | z), (model, switch, state), that make the bound largest."""
    log_s = _normalised(log_likelihood + log_state[:, None])
    gained = np.exp(log_s) * (log_likelihood + log_state[:, None] - log_s)
    return _normalised(gained.sum(-1) + log_switch), log_s


def without_entropy(
    log_likelihood: np.ndarray, log_state: np.ndarray, log_switch: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The right Q(s | z), and the Q(z) that is printed: the mean of log P(x | s, z) alone."""
    log_s = _normalised(log_likelihood + log_state[:, None])
    return _normalised((np.exp(log_s) * log_likelihood).sum(-1) + log_switch), log_s


def printed_updates(
    log_likelihood: np.ndarray, log_state: np.ndarray, log_switch: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Both as printed, in turn until they settle, from the prior of z."""
    log_z = log_switch
    log_s = np.zeros_like(log_likelihood)
    for _ in range(SWEEPS):
        mean = (np.exp(log_z)[:, :, None] * log_likelihood).sum(axis=1)
        log_s = np.broadcast_to(_normalised(mean + log_state)[:, None], log_likelihood.shape)
        log_z = _normalised((np.exp(log_s) * log_likelihood).sum(-1) + log_switch)
    return log_z, log_s


def bound(log_joint: np.ndarray, log_z: np.ndarray, log_s: np.ndarray) -> np.ndarray:
    """E_Q[log P(x, s, z) - log Q(s, z)] of each model."""
    log_q = log_z[:, :, None] + log_s
    return (np.exp(log_q) * (log_joint - log_q)).sum(axis=(1, 2))


def _normalised(logs: np.ndarray) -> np.ndarray:
    return logs - np.logaddexp.reduce(logs, axis=-1, keepdims=True)
