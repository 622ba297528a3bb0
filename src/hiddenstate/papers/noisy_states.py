"""Recurrent networks as variational models: their bound beside their likelihood, and what noise in the state does."""

from typing import Any

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
import optax

from hiddenstate._types import PRNGKeyArray
from hiddenstate.catalogue import build
from hiddenstate.cells import Noisy
from hiddenstate.core import Sequences
from hiddenstate.data import tasks
from hiddenstate.inference import log_prob
from hiddenstate.learn import SGD, fit_seeds, objectives
from hiddenstate.networks import RNN

HIDDEN = 4
LENGTH = 12


def bound_and_likelihood(cells: tuple[str, ...], sequences: int, key: PRNGKeyArray) -> list[dict[str, Any]]:
    """The largest difference between bound and log-likelihood without noise, by cell and precision.

    The bound is the one with q = p and one draw of the states; `size` is the largest log-likelihood it is seen beside.
    """
    data_key, model_key, draw_key = jr.split(key, 3)
    rows = []
    for bits in (32, 64):
        with jax.enable_x64(bits == 64):
            data = tasks.modes(3, sequences=sequences, length=LENGTH, key=data_key).data
            for cell in cells:
                model = build(cell, data, hidden=HIDDEN, key=model_key)
                exact = np.asarray(log_prob(model, data), np.float64)
                bound = np.asarray(objectives.elbo(model, None, data, key=draw_key), np.float64)
                rows.append(
                    {
                        "cell": cell,
                        "bits": bits,
                        "largest_difference": float(abs(bound - exact).max()),
                        "size": float(abs(exact).max()),
                    }
                )
    return rows


def noise_sweep(
    scales: tuple[float, ...], sequences: int, steps: int, seeds: int, samples: int, particles: int, key: PRNGKeyArray
) -> list[dict[str, Any]]:
    """The bound of trained networks with noise of each scale added, held out, beside a filter of many particles.

    `bound` is in nats per step; `lost` is how far it is below that without noise, sequence by sequence, with its
    standard error over sequences. `filtered` is the bound of a particle filter, which is near the log-likelihood.
    """
    data_key, fit_key, draw_key = jr.split(key, 3)
    data = tasks.modes(3, sequences=2 * sequences, length=LENGTH, key=data_key).data
    train, test = data[:sequences], data[sequences:]
    method = SGD(steps=steps, batch_size=50, learning_rate=2e-2, patience=None)
    fits = fit_seeds(
        lambda build_key: build("vanilla", train, hidden=HIDDEN, key=build_key),
        train,
        method,
        key=fit_key,
        seeds=seeds,
        progress=False,
    )
    rows = []
    for seed, model in enumerate(fits.models):
        exact = np.asarray(log_prob(model, test), np.float64)
        for scale in scales:
            noisy = with_noise_of(model, scale, learn=False)
            bound = np.asarray(objectives.elbo(noisy, None, test, key=draw_key, samples=samples), np.float64)
            near = objectives.fivo(noisy, None, test, key=draw_key, particles=particles)
            lacks = np.asarray(near, np.float64) - bound
            rows.append(
                {
                    "seed": seed,
                    "scale": scale,
                    "bound": float(bound.mean()) / LENGTH,
                    "lost": float((exact - bound).mean()) / LENGTH,
                    "lost_error": _error(exact - bound) / LENGTH,
                    "filtered_above": float(lacks.mean()) / LENGTH,
                    "filtered_above_error": _error(lacks) / LENGTH,
                }
            )
    return rows


def learned_noise(
    cell: str, stretches: int, updates: int, sequences: int, seeds: int, key: PRNGKeyArray
) -> list[dict[str, Any]]:
    """How much of a noise that starts at 1 is left after each stretch of updates, from each seed.

    Each stretch begins with a new optimiser: Adam remembers the large gradients of the noisy beginning and would take
    small steps for as long.
    """
    data_key, build_key, *stretch_keys = jr.split(key, 2 + stretches)
    data = tasks.modes(2, sequences=sequences, length=20, key=data_key).data
    models = [noisy_network(cell, data, one) for one in jr.split(build_key, seeds)]
    rows = _scales(cell, 0, models)
    method = SGD(
        objective=objectives.Bound(samples=4),
        steps=updates,
        optimiser=optax.adam(0.1),
        batch_size=sequences,
        patience=None,
    )
    for number, stretch_key in enumerate(stretch_keys, 1):
        waiting = iter(models)
        fits = fit_seeds(lambda _: next(waiting), data, method, key=stretch_key, seeds=seeds, progress=False)  # noqa: B023
        models = fits.models
        rows += _scales(cell, number * updates, models)
    return rows


def noisy_network(cell: str, data: Sequences, key: PRNGKeyArray) -> RNN:
    """A network whose state is disturbed by normal noise of scale 1, which is learned."""
    return with_noise_of(build(cell, data, hidden=HIDDEN, key=key), 1.0, learn=True)


def with_noise_of(network: Any, scale: float, *, learn: bool) -> RNN:
    """The same network with noise added to its state."""
    return eqx.tree_at(lambda n: n.cell, network, Noisy(network.cell, scale, learn=learn))


def _scales(cell: str, update: int, models: list[Any]) -> list[dict[str, Any]]:
    return [
        {"cell": cell, "update": update, "seed": seed, "scale": float(model.cell.scale)}
        for seed, model in enumerate(models)
    ]


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))
