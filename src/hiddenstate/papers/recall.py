"""Networks that must recall: one symbol after a long wait, or always the last that was shown."""

from typing import Any

import jax.random as jr
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.catalogue import build
from hiddenstate.data import tasks
from hiddenstate.inference import predictive
from hiddenstate.learn import SGD, fit_seeds

HIDDEN = 16
SYMBOLS = 4

WAITING: dict[str, tuple[str, dict[str, Any]]] = {
    "short time constants": ("leaky", {"time_constants": (1.0, 2.0)}),
    "a wide range of them": ("leaky", {"time_constants": (1.0, 100.0)}),
    "no skips": ("skip", {"lags": (1,), "recurrent_init": "glorot"}),
    "skips in time": ("skip", {"lags": (1, 16), "recurrent_init": "glorot"}),
}
"""Who waits for the question. The last two begin with weights that are not orthogonal: a network with orthogonal
ones needs no skips to remember a symbol over that many blanks."""

KEEPING: dict[str, tuple[str, dict[str, Any]]] = {
    "constant decay": ("linear", {}),
    "gated decay": ("gated-leaky", {}),
    "lstm": ("lstm", {}),
}
"""Who keeps what was shown until the next is shown. The first two are one equation, with a decay of each unit that is
learned but always the same, and with one that the input sets."""


def waiting(
    network: str, delay: int, *, sequences: int, steps: int, seeds: int, key: PRNGKeyArray
) -> list[dict[str, Any]]:
    """The share of right answers where one of four symbols is asked for after `delay` blanks, from each seed."""
    train_key, test_key, fit_key = jr.split(key, 3)
    train, test = (
        tasks.copying(symbols=SYMBOLS, memory=1, delay=delay, sequences=sequences, key=one)
        for one in (train_key, test_key)
    )
    return [
        {"network": network, "delay": delay, **row}
        for row in _right(WAITING[network], train, test, steps, seeds, fit_key)
    ]


def keeping(
    network: str, length: int, *, sequences: int, steps: int, seeds: int, key: PRNGKeyArray
) -> list[dict[str, Any]]:
    """The share of right answers where the last symbol that was shown is asked for again and again, from each seed.

    One is shown with probability 0.1 at every step, so that what is kept must be dropped now and then.
    """
    train_key, test_key, fit_key = jr.split(key, 3)
    train, test = (
        tasks.clock(hours=SYMBOLS, speed=0, reset=0.1, length=length, sequences=sequences, key=one)
        for one in (train_key, test_key)
    )
    return [{"network": network, **row} for row in _right(KEEPING[network], train, test, steps, seeds, fit_key)]


def _right(
    network: tuple[str, dict[str, Any]], train: Any, test: Any, steps: int, seeds: int, key: PRNGKeyArray
) -> list[dict[str, Any]]:
    recipe, options = network
    fits = fit_seeds(
        lambda build_key: build(recipe, train.pairs, hidden=HIDDEN, key=build_key, **options),
        train.pairs,
        SGD(steps=steps, batch_size=64, learning_rate=1e-2, patience=None),
        key=key,
        seeds=seeds,
        progress=False,
    )
    rows = []
    for seed, model in enumerate(fits.models):
        answers: Any = predictive(model, test.data)
        said = np.asarray(answers.probs).argmax(axis=-1)
        rows.append({"seed": seed, "right": float((said == test.targets)[test.scored].mean())})
    return rows
