"""Several particles under one recurrent network: both weightings, what they gain, and whether they stay apart."""

import itertools
from typing import Any

import jax
import jax.random as jr
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.catalogue import build
from hiddenstate.cells import MinGRU
from hiddenstate.core import Sequences, has, parameter_count
from hiddenstate.data import tasks
from hiddenstate.heads import Bernoulli
from hiddenstate.inference import log_prob
from hiddenstate.inspect import particles
from hiddenstate.learn import SGD, fit_seeds
from hiddenstate.learn.scores import score_of, step_nats
from hiddenstate.networks import RNN, MultiParticle

WEIGHTINGS = ("step", "trajectory")

_FOUR: dict[str, Any] = {"cell": "gru", "hidden": 12, "particles": 4, "dispersion": "state"}

REDRAWN: dict[str, tuple[str, dict[str, Any]]] = {
    "one state": ("gru", {"hidden": 12, "dispersion": "state"}),
    "one state of 48": ("gru", {"hidden": 48, "dispersion": "state"}),
    "particles": ("multi-particle", _FOUR),
    "particles as printed": ("multi-particle", {**_FOUR, "bias": False, "mixing": "uniform"}),
    "particles by trajectory": ("multi-particle", {**_FOUR, "weighting": "trajectory"}),
}
"""Who tries the modes that are drawn anew every other step; four particles of 12 units each."""

ONCE: dict[str, tuple[str, dict[str, Any]]] = {
    name: REDRAWN[name] for name in ("one state", "particles", "particles as printed", "particles by trajectory")
}
"""Who tries the modes that are drawn once for a sequence."""


def weightings(networks: int, key: PRNGKeyArray) -> list[dict[str, Any]]:
    """Both weightings in double precision: over all sequences of three steps of two bits, and with a single particle.

    `total` is the probability of all sequences; `single` how far one particle is from the plain network; `above` and
    `below` are the largest differences of log-probabilities, step less trajectory, up and down.
    """
    bits = Sequences.padded(np.array(list(itertools.product((0, 1), repeat=6))).reshape(64, 3, 2))
    rows = []
    with jax.enable_x64(True):
        for number, one in enumerate(jr.split(key, networks)):
            cell_key, head_key, particle_key = jr.split(one, 3)
            rnn = RNN(MinGRU(2, 3, key=cell_key), Bernoulli(3, 2, key=head_key))
            plain = np.asarray(log_prob(rnn, bits))
            every = {w: _log_probs(rnn, 4, w, bits, particle_key) for w in WEIGHTINGS}
            single = {w: _log_probs(rnn, 1, w, bits, particle_key) for w in WEIGHTINGS}
            apart = every["step"] - every["trajectory"]
            rows.append(
                {
                    "network": number,
                    **{f"total_{w}": float(np.exp(values).sum()) for w, values in every.items()},
                    "single": max(float(abs(values - plain).max()) for values in single.values()),
                    "above": float(apart.max()),
                    "below": float(-apart.min()),
                }
            )
    return rows


def _log_probs(rnn: RNN, count: int, weighting: Any, data: Sequences, key: PRNGKeyArray) -> np.ndarray:
    return np.asarray(log_prob(MultiParticle(rnn, count, weighting=weighting, spread=2.0, key=key), data))


def modes_for(once: bool, sequences: int, key: PRNGKeyArray) -> Any:
    """Four levels, one drawn every other step or once for all 12 steps."""
    return tasks.modes(4, sequences=sequences, length=12, segment=None if once else 2, key=key)


def contestant(
    name: str, *, once: bool, sequences: int, steps: int, seeds: int, key: PRNGKeyArray
) -> list[dict[str, Any]]:
    """One network learned from several seeds: held-out nats per step of each, and how far apart its particles are.

    The data are the same for every contestant of one key.
    """
    task_key, fit_key = jr.split(key)
    task = modes_for(once, 3 * sequences, task_key)
    train, validation, test = (task.data[i * sequences : (i + 1) * sequences] for i in range(3))
    optimal = score_of(-np.asarray(task.optimal_step_log_probs(test), np.float64), test).nats_per_step
    recipe, options = (ONCE if once else REDRAWN)[name]
    method = SGD(steps=steps, batch_size=64, learning_rate=1e-2, decay="cosine", evaluate_steps=max(1, steps // 6))
    fits = fit_seeds(
        lambda build_key: build(recipe, train, key=build_key, **options),
        train,
        method,
        key=fit_key,
        seeds=seeds,
        validation=validation,
        progress=False,
    )
    return [
        {
            "network": name,
            "task": "once" if once else "redrawn",
            "seed": seed,
            "nats_per_step": score_of(step_nats(model, test), test).nats_per_step,
            "optimal": optimal,
            "parameters": parameter_count(model),
            **_distances(model, test),
        }
        for seed, model in enumerate(fits.models)
    ]


def _distances(model: Any, data: Sequences) -> dict[str, float]:
    """The mean distance between two particles at the first step and at the last."""
    if not has(model, "particle_vectors"):
        return {}
    frame = particles(model, data).frame()
    return {"first_distance": float(frame["distance"][0]), "last_distance": float(frame["distance"][-1])}


def distances(cells: tuple[str, ...], length: int, key: PRNGKeyArray) -> list[dict[str, Any]]:
    """How far particles of untrained networks are apart, step by step, with and without biases of their own."""
    data_key, model_key = jr.split(key)
    data = tasks.modes(4, sequences=20, length=length, segment=2, key=data_key).data
    rows = []
    for cell in cells:
        for bias in (False, True):
            model = build(
                "multi-particle", data, cell=cell, hidden=8, particles=4, bias=bias, spread=1.0, key=model_key
            )
            frame = particles(model, data).frame()
            rows += [
                {"cell": cell, "bias": bias, "step": row["step"], "distance": row["distance"]}
                for row in frame.iter_rows(named=True)
            ]
    return rows
