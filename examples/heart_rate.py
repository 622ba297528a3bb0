"""Heart rate from an electrocardiogram: how much of the signal must a network see?

A network needs tens of milliseconds to see that a heart beats, but seconds to tell how often (Tripp 2023). Here GRUs of
the same size read the last 0.25 to 4 seconds of simulated recordings, 50 samples a second, and answer with the heart
rate at the end. At 50 to 110 beats a minute a beat lasts 0.55 to 1.2 seconds, so that only the longer windows are sure
to hold two.

Seen: who answers with the mean of all rates is off by 17 beats a minute. A quarter of a second of signal hardly helps
(16), half a second helps some (11); one second leaves 4.6, two 2.9 and four 2.3. Windows shorter than a beat hardly
ever hold two peaks; what they know must come from elsewhere, such as the distances between the waves of one beat, which
shrink at higher rates. The noise here is five times the task's default. With the default, networks made more of such
hints: half a second left 6, two seconds 3 (in a shorter run). With twice the noise here, four seconds left 10.
"""

from collections.abc import Sequence
from pathlib import Path

import jax.random as jr
import numpy as np
import optax
from common import report, settings

import hiddenstate as hs
from hiddenstate.report import style

RATE = 50.0
SECONDS = (0.25, 0.5, 1.0, 2.0, 4.0)
HEART_RATES = (50.0, 110.0)
SHOWN = (0.5, 4.0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train a network for each length of signal, and compare how far off they are."""
    chosen = settings(__file__, __doc__, arguments)
    task_key, model_key, fit_key = jr.split(chosen.key, 3)
    seconds = SHOWN if chosen.quick else SECONDS
    updates = 4 if chosen.quick else 400
    length = int(max(seconds) * RATE)
    task = hs.tasks.ecg(
        sequences=60 if chosen.quick else 6000,
        length=length,
        rate=RATE,
        heart_rate=HEART_RATES,
        noise=0.1,
        key=task_key,
    )
    method = hs.SGD(
        steps=updates,
        batch_size=64,
        learning_rate=optax.cosine_decay_schedule(1e-2, updates),
        evaluate_steps=max(1, updates // 8),
        patience=None,
    )
    answers, errors = {}, {}
    for context in seconds:
        signal = task.data.window(length - int(context * RATE), length)
        train, valid, test = hs.Pairs.of(signal, task.targets).split(0.7, 0.1)
        model = hs.build("gru", train, hidden=32, pooling="last", key=model_key)
        model = hs.fit(model, train, method, key=fit_key, validation=valid).model
        answers[context] = np.asarray(hs.predictive(model, test.sources).mean)
        truth = test.targets.values[:, 0]
        errors[context] = float(np.sqrt(np.mean((answers[context] - truth) ** 2)))
    baseline = float(np.std(truth))
    draw(task, errors, answers, truth, baseline, chosen.out / "heart_rate.png")
    rows = [{"signal": "none: the mean rate", "error (beats a minute)": baseline}]
    rows += [{"signal": f"{context:g} s", "error (beats a minute)": error} for context, error in errors.items()]
    report(rows, chosen.out)


def draw(
    task: hs.tasks.ECGTask,
    errors: dict[float, float],
    answers: dict[float, np.ndarray],
    truth: np.ndarray,
    baseline: float,
    path: Path,
) -> None:
    """A slow and a fast recording, the error by length of signal, and what two networks answer."""
    with style.canvas(path, 9, 6.6) as figure:
        places = figure.subplot_mosaic([["signal", "signal"], ["error", "answers"]], height_ratios=[1, 1.7])
        draw_signals(places["signal"], task)
        axes = places["error"]
        axes.axvspan(60 / HEART_RATES[1], 60 / HEART_RATES[0], color=style.FAINT, alpha=0.18, linewidth=0)
        axes.text(60 / np.sqrt(np.prod(HEART_RATES)), 0.6, "one\nbeat", color=style.FAINT, ha="center")
        axes.axhline(baseline, color=style.FAINT, linewidth=1, linestyle=(0, (4, 3)))
        axes.text(max(errors), baseline - 0.3, "the mean of all rates", color=style.FAINT, ha="right", va="top")
        axes.plot(list(errors), list(errors.values()), "o-", color=style.MAIN)
        axes.set_xscale("log", base=2)
        axes.set_xticks(list(errors), [f"{context:g}" for context in errors])
        axes.set_ylim(0, 1.08 * baseline)
        axes.set(xlabel="seconds of signal that the network sees", ylabel="error, beats a minute (root mean square)")
        axes.set_title("To tell the rate takes longer than a beat")
        style.grid(axes)
        axes = places["answers"]
        axes.plot(HEART_RATES, HEART_RATES, color=style.FAINT, linewidth=1)
        for context, colour in zip(SHOWN, (style.ACCENT, style.MAIN), strict=True):
            dots = truth[:300], answers[context][:300]
            axes.plot(*dots, ".", color=colour, markersize=4, alpha=0.7, label=f"{context:g} s")
        axes.set(xlabel="heart rate", ylabel="answer", title="What the networks answer", aspect="equal")
        axes.legend(markerscale=2, handletextpad=0)
        style.grid(axes, "both")


def draw_signals(axes, task: hs.tasks.ECGTask) -> None:
    """The slowest and the fastest of the first recordings."""
    rates = task.heart_rate[:50]
    times = np.arange(task.data.length) / task.rate
    for place, row, colour in ((2.2, rates.argmin(), style.COLOURS[2]), (0.0, rates.argmax(), style.COLOURS[3])):
        axes.plot(times, task.data[int(row)] + place, color=colour, linewidth=1)
        axes.text(times[-1] + 0.03, place, f"{rates[row]:.0f} a minute", color=colour)
    axes.set(xlabel="seconds", ylabel="millivolt, shifted", yticks=[], title="Two recordings")
    axes.set_xlim(0, times[-1])


if __name__ == "__main__":
    main()
