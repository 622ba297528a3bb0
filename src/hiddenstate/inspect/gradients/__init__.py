"""Gradients on their way back through time: what they are, how fast they fade, and what the state remembers."""

from hiddenstate.inspect.gradients.backpropagation import ThroughTime, through_time

__all__ = ["ThroughTime", "through_time"]
