"""Heads: from a cell's output to a distribution over the next observation, one file a family."""

from hiddenstate.heads.categorical import Categorical
from hiddenstate.heads.head import Head

__all__ = ["Categorical", "Head"]
