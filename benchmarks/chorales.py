"""Bach's chorales (Boulanger-Lewandowski et al. 2012): the family side by side, in nats per step of the test set.

    python benchmarks/chorales.py JSB_Chorales.mat [--models gru transposed ...] [--out chorales.json]

Everything is chosen on the validation set: when a training stops, and which model is called the best. The test set is
scored once for each model. All scores are exact log-likelihoods, summed over all steps and divided by their number, the
first step of every chorale included. Published, on the same split: RNN-RBM 6.27, RNN-NADE 5.56 (Boulanger-Lewandowski,
Bengio and Vincent 2012).

`transposed` first learns from every chorale in eleven keys (up and down by at most five semitones), then, from a lower
rate, from the chorales as they are.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.random as jr
import numpy as np
import scipy.io

import hiddenstate as hs

SEMITONES = 5
PARTS = ("train", "valid", "test")


@dataclass
class Chorales:
    """The three parts, and the first of them in several keys."""

    train: hs.Sequences
    validation: hs.Sequences
    test: hs.Sequences
    transposed: hs.Sequences


def read(path: Path) -> Chorales:
    """The three parts of a file of piano rolls."""
    found = scipy.io.loadmat(path)
    rolls = {part: [np.asarray(roll).astype(int) for roll in found[f"{part}data"][0]] for part in PARTS}
    keys = range(-SEMITONES, SEMITONES + 1)
    moved = [np.roll(roll, key, axis=1) for roll in rolls["train"] for key in keys]
    train, validation, test = (hs.Sequences.of(rolls[part]) for part in PARTS)
    return Chorales(train, validation, test, hs.Sequences.of(moved))


Learn = Callable[[Chorales, Any, float], Any]
"""From data, a key and a scale of the number of updates to a trained model."""


def trained(model: Any, data: hs.Sequences, chorales: Chorales, steps: int, rate: float, key: Any) -> Any:
    """The model after so many updates, as it was when it predicted the validation set best."""
    method = hs.SGD(
        steps=steps,
        batch_size=32,
        learning_rate=rate,
        decay="cosine",
        patience=None,
        evaluate_steps=max(1, steps // 40),
    )
    return hs.fit(model, data, method, key=key, validation=chorales.validation, progress=False).model


def network(recipe: str, updates: int, rate: float = 3e-3, **options: Any) -> Learn:
    """A recipe, trained on the chorales as they are."""

    def learn(chorales: Chorales, key: Any, scale: float) -> Any:
        build_key, fit_key = jr.split(key)
        model = hs.build(recipe, chorales.train, **options, key=build_key)
        return trained(model, chorales.train, chorales, max(2, int(scale * updates)), rate, fit_key)

    return learn


def markov(states: int) -> Learn:
    """A hidden Markov model of independent bits by EM, as it was when it predicted the validation set best."""

    def learn(chorales: Chorales, key: Any, scale: float) -> Any:
        build_key, fit_key = jr.split(key)
        model = hs.build("hmm", chorales.train, states=states, key=build_key)
        method = hs.EM(iterations=max(2, int(scale * 60)), start="random", pseudocount=0.1)
        return hs.fit(model, chorales.train, method, key=fit_key, validation=chorales.validation, progress=False).model

    return learn


def in_all_keys(chorales: Chorales, key: Any, scale: float) -> Any:
    """A network that learned from all keys first, and then from the chorales as they are."""
    build_key, first_key, second_key = jr.split(key, 3)
    model = hs.build("gru", chorales.train, **SUBSET, key=build_key)
    model = trained(model, chorales.transposed, chorales, max(2, int(scale * 2000)), 3e-3, first_key)
    return trained(model, chorales.train, chorales, max(2, int(scale * 500)), 1e-3, jr.fold_in(second_key, 0))


USUAL: dict[str, Any] = {"hidden": 192, "initial": "learned", "input_dropout": 0.2, "output_dropout": 0.4}
SUBSET: dict[str, Any] = {**USUAL, "output_dropout": 0.3, "head": "subset", "units": 128}
PARTICLES: dict[str, Any] = {"cell": "gru", "hidden": 128, "particles": 16}

MODELS: dict[str, tuple[str, Learn]] = {
    "hmm": ("HMM of 128 states, independent bits", markov(128)),
    "gru": ("GRU, independent bits", network("gru", 1000, **USUAL)),
    "lstm": ("LSTM, independent bits", network("lstm", 1000, **USUAL)),
    "mingru": ("minGRU of two layers, independent bits", network("mingru", 1000, layers=2, **USUAL)),
    "particles": (
        "multi-particle GRU, equation 17 as printed",
        network("multi-particle", 300, 1e-2, bias=False, mixing="uniform", **PARTICLES),
    ),
    "own": (
        "multi-particle GRU, biases and weights of its own",
        network("multi-particle", 600, 1e-2, **PARTICLES),
    ),
    "mixture": (
        "GRU, mixture of 32 sets of independent bits",
        network("gru", 1000, 1e-2, head="mixture-bernoulli", components=32, **USUAL),
    ),
    "nade": ("GRU, NADE of 64 units", network("gru", 400, 1e-2, head="nade", units=64, **USUAL)),
    "subset": ("GRU, subset head of 128 units", network("gru", 1000, head="subset", units=128, **USUAL)),
    "transposed": ("the same, first in eleven keys", in_all_keys),
}


def scored(name: str, title: str, model: Any, minutes: float, chorales: Chorales) -> dict[str, Any]:
    """A row of the table, which is printed too."""
    row: dict[str, Any] = {"model": name, "parameters": hs.parameter_count(model), "minutes": minutes}
    row |= {part: hs.score(model, getattr(chorales, part)).nats_per_step for part in ("validation", "test")}
    print(
        f"{title:<52}{row['parameters']:>11,}{minutes:>9.1f}{row['validation']:>12.3f}{row['test']:>8.3f}", flush=True
    )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="JSB_Chorales.mat")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of updates, for a quick look")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="write the table as JSON")
    given = parser.parse_args()
    chorales = read(given.file)
    rows = []
    print(f"{'model':<52}{'parameters':>11}{'minutes':>9}{'validation':>12}{'test':>8}", flush=True)
    for name in given.models:
        title, learn = MODELS[name]
        began = time.perf_counter()
        model = learn(chorales, jr.key(given.seed), given.scale)
        rows.append(scored(name, title, model, (time.perf_counter() - began) / 60, chorales))
        if given.out:
            given.out.write_text(json.dumps(rows, indent=2) + "\n")
        jax.clear_caches()
    best = min(rows, key=lambda row: row["validation"])
    print(f"best on validation: {best['model']}, {best['test']:.3f} nats per step on the test set")


if __name__ == "__main__":
    main()
