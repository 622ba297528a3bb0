"""What is measured, one file a family: each has `cases(scale)`."""

from functools import lru_cache
from importlib import import_module

from peers.case import Case, Scale

FAMILIES = ("hmm", "kalman", "particle", "recurrent", "minimal", "streaming", "jobs", "shell", "scaling")

WORKLOADS = {
    "hmm": "hidden Markov models: log-likelihood, gradient, E-step, Viterbi",
    "kalman": "linear Gaussian filter and smoother, and gradient",
    "particle": "bootstrap particle filter",
    "lstm": "LSTM layer, forward and backward",
    "gru": "GRU layer, forward and backward",
    "vanilla": "vanilla recurrent layer, forward and backward",
    "mingru": "minGRU layer, forward + backward",
    "minlstm": "minLSTM layer, forward + backward",
    "streaming": "one observation at a time",
    "jobs": "whole jobs: EM from several starts, an epoch of an LSTM",
    "shell": "from the shell to the first result",
    "scaling": "time against states, steps, units and sequences, for plots",
    "memory": "peak memory of some of these, each in a process of its own",
}


@lru_cache(maxsize=4)
def all_cases(scale: Scale) -> tuple[Case, ...]:
    """Every case of a scale, those of one workload together."""
    return tuple(case for family in FAMILIES for case in import_module(f"peers.workloads.{family}").cases(scale))


def workload_of(case: Case) -> str:
    """What --only knows it by."""
    return "scaling" if case.scaling else case.workload


def find(key: str, scale: Scale) -> Case:
    """The case with that key."""
    return next(case for case in all_cases(scale) if case.key == key)
