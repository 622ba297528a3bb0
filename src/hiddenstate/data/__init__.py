"""Sequences from files, from small sets that come along, and from tasks whose answers are known."""

from hiddenstate.data import datasets, tasks
from hiddenstate.data.read import read
from hiddenstate.data.text import decode_symbols, to_text

__all__ = ["datasets", "decode_symbols", "read", "tasks", "to_text"]
