"""One step of a model as compiled functions that are held, so that a call looks at nothing of the model again."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from numpyro.distributions import Distribution

from hiddenstate._types import State
from hiddenstate.core import ConditionalModel
from hiddenstate.inference.batches import rebatch
from hiddenstate.inference.score import step_log_prob


class Static:
    """The parts of a model that are no arrays, hashed by their structure."""

    def __init__(self, static: Any, inputs: int):
        self.static, self.inputs = static, inputs
        leaves, tree = jax.tree.flatten(static)
        self.signature = (tuple(leaves), tree, inputs)

    def __hash__(self) -> int:
        return hash(self.signature)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self.signature == other.signature


class Pushed(NamedTuple):
    """What an observation brings: the arrays of the next state, the log-probability, and those of the prediction."""

    leaves: list[Any]
    log_prob: Any
    prediction: list[Any] | None


class Stepper:
    """Steps of a model, for one stream or for as many as `streams` says, which all move at once.

    States and predictions are lists of arrays; `state` and `distribution` make of them what they stand for. Several
    streams have one leading axis.
    """

    def __init__(self, model: Any, streams: int | None):
        arrays, static = eqx.partition(model, eqx.is_array)
        answers: bool = isinstance(model, ConditionalModel)
        begin: Any = model.begin if answers else model.initial  # pyright: ignore[reportAttributeAccessIssue]
        leaves, self._tree = jax.tree.flatten(begin())
        self.shapes = [jnp.shape(leaf) for leaf in leaves]
        if streams is not None:
            leaves = [jnp.broadcast_to(leaf, (streams, *jnp.shape(leaf))) for leaf in leaves]
        self.begin = leaves
        self._streams = streams
        self._arrays, tree = jax.tree.flatten(arrays)
        kinds = tuple((jnp.shape(array), jnp.result_type(array)) for array in self._arrays)
        self._programs = _held(tree, kinds, Static(static, model.inputs), self._tree, answers, streams)

    def state(self, leaves: Any) -> State:
        """The state that is made of these arrays."""
        return jax.tree.unflatten(self._tree, leaves)

    def push(self, leaves: Any, x: Any, u: Any, observed: Any, next_u: Any, predict: bool) -> Pushed:
        """The step of one observation, and with `predict` what is expected next."""
        run = self._programs.push if predict else self._programs.advance
        return Pushed(*run(self._arrays, leaves, x, u, observed, next_u))

    def read(self, leaves: Any, u: Any) -> Distribution:
        """The distribution of the next observation, or of the answer."""
        return self.distribution(self._programs.read(self._arrays, leaves, u))

    @property
    def family(self) -> type[Distribution]:
        """The class of the distributions, once there was one."""
        return self._programs.shape.family

    def distribution(self, prediction: list[Any]) -> Distribution:
        """The distribution that is made of these arrays."""
        made = self._programs.shape.made(prediction)
        return made if self._streams is None else rebatch(made, (self._streams,))


class _Shape:
    """How a distribution is made of its arrays, known as soon as a function that gives them was traced."""

    family: type[Distribution]

    def taken(self, distribution: Distribution) -> list[Any]:
        """The arrays of a distribution; the rest is kept here."""
        self.family = type(distribution)
        leaves, self._tree = jax.tree.flatten(distribution)
        self._others = [None if eqx.is_array(leaf) else leaf for leaf in leaves]
        self._is_array = [eqx.is_array(leaf) for leaf in leaves]
        return [leaf for leaf in leaves if eqx.is_array(leaf)]

    def made(self, arrays: list[Any]) -> Distribution:
        """The distribution of these arrays."""
        left = iter(arrays)
        leaves = [
            next(left) if is_array else other for is_array, other in zip(self._is_array, self._others, strict=True)
        ]
        return jax.tree.unflatten(self._tree, leaves)


class _Programs(NamedTuple):
    push: Callable[..., Any]
    advance: Callable[..., Any]
    read: Callable[..., Any]
    shape: _Shape


def _held(tree: Any, kinds: tuple, static: Static, state_tree: Any, answers: bool, streams: int | None) -> _Programs:
    """The functions of all models that differ in their numbers only, not in how many there are (their `kinds`)."""
    try:
        return _cached(tree, kinds, static, state_tree, answers, streams)
    except TypeError:  # a part of the model that is no array and has no hash
        return _programs(tree, static, state_tree, answers, streams)


@lru_cache(maxsize=64)
def _cached(tree: Any, kinds: tuple, static: Static, state_tree: Any, answers: bool, streams: int | None) -> _Programs:
    del kinds  # a prediction may be made of as many arrays, but of another form
    return _programs(tree, static, state_tree, answers, streams)


def _programs(tree: Any, static: Static, state_tree: Any, answers: bool, streams: int | None) -> _Programs:
    shape = _Shape()

    def model_of(arrays: Any) -> Any:
        return eqx.combine(jax.tree.unflatten(tree, arrays), static.static)

    def read(arrays: Any, leaves: Any, u: Any) -> Any:
        model, state = model_of(arrays), jax.tree.unflatten(state_tree, leaves)
        return shape.taken(model.answer(state) if answers else model.readout(state, u))

    def advance(arrays: Any, leaves: Any, x: Any, u: Any, observed: Any, next_u: Any) -> Any:
        del next_u
        model, state = model_of(arrays), jax.tree.unflatten(state_tree, leaves)
        if answers:
            return jax.tree.leaves(model.read_one(state, x, u)), None, None
        element = model.prepare(x, u) if observed is None else model.prepare_partial(x, u, observed)
        log_prob = step_log_prob(model, state, element, x, u)
        return jax.tree.leaves(model.step(state, element)), log_prob, None

    def push(arrays: Any, leaves: Any, x: Any, u: Any, observed: Any, next_u: Any) -> Any:
        after, log_prob, _ = advance(arrays, leaves, x, u, observed, None)
        return after, log_prob, read(arrays, after, next_u)

    def compiled(function: Callable[..., Any], mapped: int) -> Callable[..., Any]:
        return jax.jit(function if streams is None else jax.vmap(function, (None, *[0] * mapped)))

    return _Programs(compiled(push, 5), compiled(advance, 5), compiled(read, 2), shape)
