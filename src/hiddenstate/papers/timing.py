"""Seconds on a machine that others use too: contenders take turns, and the least of several turns counts."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np


def least_seconds(works: Mapping[str, Callable[[], Any]], *, repeats: int) -> dict[str, float]:
    """The least time that each piece of work took in so many turns, after a first one that compiles it.

    What others do on the machine makes work slower and never faster, and by turns it slows all contenders alike: so
    the least times can be compared where their means cannot.
    """
    for work in works.values():
        jax.block_until_ready(work())
    least = dict.fromkeys(works, float("inf"))
    for _ in range(repeats):
        for name, work in works.items():
            began = time.perf_counter()
            jax.block_until_ready(work())
            least[name] = min(least[name], time.perf_counter() - began)
    return least


def exponent(sizes: Sequence[float], amounts: Sequence[float]) -> float:
    """The power of the size that an amount grows with: the slope of a straight line through both logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(amounts), 1)[0])
