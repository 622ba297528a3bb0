"""Sequences of symbols that end by a symbol of their own."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from numpyro.distributions import CategoricalLogits, Distribution

from hiddenstate._types import Array, Element, Num, Shaped, State
from hiddenstate.core import SequenceModel, Steps


class Begun(NamedTuple):
    """The state of a model, and whether it has seen anything yet."""

    state: State
    begun: Shaped[Array, ""]


class Ending(SequenceModel):
    """A model of symbols of which the last one, `stop`, ends a sequence; it never comes first."""

    model: SequenceModel
    stop: int = eqx.field(static=True)

    def __init__(self, model: SequenceModel, stop: int):
        self.model = model
        self.stop = stop
        self.inputs = model.inputs

    def initial(self) -> Begun:
        """The model's initial state, with nothing seen."""
        return self.begin(self.model.initial())

    def begin(self, state: State) -> Begun:
        """A state of the model as the first one."""
        return Begun(state, jnp.zeros((), bool))

    def prepare(self, x: Num[Array, ""], u: Num[Array, " inputs"] | None = None) -> Element:
        """The model's element."""
        return self.model.prepare(x, u)

    def step(self, state: Begun, element: Element) -> Begun:
        """The model's step."""
        return Begun(self.model.step(state.state, element), jnp.ones((), bool))

    def readout(self, state: Begun, u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The model's read-out, at the first step without the stop symbol."""
        return never_first(self.model.readout(state.state, u), self.stop, state.begun)


def never_first(distribution: Distribution, stop: int, begun: Shaped[Array, ""] | bool = False) -> CategoricalLogits:
    """A distribution over symbols; where nothing has begun, the stop symbol's share goes to the others."""
    symbols = jnp.arange(stop + 1)
    logits = jnp.asarray(distribution.log_prob(symbols))
    return CategoricalLogits(jnp.where((symbols == stop) & ~jnp.asarray(begun), -jnp.inf, logits), validate_args=False)


def with_stop(target: Steps, stop: int) -> Steps:
    """One target with the stop symbol behind its last real step; an empty one, which fills up a batch, stays empty."""
    count = real_steps(target)
    places = jnp.arange(target.length + 1)
    values = jnp.concatenate([target.values, jnp.zeros(1, target.values.dtype)])
    values = jnp.where(places == count, jnp.asarray(stop, values.dtype), values)
    if target.valid is None:
        return Steps(values)
    return Steps(jnp.where(count > 0, values, 0), valid=(places <= count) & (count > 0))


def real_steps(target: Steps) -> Shaped[Array, ""] | int:
    """How many steps of one target are real."""
    return target.length if target.valid is None else jnp.sum(target.valid)
