"""Symbols that nothing can predict."""

import jax.random as jr
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import Column, Schema, Sequences


def random_symbols(*, symbols: int, sequences: int, length: int, key: PRNGKeyArray) -> Sequences:
    """Sequences of symbols that are drawn independently, each as probable as any other."""
    drawn = np.asarray(jr.randint(key, (sequences, length), 0, symbols), np.int32)
    return Sequences.padded(drawn, schema=Schema((Column("symbol", "symbol", symbols),), scalar=True))
