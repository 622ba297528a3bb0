"""Models as dynamical systems: where their states settle, turn and stretch while the same is seen again and again."""

from hiddenstate.inspect.dynamics.compounding import Gains, gains
from hiddenstate.inspect.dynamics.currents import RateReading, rates
from hiddenstate.inspect.dynamics.cycles import LimitCycles, Orbit, limit_cycles
from hiddenstate.inspect.dynamics.fields import Flow, flow
from hiddenstate.inspect.dynamics.forgetting import TimeConstants, time_constants
from hiddenstate.inspect.dynamics.points import FixedPoints, fixed_points

__all__ = [
    "FixedPoints",
    "Flow",
    "Gains",
    "LimitCycles",
    "Orbit",
    "RateReading",
    "TimeConstants",
    "fixed_points",
    "flow",
    "gains",
    "limit_cycles",
    "rates",
    "time_constants",
]
