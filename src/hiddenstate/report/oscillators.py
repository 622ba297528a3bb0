"""A signal that shows one of two processes at a time: the switch and both processes, found and true."""

from pathlib import Path

import numpy as np

from hiddenstate.report import style


def plot_oscillators(
    path: str | Path,
    *,
    signal: np.ndarray,
    switch: np.ndarray,
    probability: np.ndarray,
    chains: np.ndarray,
    truth: np.ndarray,
) -> None:
    """Draw a signal, the probability that the second chain is seen over the true switch, and each chain over the truth.

    `chains` and `truth` are (time, chain). Bands mark the steps at which a chain is the one that is seen.
    """
    steps = np.arange(1, len(signal) + 1)
    with style.canvas(path, 7.2, 6.0) as figure:
        panels = figure.subplots(2 + chains.shape[1], 1, sharex=True, squeeze=False)[:, 0]
        panels[0].plot(steps, signal, color=style.INK, linewidth=0.9)
        panels[0].set_title("what is seen")
        panels[1].fill_between(steps, 0, switch, step="mid", color=style.FAINT, alpha=0.3, linewidth=0)
        panels[1].plot(steps, probability, color=style.MAIN)
        panels[1].set(title="probability that it is the second oscillator (grey: it is)", ylim=(-0.04, 1.04))
        for k, axes in enumerate(panels[2:]):
            low = min(chains[:, k].min(), truth[:, k].min())
            high = max(chains[:, k].max(), truth[:, k].max())
            axes.fill_between(
                steps, low, high, where=(switch == k).tolist(), step="mid", color=style.FAINT, alpha=0.15, linewidth=0
            )
            axes.plot(steps, truth[:, k], color=style.FAINT, linewidth=1.0, label="true")
            axes.plot(steps, chains[:, k], color=style.COLOURS[k], label="found")
            axes.set_title(f"{('first', 'second', 'third', 'fourth')[k % 4]} oscillator (band: it is seen)")
            axes.legend(loc="upper right", ncols=2)
        panels[-1].set_xlabel("step")
