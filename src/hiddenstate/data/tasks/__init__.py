"""Synthetic tasks whose best possible answer is known."""

from hiddenstate.data.tasks.clock import ClockOptimal, ClockTask, clock
from hiddenstate.data.tasks.ecg import ECGTask, ecg
from hiddenstate.data.tasks.hmm import HMMTask, Optimal, hmm
from hiddenstate.data.tasks.labelled import LabelledTask
from hiddenstate.data.tasks.memory import adding, copying, parity, selective_copying
from hiddenstate.data.tasks.modes import ModesTask, modes
from hiddenstate.data.tasks.reviews import reviews
from hiddenstate.data.tasks.translation import dates, reversing

__all__ = [
    "ClockOptimal",
    "ClockTask",
    "ECGTask",
    "HMMTask",
    "LabelledTask",
    "ModesTask",
    "Optimal",
    "adding",
    "clock",
    "copying",
    "dates",
    "ecg",
    "hmm",
    "modes",
    "parity",
    "reversing",
    "reviews",
    "selective_copying",
]
