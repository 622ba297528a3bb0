"""No step waits for another: for recurrences that remember nothing but their last observation."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Element, Shaped, State
from hiddenstate.core import Recurrence, StrategyError, has, name_of
from hiddenstate.strategies.strategy import Strategy, Unrolled


@dataclass(frozen=True)
class Independent(Strategy):
    """Every state from its own observation: the compiled program has no loop and no scan over time."""

    def check(self, recurrence: Recurrence) -> None:
        """Only a recurrence with `state_after`, or one all of whose layers have it, can be run this way."""
        if has(recurrence, "layers"):
            for layer in recurrence.layers():  # pyright: ignore[reportAttributeAccessIssue]
                self.check(layer)
            return
        if not has(recurrence, "state_after"):
            raise StrategyError(
                f"Independent needs a recurrence that remembers its last observation only; {name_of(recurrence)} has "
                "no `state_after`. Use Sequential() or Auto()."
            )

    def run(
        self, recurrence: Recurrence, state: State, elements: Element, valid: Shaped[Array, " time"] | None
    ) -> Unrolled:
        """The states after all steps, shifted by one."""
        later = jax.vmap(recurrence.state_after)(elements)  # pyright: ignore[reportAttributeAccessIssue]
        return shifted(state, later, valid)


def shifted(state: State, later: State, valid: Shaped[Array, " time"] | None) -> Unrolled:
    """From the first state and those after each step to those before each step; behind the end the last one stays."""
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest[:-1]]), state, later)
    if valid is None:
        return Unrolled(states, jax.tree.map(lambda a: a[-1], later))
    count = jnp.sum(valid)
    everything = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), state, later)
    final = jax.tree.map(lambda a: a[count], everything)

    def hold(a, last):
        inside = valid.reshape(valid.shape + (1,) * (a.ndim - 1))
        return jnp.where(inside, a, last)

    return Unrolled(jax.tree.map(hold, states, final), final)
