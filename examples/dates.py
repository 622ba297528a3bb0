"""Dates as people write them, translated into one form for all.

``3 March 1998``, ``Mar 3, 1998``, ``03/03/98`` and four other forms all become ``1998-03-03``, character by character.
Nobody tells the network what a month is: it sees pairs of texts and nothing else. No text of the test was trained on.
"""

import re
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

FORMS = {
    "3 March 1998": r"\d+ [A-Z][a-z]+ \d{4}",
    "March 3, 1998": r"[A-Z][a-z]{3,} \d+, \d{4}",
    "Mar 3, 1998": r"[A-Z][a-z]{2} \d+, \d{4}",
    "3 Mar 98": r"\d+ [A-Z][a-z]{2} \d{2}",
    "03/03/98": r"\d{2}/\d{2}/\d{2}",
    "3.3.1998": r"\d+\.\d+\.\d{4}",
    "Tuesday, 3 March 1998": r"[A-Z][a-z]+day, .*",
}
ISO = len("1998-03-03")
SHOWN = 2


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the network; translate texts that it has not seen."""
    chosen = settings(__file__, __doc__, arguments)
    train_key, test_key, model_key, fit_key = jr.split(chosen.key, 4)
    train = hs.tasks.dates(sequences=200 if chosen.quick else 30_000, key=train_key)
    held_out, test = unseen(hs.tasks.dates(sequences=100 if chosen.quick else 3000, key=test_key), train).split(0.2)
    updates = 6 if chosen.quick else 700
    method = hs.SGD(
        steps=updates,
        batch_size=64,
        learning_rate=optax.cosine_decay_schedule(5e-3, updates),
        evaluate_steps=max(1, updates // 25),
        patience=None,
    )
    network = hs.build("encoder-decoder", train, hidden=8 if chosen.quick else 96, bidirectional=True, key=model_key)
    fit = hs.fit(network, train, method, key=fit_key, validation=held_out)
    # One key gives the same updates: a shorter run is the long one, interrupted.
    early = max(1, updates // 4)
    interrupted = hs.fit(network, train, replace(method, steps=early), key=fit_key, validation=held_out).model

    written = hs.generate(fit.model, test, length=ISO)
    texts, answers = to_text(test.sources), to_text(written.sequences)
    right, sooner = matches(written, test), matches(hs.generate(interrupted, test, length=ISO), test)
    forms = np.array([form_of(text) for text in texts])
    sure = np.exp(written.log_prob[:, 0])
    stages = {f"after {early} updates": sooner, f"after {updates} updates": right}
    shares = {stage: [share(found[forms == form]) for form in FORMS] for stage, found in stages.items()}
    draw(fit, shares, examples(texts, answers, right, sure, forms), chosen.out / "dates.png")
    report(
        [{"form": "all", "texts": len(right)} | {stage: share(found) for stage, found in stages.items()}]
        + [
            {"form": form, "texts": int((forms == form).sum())} | {stage: shares[stage][row] for stage in stages}
            for row, form in enumerate(FORMS)
        ],
        chosen.out,
    )


def matches(written: hs.Generated, test: hs.Pairs) -> np.ndarray:
    """Which dates are right in every character."""
    return (written.values[:, 0] == test.targets.values).all(axis=1)


def share(right: np.ndarray) -> float:
    """The share of right answers; none of none."""
    return float(right.mean()) if len(right) else 0.0


def unseen(pairs: hs.Pairs, train: hs.Pairs) -> hs.Pairs:
    """The pairs whose text does not occur in training."""
    known = set(to_text(train.sources))
    return pairs[[i for i, text in enumerate(to_text(pairs.sources)) if text not in known]]


def form_of(text: str) -> str:
    """The form that a text is written in."""
    return next(form for form, pattern in FORMS.items() if re.fullmatch(pattern, text))


def examples(
    texts: list[str], answers: list[str], right: np.ndarray, sure: np.ndarray, forms: np.ndarray
) -> list[tuple[str, str, bool, float]]:
    """Some texts of each form with their translations, the wrong ones first among those there are."""
    chosen = [i for form in FORMS for i in np.flatnonzero(forms == form)[:SHOWN]]
    wrong = [int(i) for i in np.flatnonzero(~right) if i not in chosen][:SHOWN]
    return [(texts[i], answers[i], bool(right[i]), float(sure[i])) for i in chosen + wrong]


def draw(fit: hs.Fit, shares: dict[str, list[float]], lines: list[tuple[str, str, bool, float]], path: Path) -> None:
    """The held-out score over training, the share of right answers by form, and some answers."""
    seen = fit.history.drop_nulls("validation")
    with style.canvas(path, 9.5, 5.4) as figure:
        left, table = figure.subfigures(1, 2, width_ratios=[1, 1.1])
        curve, bars = left.subplots(2, 1, height_ratios=[1, 1.35])
        curve.plot(seen["step"], seen["validation"], color=style.MAIN)
        curve.set_yscale("log")
        curve.set(xlabel="updates", ylabel="nats per character", title="Held-out dates")
        style.grid(curve)
        places = np.arange(len(FORMS))[::-1]
        for (stage, found), colour, shift in zip(shares.items(), ("#c0c0c0", style.MAIN), (0.2, -0.2), strict=True):
            bars.barh(places + shift, found, color=colour, height=0.36, label=stage)
        bars.set_yticks(places, list(FORMS))
        bars.set(xlim=(0, 1.02), ylim=(-0.6, len(FORMS) + 1.1), title="Right in every character")
        bars.legend(loc="upper left", ncols=2, fontsize=8, borderpad=0, handlelength=1, columnspacing=1)
        style.grid(bars, "x")
        answers = table.subplots()
        answers.set_axis_off()
        answers.set(xlim=(0, 1), ylim=(len(lines) + 0.2, -0.6), title="Read, written, and how sure of it")
        for row, (text, answer, good, sure) in enumerate(lines):
            colour = style.INK if good else style.ACCENT
            answers.text(0.0, row, text, va="center", family="monospace", fontsize=9, color=colour)
            answers.text(0.64, row, answer, va="center", family="monospace", fontsize=9, color=colour)
            answers.text(1.0, row, f"{sure:.2f}", va="center", ha="right", fontsize=9, color=style.FAINT)


if __name__ == "__main__":
    main()
