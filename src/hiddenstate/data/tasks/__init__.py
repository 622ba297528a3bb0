"""Synthetic tasks whose best possible answer is known."""

from hiddenstate.data.tasks.hmm import HMMTask, Optimal, hmm

__all__ = ["HMMTask", "Optimal", "hmm"]
