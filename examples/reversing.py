"""Read a string of up to twelve letters (a to j), then write it backwards.

The encoder reads from both ends; what it shows at its end is all that the decoder knows. So the whole string has to fit
into one vector, and the longer it is, the later it is learned. The strings of the test are drawn anew: of those with
more than four letters next to none was trained on.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jax.random as jr
import numpy as np
import optax
from common import report, settings

import hiddenstate as hs
from hiddenstate.data import to_text
from hiddenstate.report import style

LENGTH, LETTERS = 12, 10


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the network, once in full and once for a part of it; count the strings that come out right."""
    chosen = settings(__file__, __doc__, arguments)
    train_key, held_out_key, test_key, model_key, fit_key = jr.split(chosen.key, 5)
    strings = 1000 if chosen.quick else 40_000
    train = hs.tasks.reversing(length=LENGTH, symbols=LETTERS, sequences=strings, key=train_key)
    held_out = hs.tasks.reversing(length=LENGTH, symbols=LETTERS, sequences=strings // 40, key=held_out_key)
    test = hs.tasks.reversing(length=LENGTH, symbols=LETTERS, sequences=strings // 20, key=test_key)
    updates = 6 if chosen.quick else 2500
    method = hs.SGD(
        steps=updates,
        batch_size=64,
        learning_rate=optax.cosine_decay_schedule(5e-3, updates),
        evaluate_steps=max(1, updates // 25),
        patience=None,
    )
    untrained = hs.build(
        "encoder-decoder", train, hidden=8 if chosen.quick else 128, bidirectional=True, context="both", key=model_key
    )
    fit = hs.fit(untrained, train, method, key=fit_key, validation=held_out)
    # One key gives the same updates: a shorter run is the long one, interrupted.
    early = max(1, updates // 8)
    interrupted = hs.fit(untrained, train, replace(method, steps=early), key=fit_key, validation=held_out).model

    right = {
        f"after {early} updates": reversed_rightly(interrupted, test),
        f"after {updates} updates": reversed_rightly(fit.model, test),
    }
    draw(fit, right, test.sources.lengths, chosen.out / "reversing.png")
    written = to_text(hs.generate(fit.model, test[:5], length=LENGTH + 4).sequences)
    for source, answer in zip(to_text(test[:5].sources), written, strict=True):
        print(f"{source:>{LENGTH}}  {answer}")
    print()
    long = test.sources.lengths >= 10
    report(
        [
            {"network": name, "exact match": float(found.mean()), "10 letters or more": float(found[long].mean())}
            for name, found in right.items()
        ],
        chosen.out,
    )


def reversed_rightly(model: hs.EncoderDecoder, test: hs.Pairs) -> np.ndarray:
    """Which strings come out right from the first letter to the last, with the end at the right place."""
    written = hs.generate(model, test, length=LENGTH + 4).sequences
    return np.array([np.array_equal(y, due) for y, due in zip(written, test.targets, strict=True)])


def draw(fit: hs.Fit, right: dict[str, np.ndarray], lengths: np.ndarray, path: Path) -> None:
    """The held-out score over training, and the share of right strings of each length."""
    seen = fit.history.drop_nulls("validation")
    places = np.arange(1, LENGTH + 1)
    with style.canvas(path, 9.0, 3.6) as figure:
        left, right_side = figure.subplots(1, 2, width_ratios=[1, 1.15])
        left.plot(seen["step"], seen["validation"], color=style.MAIN)
        left.set_yscale("log")
        left.set(xlabel="updates", ylabel="nats per letter", title="Held-out strings")
        style.grid(left)
        for (name, found), colour in zip(right.items(), (style.FAINT, style.MAIN), strict=True):
            share = [found[lengths == n].mean() if (lengths == n).any() else np.nan for n in places]
            right_side.plot(places, share, color=colour, marker="o", markersize=4, label=name, clip_on=False)
        right_side.set(
            xlabel="length of the string",
            ylabel="written backwards without a fault",
            ylim=(0, 1.02),
            xticks=places,
            title="Short strings are learned first",
        )
        right_side.legend(loc="lower left")
        style.grid(right_side)


if __name__ == "__main__":
    main()
