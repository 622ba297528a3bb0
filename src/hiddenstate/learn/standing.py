"""All that a run is at one moment: with this and its arguments it can go on."""

from dataclasses import dataclass, field

from hiddenstate.learn.minibatches import START, Place
from hiddenstate.learn.stopping import Stopping
from hiddenstate.learn.updates import Leaves


@dataclass(frozen=True)
class Verdict:
    """How a run ended."""

    converged: bool
    reason: str


@dataclass(frozen=True)
class Standing:
    """Where a run stands after an update; the next one makes a new one."""

    learned: Leaves
    measured: Leaves
    """The learned arrays at which the last finite loss was measured."""
    best: Leaves
    """Those that are returned if the run stops because nothing improves any more."""
    optimiser: Leaves
    carried: Leaves | None = None
    """The states at the end of the last chunk."""
    done: Place = START
    step: int = 0
    window: tuple[float, int] = (0.0, 0)
    """Summed loss and number of time steps since the last evaluation."""
    stopping: Stopping = field(default_factory=Stopping)
    verdict: Verdict | None = None
