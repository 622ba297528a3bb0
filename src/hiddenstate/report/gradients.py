"""Charts of gradients on their way back through time: how they fade, spectra, cliffs, and what a state remembers."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import HiddenStateError, SequenceModel, Sequences, name_of
from hiddenstate.inference.observations import sequences_for
from hiddenstate.inspect import gradients
from hiddenstate.inspect.gradients import Decay, Landscape, Lyapunov, Memory, Spectra, Step
from hiddenstate.inspect.gradients.linearisation import moving_part
from hiddenstate.ops.vectors import entries
from hiddenstate.report.charts import Chart, Layer, Line, Points, Rule

_SEQUENCES, _STEPS = 4, 128  # of what is looked at for a page
_WORK = 1e8  # of all its Jacobians, as the cube of their size
_STARTS, _EXPONENTS = 8, 16
_LAGS = 20
_SHOWN = 4  # exponents whose course is drawn
_SMALLEST = -690.0  # the logarithm of the smallest number that an axis shows


def gradient_charts(model: SequenceModel, data: Any, *, key: PRNGKeyArray | None = None) -> list[Chart]:
    """What a page of one model shows of its gradients, from the first steps of a few sequences.

    At most 4 sequences of 128 steps are looked at, fewer where a state is large: the notes say how many. With a
    `key`, which chooses the sequences that are held out, there is also the memory of the state.
    """
    data = sequences_for(model, data)
    if not _size(model):
        raise HiddenStateError(f"{name_of(model)} has no state that gradients could go back through.")
    part = _beginning(model, data)
    if part.length < 3:
        return []
    seen = f"On the first {part.length} steps of {_count(len(part), 'sequence')}."
    charts = [
        decay_chart(
            {
                "between states": gradients.decay(model, part, starts=_STARTS),
                "of one step's loss": gradients.loss_decay(model, part),
            },
            note=seen,
        ),
        *spectrum_charts(gradients.jacobian_spectra(model, part), note=seen),
        *lyapunov_charts(gradients.lyapunov(model, part, min(_EXPONENTS, _size(model))), note=seen),
    ]
    if key is not None and (rows := _several(data)) is not None:
        lags = range(1, min(_LAGS, int(rows.lengths.min()) // 3) + 1)
        charts.append(memory_chart(gradients.memory(model, rows, lags, key=key)))
    return charts


def decay_chart(decays: Decay | Mapping[str, Decay], note: str = "") -> Chart:
    """Norms against lags on a logarithmic axis, with the fitted lines dashed; several decays by name."""
    named = {"": decays} if isinstance(decays, Decay) else decays
    layers: list[Layer] = []
    for colour, (name, one) in enumerate(named.items()):
        layers.append(Line(one.lags, _shown(one.log_norms), marks=True, name=name, colour=colour))
        late = one.lags[one.lags >= one.lags[-1] / 2]
        if one.rate > 0 and len(late) > 1 and np.isfinite(one.log_norms).all():
            middle = one.log_norms[one.lags >= one.lags[-1] / 2].mean()
            line = _shown(middle + np.log(one.rate) * (late - late.mean()))
            layers.append(Line(late, line, dashed=True, colour=colour, name=f"times {one.rate:.3g} a step"))
    said = " ".join([*(str(one) for one in named.values()), note]).strip()
    return Chart("How far gradients go back", "steps back", "norm", layers, y_scale="log", note=said)


def spectrum_charts(spectra: Spectra, note: str = "") -> list[Chart]:
    """Eigenvalues of all steps in the complex plane with the unit circle, and singular values over time."""
    sequence, step, _ = np.nonzero(~np.isnan(spectra.eigenvalues))
    values = spectra.eigenvalues[~np.isnan(spectra.eigenvalues)]
    angle = np.linspace(0, 2 * np.pi, 181)
    most = 1.1 * max(1.0, float(np.abs(values).max()))
    plane = Chart(
        "Eigenvalues of the Jacobians",
        "real part",
        "imaginary part",
        [
            Points(
                np.real(values),
                np.imag(values),
                values=step + 1,
                labels=[f"step {t + 1} of sequence {n + 1}" for n, t in zip(sequence, step, strict=True)],
            ),
            Line(np.cos(angle), np.sin(angle), colour="grey", dashed=True, name="modulus 1"),
        ],
        x_limits=(-most, most),
        y_limits=(-most, most),
        equal=True,
        note=f"Inside the circle a difference of states shrinks, outside it grows. Brighter is later. {note}".strip(),
    )
    inside = ~np.isnan(spectra.singular_values[..., 0])
    known = np.where(inside[..., None], spectra.singular_values, 0.0).sum(axis=0) / inside.sum(axis=0)[:, None]
    time = np.arange(1, len(known) + 1)
    lines = {"greatest": known[:, 0], "middle": np.median(known, axis=1), "least": known[:, -1]}
    shown = lines if known.shape[1] > 2 else {"greatest": known[:, 0]}
    over_time = Chart(
        "Singular values of the Jacobians",
        "step",
        "mean over sequences",
        [
            *(Line(time, line, name=name, colour=colour) for colour, (name, line) in enumerate(shown.items())),
            Rule(1.0, colour="grey"),
        ],
        note=f"By how much one step stretches a difference of states. {note}".strip(),
    )
    return [plane, over_time]


def lyapunov_charts(found: Lyapunov, note: str = "") -> list[Chart]:
    """Lyapunov exponents, and how the greatest settle."""
    finite = np.isfinite(found.exponents)
    places = np.arange(1, len(found.exponents) + 1)
    spectrum = Chart(
        "Lyapunov exponents",
        "number",
        "nats per step",
        [Points(places[finite], found.exponents[finite]), Rule(0.0, colour="grey")],
        note=(
            f"The greatest is {found.exponents[0]:.3g}: {found.verdict}. A difference of states is multiplied by "
            f"{np.exp(found.exponents[0]):.3g} a step. {note}"
        ).strip(),
    )
    counted = ~np.isnan(found.running[..., 0])
    sums = np.where(counted[..., None], found.running, 0.0).sum(axis=0)
    steps = np.flatnonzero(counted.any(axis=0))
    course = sums[steps] / counted.sum(axis=0)[steps, None]
    lines = [
        Line(steps + 1, np.where(np.isfinite(course[:, k]), course[:, k], np.nan), name=f"exponent {k + 1}", colour=k)
        for k in range(min(_SHOWN, course.shape[1]))
        if np.isfinite(course[:, k]).any()
    ]
    settling = Chart(
        "How the exponents settle",
        "steps so far",
        "mean, nats per step",
        [*lines, Rule(0.0, colour="grey")],
        note=f"The mean of all steps so far, from step {found.skipped + 1} on.",
    )
    return [spectrum, settling] if lines else [spectrum]


def landscape_charts(line: Landscape, step: Step | None = None, at: float | None = None) -> list[Chart]:
    """The loss and the norm of its gradient along a line, with its cliff, and where a step from there ends.

    `step` is what `step_at` gives along the same line, from the place `at`, by default the cliff.
    """
    start = line.cliff if at is None else at
    layers: list[Layer] = [Line(line.distances, _finite(line.losses), name="loss")]
    said = f"Steepest at {line.cliff:.3g}."
    if step is not None:
        layers.append(Points([start], [step.loss], name="before the step", colour="ink"))
        for colour, (name, end) in enumerate((("plain step", step.plain), ("clipped step", step.clipped)), 1):
            place = start + end.distance
            said += f" A {name} ends at {place:.3g} with a loss of {end.loss:.3g}."
            if line.distances.min() <= place <= line.distances.max():
                layers.append(
                    Line([start, place], [step.loss, end.loss], name=name, colour=colour, marks=True, dashed=True)
                )
    steep = Chart(
        "How steep it is",
        "distance along the line",
        "norm of the gradient",
        [Line(line.distances, _finite(line.gradient_norms)), Rule(line.cliff, "x", colour="grey", name="cliff")],
        y_scale="log" if (_finite(line.gradient_norms) > 0).any() else "linear",
    )
    return [Chart("The loss along a line", "distance along the line", "nats per step", layers, note=said), steep]


def memory_chart(found: Memory) -> Chart:
    """How much the state knows of each earlier observation."""
    title, x = "What the state remembers", "steps before"
    note = f"On {_count(found.steps, 'step')} of sequences that were held out."
    if found.bits is not None:
        layers = [Line(found.lags, found.bits, marks=True), Rule(0.0, colour="grey")]
        return Chart(title, x, "bits of the symbol", layers, note=note)
    return Chart(
        title,
        x,
        "share of the variance",
        [Line(found.lags, _finite(found.r_squared), marks=True), Rule(0.0, colour="grey"), Rule(1.0, colour="grey")],
        note=note,
    )


def _beginning(model: SequenceModel, data: Sequences) -> Sequences:
    """The first steps of the longest few sequences: no more Jacobians than a page can wait for."""
    room = max(8, int(_WORK / _size(model) ** 3))
    longest = np.sort(np.argsort(-data.lengths, kind="stable")[: min(_SEQUENCES, room // 8)])
    return data.select(longest).window(0, min(_STEPS, room // len(longest)))


def _size(model: SequenceModel) -> int:
    return entries(moving_part(jax.eval_shape(model.initial)))


def _several(data: Sequences) -> Sequences | None:
    """Sequences of which some can be held out, cut from one where there is only one; None where it is too short."""
    if data.has_missing:
        return None
    rows = data if len(data) > 1 else data.pieces(max(10, data.length // 8))
    long = np.flatnonzero(rows.lengths >= 10)
    return rows.select(long[:64]) if len(long) > 1 else None


def _shown(log_norms: np.ndarray) -> np.ndarray:
    return np.exp(np.where(log_norms > _SMALLEST, log_norms, np.nan))


def _finite(values: Any) -> np.ndarray:
    values = np.asarray(values, float)
    return np.where(np.isfinite(values), values, np.nan)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")
