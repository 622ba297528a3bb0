"""Adam with what is usually wished for around it: a learning rate that rises and falls, and weights that decay."""

from functools import lru_cache
from typing import Any

import jax
import optax

Rate = float | optax.Schedule


@lru_cache(maxsize=64)
def adam(rate: Rate, weight_decay: float, decayed: tuple[bool, ...]) -> optax.GradientTransformation:
    """Adam, with decay of the learned arrays that are marked (Loshchilov and Hutter 2019).

    The same object for the same settings, so that runs share compiled updates.
    """
    if not weight_decay:
        return optax.adam(rate)

    def mask(parameters: Any) -> Any:
        return jax.tree.unflatten(jax.tree.structure(parameters), decayed)

    return optax.adamw(rate, weight_decay=weight_decay, mask=mask)


@lru_cache(maxsize=64)
def rising_and_falling(rate: float, warmup: int, updates: int | None) -> Rate:
    """A rate that rises in a straight line for `warmup` updates, and falls as a cosine to zero at `updates`, if given.

    The first update has 1 / `warmup` of the rate, so that none is lost.
    """
    if not warmup:
        return rate if updates is None else optax.cosine_decay_schedule(rate, updates)
    rise = optax.linear_schedule(rate / warmup, rate, max(1, warmup - 1))
    then = optax.constant_schedule(rate)
    if updates is not None:
        then = optax.cosine_decay_schedule(rate, max(1, updates - warmup))
    return optax.join_schedules([rise, then], [warmup])


def decayed_arrays(model: Any, learned: Any) -> tuple[bool, ...]:
    """Which learned arrays decay: those of two or more axes that are no initial state."""
    start = model.initial() if callable(getattr(model, "initial", None)) else None
    starts = {id(leaf) for leaf in jax.tree.leaves(start)}
    return tuple(leaf.ndim >= 2 and id(leaf) not in starts for leaf in jax.tree.leaves(learned))
