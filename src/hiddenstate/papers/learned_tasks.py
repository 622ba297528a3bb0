"""Networks from several beginnings on text, on copying what matters and on parity: learning curves and scores."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.random as jr
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.catalogue import build
from hiddenstate.core import Pairs, Sequences, parameter_count
from hiddenstate.data import datasets, read, tasks
from hiddenstate.inference import predictive
from hiddenstate.learn import SGD, Fits, evaluate, fit_seeds, score


def stacked(layers: int, hidden: int, feedforward: int = 0) -> dict[str, Any]:
    """The options of `hs.build` for so many layers: from two on with residual connections and normalisation."""
    between = {} if layers == 1 else {"layers": layers, "residual": True, "norm": True}
    return {"hidden": hidden, **between, **({"feedforward": feedforward} if feedforward else {})}


def label(cell: str, layers: int, feedforward: int = 0) -> str:
    """What a network is called in tables."""
    parts = [f"{layers} layers"] * (layers > 1) + ["feed-forward"] * (feedforward > 0)
    return f"{cell} ({', '.join(parts)})" if parts else cell


def text_parts(path: str | None, piece: int) -> tuple[Sequences, Sequences, Sequences]:
    """Text by characters to learn from, to watch and to judge by, each in pieces of so many characters.

    A file that is given is cut in time, nine tenths to learn from and a twentieth for each of the others. Without one
    it is the first two chapters of Alice's Adventures in Wonderland, cut between paragraphs.
    """
    parts = datasets.alice().split(0.7, 0.15) if path is None else read(Path(path)).split_time(0.9, 0.05)
    return tuple(part.pieces(piece) for part in parts)  # pyright: ignore[reportReturnType]


def learn_text(
    cell: str,
    layers: int,
    hidden: int,
    parts: tuple[Sequences, Sequences, Sequences],
    method: SGD,
    seeds: int,
    *,
    feedforward: int = 0,
    key: PRNGKeyArray,
) -> dict[str, list[dict[str, Any]]]:
    """The loss on new text while a network learns, and in the end: nats per character."""
    train, watched, judged = parts
    options = stacked(layers, hidden, feedforward)
    fits = _learned(cell, options, train, watched, method, seeds, key)
    name = label(cell, layers, feedforward)
    scores = []
    for seed, model in enumerate(fits.models):
        found = score(model, judged)
        scores.append(
            {
                "network": name,
                "seed": seed,
                "nats_per_character": found.nats_per_step,
                "standard_error": found.standard_error,
                "parameters": parameter_count(model),
            }
        )
    return {"text_curves": _curve(name, fits), "text": scores}


def learn_copying(
    cell: str,
    layers: int,
    hidden: int,
    size: Mapping[str, int],
    sequences: int,
    method: SGD,
    seeds: int,
    *,
    key: PRNGKeyArray,
) -> dict[str, list[dict[str, Any]]]:
    """The share of symbols that a network gives back in their order, after it has learned to select them."""
    train, watched, judged, learn_key = _pairs(
        lambda n, k: tasks.selective_copying(**size, sequences=n, key=k).pairs, sequences, key
    )
    fits = _learned(cell, stacked(layers, hidden), train, watched, method, seeds, learn_key)
    name = label(cell, layers)
    return {
        "copying_curves": _curve(name, fits),
        "copying": _accuracies(name, fits, {"length": size["length"]}, judged, learn_key),
    }


def learn_parity(
    cell: str,
    layers: int,
    hidden: int,
    lengths: tuple[int, ...],
    sequences: int,
    method: SGD,
    seeds: int,
    *,
    key: PRNGKeyArray,
) -> list[dict[str, Any]]:
    """The share of right answers up to the first length, which was learned, and between each of the others.

    Answers are due at every step, so that sequences of the last length tell all of it.
    """
    draw = lambda length: lambda n, k: tasks.parity(length=length, sequences=n, key=k).pairs  # noqa: E731
    train, watched, _, learn_key = _pairs(draw(lengths[0]), sequences, key)
    fits = _learned(cell, stacked(layers, hidden), train, watched, method, seeds, learn_key)
    judged = draw(lengths[-1])(200, jr.fold_in(learn_key, lengths[-1]))
    rows = []
    for seed, model in enumerate(fits.models):
        said: Any = predictive(model, judged)
        right = np.asarray(said.probs).argmax(-1) == np.asarray(judged.targets.values)
        for begin, end in itertools.pairwise((0, *lengths)):
            place = {"length": end, "from_step": begin + 1}
            rows.append(
                {"network": label(cell, layers), **place, "seed": seed, "accuracy": float(right[:, begin:end].mean())}
            )
    return rows


def _pairs(draw: Any, sequences: int, key: PRNGKeyArray) -> tuple[Pairs, Pairs, Pairs, PRNGKeyArray]:
    train_key, watched_key, judged_key, learn_key = jr.split(key, 4)
    return draw(sequences, train_key), draw(200, watched_key), draw(500, judged_key), learn_key


def _learned(
    cell: str, options: dict[str, Any], train: Any, watched: Any, method: SGD, seeds: int, key: PRNGKeyArray
) -> Fits:
    make = lambda key: build(cell, train, key=key, **options)  # noqa: E731
    return fit_seeds(make, train, method, key=key, seeds=seeds, validation=watched, progress=False)


def _curve(name: str, fits: Fits) -> list[dict[str, Any]]:
    """The mean and the spread of the loss on what is watched, each time it was looked at."""
    seen = [fit.history.drop_nulls("validation") for fit in fits.fits]
    losses = np.array([frame["validation"].to_numpy() for frame in seen])
    spread = losses.std(axis=0, ddof=1) / np.sqrt(len(losses)) if len(losses) > 1 else np.zeros(losses.shape[1])
    return [
        {"network": name, "updates": int(step), "loss": float(mean), "standard_error": float(error)}
        for step, mean, error in zip(seen[0]["step"], losses.mean(axis=0), spread, strict=True)
    ]


def _accuracies(name: str, fits: Fits, place: dict[str, int], judged: Pairs, key: PRNGKeyArray) -> list[dict[str, Any]]:
    rows = []
    for seed, model in enumerate(fits.models):
        found: Any = evaluate(model, judged, key=key).only
        rows.append({"network": name, **place, "seed": seed, "accuracy": float(found.accuracy[0])})
    return rows
