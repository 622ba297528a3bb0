"""What Tripp's lecture slides say of memory, gains, cliffs and feedback, tried on small tasks."""

from dataclasses import dataclass
from typing import Any

import jax.random as jr

from hiddenstate._types import PRNGKeyArray
from hiddenstate.papers.compounding import cliffs, descents, norms
from hiddenstate.papers.feedback import FEEDBACK, feedback, own_past, side_by_side
from hiddenstate.papers.paper import Notebook, Tables
from hiddenstate.papers.recall import KEEPING, WAITING, keeping, waiting
from hiddenstate.papers.tripp_claims import claims, plot

TITLE = "Long context, gates, cliffs and teacher forcing"
SOURCE = "Tripp's lecture slides, 2023"

__all__ = ["FULL", "QUICK", "SOURCE", "TITLE", "Config", "claims", "plot", "run"]

WAYS = ("teacher forcing", "scheduled sampling")


@dataclass(frozen=True)
class Config:
    """Recall is learned from `sequences` by `steps` updates from `seeds` beginnings, after each of `delays`.

    `networks` networks whose recurrent weights are `gain` times orthogonal descend for `updates`, over `wave_length`
    steps. `pendulums` are learned by `swing_updates`, `seen` steps long, and run freely for `ahead`.
    """

    delays: tuple[int, ...]
    keep_length: int
    sequences: int
    steps: int
    seeds: int
    gains: tuple[float, ...]
    gain_steps: int
    networks: int
    gain: float
    wave_length: int
    updates: int
    rate: float
    clip: float
    cycle_length: int
    cycle_steps: int
    pendulums: int
    seen: int
    ahead: int
    swing_updates: int


QUICK = Config(
    delays=(60,),
    keep_length=30,
    sequences=400,
    steps=250,
    seeds=4,
    gains=(0.8, 0.95, 1.05, 1.25),
    gain_steps=30,
    networks=8,
    gain=2.0,
    wave_length=30,
    updates=100,
    rate=0.1,
    clip=1.0,
    cycle_length=12,
    cycle_steps=200,
    pendulums=150,
    seen=20,
    ahead=40,
    swing_updates=300,
)
FULL = Config(
    delays=(10, 20, 40, 80),
    keep_length=60,
    sequences=1000,
    steps=600,
    seeds=5,
    gains=(0.8, 0.9, 0.95, 1.05, 1.1, 1.25),
    gain_steps=50,
    networks=50,
    gain=2.0,
    wave_length=30,
    updates=300,
    rate=0.1,
    clip=1.0,
    cycle_length=20,
    cycle_steps=600,
    pendulums=300,
    seen=40,
    ahead=80,
    swing_updates=500,
)


def run(config: Config, notebook: Notebook, *, key: PRNGKeyArray) -> Tables:
    """Recall and keeping by each network, norms, cliffs and descents, feedback, and networks on their own past."""
    notebook.expect(len(WAITING) * len(config.delays) + len(KEEPING) + len(FEEDBACK) + len(WAYS) + 4)
    wait_key, keep_key, norm_key, cliff_key, feedback_key, past_key = jr.split(key, 6)
    learn: dict[str, Any] = {"sequences": config.sequences, "steps": config.steps, "seeds": config.seeds}
    swing: dict[str, Any] = {
        "count": config.pendulums,
        "seen": config.seen,
        "ahead": config.ahead,
        "updates": config.swing_updates,
        "seeds": config.seeds,
    }
    steep = config.rate, config.clip, config.gain

    def every(names: Any, label: str, work: Any) -> list[dict[str, Any]]:
        return [row for name in names for row in notebook.part(f"{label}: {name}", lambda name=name: work(name))]

    waited = [
        row
        for delay in config.delays
        for row in every(
            WAITING, f"recall after {delay}", lambda name, delay=delay: waiting(name, delay, key=wait_key, **learn)
        )
    ]
    at_cliffs = notebook.part(
        "a step at a cliff", lambda: cliffs(config.networks, config.wave_length, *steep, cliff_key)
    )
    return {
        "waiting": waited,
        "keeping": every(KEEPING, "keep and drop", lambda n: keeping(n, config.keep_length, key=keep_key, **learn)),
        "norms": notebook.part("repeated gains", lambda: norms(config.gains, config.gain_steps, norm_key)),
        **at_cliffs,
        "descents": notebook.part(
            "descents with and without clipping",
            lambda: descents(config.networks, config.wave_length, config.updates, *steep, cliff_key),
        ),
        "feedback": every(
            FEEDBACK,
            "feedback",
            lambda n: feedback(n, config.cycle_length, steps=config.cycle_steps, seeds=config.seeds, key=feedback_key),
        ),
        "at_once": notebook.part("all steps at once", lambda: side_by_side(config.cycle_length, feedback_key)),
        "own_past": every(WAYS, "free running", lambda way: own_past(way, key=past_key, **swing)),
    }
