"""What the tests of all kernels share: on which instruction sets they run, and how results are compared."""

import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import hiddenstate as hs
from marks import quick

needs_kernels = pytest.mark.skipif(not hs.native.available(), reason=hs.native.available().reason)

SETS = hs.native.instruction_sets() or ("none",)

each_instruction_set = pytest.mark.parametrize("instructions", quick(dict.fromkeys((SETS[0], SETS[-1], *SETS)), 2))
"""The first that every machine has and the one that is chosen by itself; those between are for `make test-slow`."""

EXAMPLES = int(os.environ.get("HIDDENSTATE_EXAMPLES", "8"))
"""How many random shapes a test tries: fewer where a slower build of the kernels is tested."""

TOLERANCE = {"float32": 3e-5, "float64": 1e-11}
"""Relative to the largest entry: rounding of a few hundred operations, with room for another order of sums."""


def assert_close(found: Any, expected: Any, room: float = 1) -> None:
    """Leaves that are equal to the rounding of the precision that was found, relative to the largest entry.

    `room` is by how much what is computed may multiply rounding errors.
    """
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape
        if str(a.dtype) not in TOLERANCE:
            np.testing.assert_array_equal(a, b)
            continue
        scale = 1 + np.abs(b[np.isfinite(b)]).max(initial=0)
        np.testing.assert_allclose(a, b, rtol=0, atol=room * TOLERANCE.get(str(a.dtype), 0) * scale)


def assert_threads_agree(run: Callable[[], Any], instructions: str) -> Any:
    """The result, which is the same with one thread and with two, bit for bit."""
    with hs.native.limited(instructions=instructions, threads=1):
        one = jax.tree.map(np.asarray, run())
    with hs.native.limited(instructions=instructions, threads=2):
        two = jax.tree.map(np.asarray, run())
    jax.tree.map(np.testing.assert_array_equal, one, two)
    return one


def slopes(run: Callable[..., Any], weights: Any, *arguments: Any) -> Any:
    """What `run` gives, and the gradient of its sum under random weights with respect to all arguments."""

    def total(*arguments):
        out = run(*arguments)
        return sum(
            (jax.numpy.asarray(w, a.dtype) * a).sum() for w, a in zip(weights, jax.tree.leaves(out), strict=True)
        )

    return jax.jit(run)(*arguments), jax.jit(jax.grad(total, tuple(range(len(arguments)))))(*arguments)
