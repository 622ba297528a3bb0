"""Models as dynamical systems: where their states settle, turn and stretch while the same is seen again and again."""

from hiddenstate.inspect.dynamics.fixed_points import FixedPoints, fixed_points

__all__ = ["FixedPoints", "fixed_points"]
