"""How much of a loss comes back to states long before it, and whether networks learn what depends on them."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from hiddenstate import inference
from hiddenstate._types import Array, PRNGKeyArray
from hiddenstate.catalogue import build
from hiddenstate.core import Sequences
from hiddenstate.data import tasks
from hiddenstate.inference import data_for
from hiddenstate.inspect.gradients import through_time
from hiddenstate.learn import SGD, evaluate, fit_seeds


def of_spectral_radius(radius: float):
    """An initialiser: a random matrix whose eigenvalues have that largest absolute value."""

    def make(key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        drawn = jr.normal(key, shape)
        return drawn * (radius / np.abs(np.linalg.eigvals(np.asarray(drawn))).max()).astype(drawn.dtype)

    return make


RECALLERS = ("vanilla", "LSTM")
"""The networks that are to recall a symbol."""


def recallers(delay: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """The names of their cells, and options.

    A forget gate of bias b is logistic(b), and keeps about 1 - exp(-b) of a state at each step: with the logarithm of
    the delay a third of the symbol, and of its gradient, is left when it is asked for (Tallec and Ollivier 2018).
    """
    return {
        "vanilla": ("vanilla", {"recurrent_init": of_spectral_radius(0.9)}),
        "LSTM": ("lstm", {"forget_bias": math.log(delay)}),
    }


def networks(
    radii: tuple[float, ...], forget_biases: tuple[float, ...]
) -> dict[str, tuple[str, dict[str, Any], float | None]]:
    """The networks to compare: the name of a cell, its options, and the spectral radius where it was chosen."""
    found: dict[str, tuple[str, dict[str, Any], float | None]] = {}
    for kind, nonlinearity in (("linear", "identity"), ("vanilla", "tanh")):
        for radius in radii:
            options = {"nonlinearity": nonlinearity, "recurrent_init": of_spectral_radius(radius)}
            found[f"{kind}, spectral radius {radius:g}"] = ("vanilla", options, radius)
    for bias in forget_biases:
        found[f"LSTM, forget bias {bias:g}"] = ("lstm", {"forget_bias": bias}, None)
    return found


class WayBack(NamedTuple):
    """What the loss of the last step says to all states before it.

    `norms` are mean norms of its gradient, by the number of steps between. `difference` is how far back-propagation as
    a linear dynamical system is from automatic differentiation in the parameters, relative to the largest entry.
    """

    norms: np.ndarray
    difference: float


def way_back(model: Any, data: Sequences) -> WayBack:
    """The gradient of the loss of the last step alone, back to the first state."""
    last_alone = data_for(model, data, int(data.lengths.max()) - 1)
    found = through_time(model, last_alone, method="sequential")
    norms = np.linalg.norm(found.gradients.astype(np.float64), axis=-1).mean(axis=0)[::-1]
    by_autodiff = eqx.filter_jit(eqx.filter_grad(lambda model: -inference.log_prob(model, last_alone).sum()))(model)
    pairs = list(zip(jax.tree.leaves(by_autodiff), jax.tree.leaves(found.parameters), strict=True))
    scale = max(float(jnp.abs(one).max()) for one, _ in pairs)
    return WayBack(norms, max(float(jnp.abs(one - other).max()) for one, other in pairs) / scale)


def rate_per_step(norms: np.ndarray) -> float:
    """The factor by which norms fall from one lag to the next, fitted over the later half of the lags."""
    lags = np.arange(len(norms))
    later = (lags >= len(norms) // 2) & (norms > 0)
    if later.sum() < 2:
        return 0.0
    return float(np.exp(np.polyfit(lags[later], np.log(norms[later]), 1)[0]))


def recall_accuracies(
    *,
    delay: int,
    hidden: int,
    sequences: int,
    steps: int,
    seeds: int,
    key: PRNGKeyArray,
) -> list[dict[str, Any]]:
    """The share of symbols that networks give back after a delay of blanks, for each of several beginnings."""
    train_key, test_key, learn_key = jr.split(key, 3)
    train, test = (
        tasks.copying(symbols=4, memory=1, delay=delay, sequences=count, key=own).pairs
        for count, own in ((sequences, train_key), (500, test_key))
    )
    method = SGD(steps=steps, batch_size=32, learning_rate=3e-3, patience=None)
    rows = []
    for name, (recipe, options) in recallers(delay).items():
        make = lambda key, recipe=recipe, options=options: build(recipe, train, hidden=hidden, key=key, **options)  # noqa: E731
        models = fit_seeds(make, train, method, key=learn_key, seeds=seeds, progress=False).models
        for seed, model in enumerate(models):
            accuracy = float(evaluate(model, test, key=test_key).only.accuracy[0])  # pyright: ignore[reportAttributeAccessIssue]
            rows.append({"network": name, "delay": delay, "seed": seed, "accuracy": accuracy})
    return rows
