"""Compiled kernels, which run recurrences on a CPU by themselves: `available` says whether they are there."""

from hiddenstate.native.library import Availability, available, instruction_set, instruction_sets, limited

__all__ = ["Availability", "available", "instruction_set", "instruction_sets", "limited"]
