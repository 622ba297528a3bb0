"""What the machine can at most, measured in the same run: multiply-adds of a matrix product, and bytes of a sum."""

import time
from collections.abc import Callable
from typing import Any

SIDE = 1_536
NUMBERS = 2**25
"""Of each array in the sum: far more than caches hold."""


def measure() -> dict[str, float]:
    """Multiply-adds a second in the precision of this process, and bytes a second."""
    import jax
    import jax.numpy as jnp
    import jax.random as jr

    precision = jnp.float64 if jax.config.read("jax_enable_x64") else jnp.float32
    a = jr.normal(jr.key(0), (SIDE, SIDE), precision)
    product = jax.jit(jnp.matmul)
    c = jnp.ones(NUMBERS, jnp.float32)
    add = jax.jit(lambda b, c: 0.5 * b + c, donate_argnums=0)  # in place: new memory would have to be cleared first
    sums = [jnp.ones(NUMBERS, jnp.float32)]

    def add_once():
        sums.append(add(sums.pop(), c))
        return sums[0]

    return {
        "multiply_adds": SIDE**3 / _best(lambda: product(a, a)),
        "bytes": 3 * c.nbytes / _best(add_once),
    }


def _best(function: Callable[[], Any], repeats: int = 12) -> float:
    import jax

    jax.block_until_ready(function())
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(function())
        taken.append(time.perf_counter() - began)
    return min(taken)
