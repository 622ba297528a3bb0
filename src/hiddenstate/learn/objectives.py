r"""What an update of `SGD` makes more probable: each observation given the true past, or given a past that is partly
the model's own.

With :math:`\tilde x_t` for what the model is fed at step t, all of them maximise

.. math::

    \sum_t \log p(x_t \mid \tilde x_1 \ldots \tilde x_{t-1})

and differ in :math:`\tilde x`: the truth (`TeacherForcing`), by chance the truth or the model's own draw
(`ScheduledSampling`), the model's own output over stretches of k steps (`FreeRunning`). The first is the
log-probability of the data. The other two teach a model to find its way back from its own mistakes, and are no
log-probability: what they reach is judged by how a model fares on its own.

`Bound` is for models whose hidden states are random, such as an `hs.RNN` of an `hs.cells.Noisy`: a lower bound on the
log-probability. `elbo`, `iwae` and `fivo` give the bounds themselves.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from hiddenstate._types import Array, Element, Float, PRNGKeyArray, Shaped, State
from hiddenstate.core import (
    Arrays,
    HiddenStateError,
    PairArrays,
    SequenceModel,
    Steps,
    dtype_of,
    has,
    name_of,
    with_noise,
)
from hiddenstate.inference import masked_log_probs, steps_of
from hiddenstate.inference.score import step_log_prob
from hiddenstate.learn.bounds import bound_log_probs, check_samples, elbo, filter_for, fivo, iwae
from hiddenstate.learn.chance import Chance
from hiddenstate.learn.digest import digest_of
from hiddenstate.learn.minibatches import counting
from hiddenstate.learn.schedules import Schedule, constant
from hiddenstate.strategies import Auto, Sequential, Strategy, over_time
from hiddenstate.strategies.strategy import prepared

__all__ = ["Bound", "FreeRunning", "Objective", "ScheduledSampling", "TeacherForcing", "elbo", "fivo", "iwae"]


class Objective(ABC):
    """What an update makes more probable. Its instances are settings: small, frozen and hashable."""

    draws: ClassVar[bool] = False
    """Whether it draws random numbers."""

    @property
    def steady(self) -> bool:
        """Whether it is the same at every update, so that losses early and late in a run compare."""
        return True

    def check(self, model: Any, strategy: Strategy) -> None:
        """Raise HiddenStateError if `model` cannot be learned this way, or not by that strategy."""

    def first_state(self, model: Any) -> State:
        """The state that a sequence starts with, in the form that is carried from chunk to chunk."""
        return model.initial() if has(model, "initial") else None

    @abstractmethod
    def log_probs(
        self, model: Any, arrays: Arrays | PairArrays, strategy: Strategy, state: State, chance: Chance
    ) -> tuple[Float[Array, "sequence time"], State]:
        """The log-probability of every step that counts, zero at the others, and the states after the last.

        It runs from the states given, or from the initial one.
        """

    def mark(self) -> str:
        """What it is, in words that are the same in any process."""
        said = [f"{f.name}={_mark(getattr(self, f.name))}" for f in fields(self)]  # pyright: ignore[reportArgumentType]
        return f"{type(self).__name__}({', '.join(said)})"


@dataclass(frozen=True)
class TeacherForcing(Objective):
    """Every observation is predicted from the true past: the log-probability of the data, and the default.

    No step waits for a draw, so that models that can run in parallel over time learn in parallel too.
    """

    def log_probs(
        self, model: Any, arrays: Arrays | PairArrays, strategy: Strategy, state: State, chance: Chance
    ) -> tuple[Float[Array, "sequence time"], State]:
        """The log-probabilities of the data."""
        return masked_log_probs(model, arrays, strategy, state, chance.noise)


@dataclass(frozen=True)
class Bound(Objective):
    """A lower bound on the log-probability, for models whose hidden states are random: with new draws at every update.

    One particle is the evidence lower bound, more of them the importance-weighted one, and with a `threshold` above 0,
    at which they are resampled, the filtering bound: see `elbo`, `iwae` and `fivo`. It is the mean of `samples` of
    them. The inference model is q = p. For another one, learned with the model, let an `hs.ParticleFilter` have it as
    its proposal, and learn that filter; its particles and threshold are then the bound's.

    Validation data are judged by their log-probability unless ``hs.SGD(validate="objective")`` says otherwise, as it
    must for a model that has none.
    """

    particles: int | None = None
    threshold: float | None = None
    samples: int = 1

    draws: ClassVar[bool] = True

    def __post_init__(self):
        check_samples(self.samples)

    def check(self, model: Any, strategy: Strategy) -> None:
        """It takes a model of hidden states, or a particle filter."""
        filter_for(model, self.particles, self.threshold)

    def first_state(self, model: Any) -> State:
        """The states of the filters, one for each sample."""
        first = filter_for(model, self.particles, self.threshold).initial()
        return jax.tree.map(lambda a: jnp.broadcast_to(a, (self.samples, *a.shape)), first)

    def log_probs(
        self, model: Any, arrays: Arrays | PairArrays, strategy: Strategy, state: State, chance: Chance
    ) -> tuple[Float[Array, "sequence time"], State]:
        """What every step adds to the bound."""
        assert isinstance(arrays, Arrays)
        filter = filter_for(model, self.particles, self.threshold)
        return bound_log_probs(filter, arrays, strategy, state, chance.draws, self.samples, chance.noise)


class _OwnPast(Objective):
    """Objectives that feed a model its own output: for models of sequences, and for those that write answers."""

    draws: ClassVar[bool] = True

    @abstractmethod
    def one(
        self,
        model: SequenceModel,
        state: State,
        steps: Steps,
        given: Shaped[Array, " time"],
        strategy: Strategy,
        key: PRNGKeyArray,
        update: Array,
    ) -> tuple[Float[Array, " time"], State]:
        """The log-probabilities of one sequence, which is fed the truth where `given`, and the state after it."""

    def check(self, model: Any, strategy: Strategy) -> None:
        """It takes a model that predicts each step from those before."""
        if not isinstance(model, SequenceModel) and not has(model, "decoder_start"):
            raise HiddenStateError(
                f"objective is {type(self).__name__}, but the answers of {name_of(model)} do not depend on each other: "
                "there is nothing of its own to feed it. Use hs.objectives.TeacherForcing(), the default."
            )

    def log_probs(
        self, model: Any, arrays: Arrays | PairArrays, strategy: Strategy, state: State, chance: Chance
    ) -> tuple[Float[Array, "sequence time"], State]:
        """The log-probabilities of the truth, given what the model was fed."""
        if isinstance(arrays, PairArrays):
            out, final = self._pairs(model, arrays, strategy, chance), None
        else:
            out, final = self._sequences(model, arrays, strategy, state, chance)
        return jnp.where(counting(arrays, jnp), out, 0.0), final

    def _sequences(self, model: Any, arrays: Arrays, strategy: Strategy, state: State, chance: Chance) -> Any:
        steps = steps_of(arrays)
        given = jnp.zeros(arrays.values.shape[:2], bool)
        if arrays.context is not None:
            given = jnp.arange(given.shape[1]) < jnp.asarray(arrays.context)[:, None]

        def one(steps, given, state, noise, key):
            run = model if noise is None else with_noise(model, noise)
            start = run.initial() if state is None else state
            return self.one(run, start, steps, given, strategy, key, chance.update)

        return jax.vmap(one)(steps, given, state, chance.noise, chance.draws)

    def _pairs(self, model: Any, arrays: PairArrays, strategy: Strategy, chance: Chance) -> Any:
        def one(source, target, noise, key):
            run: Any = model if noise is None else with_noise(model, noise)
            start = run.decoder_start(source, strategy)
            steps = run.decoder_steps(target)._replace(observed=None)
            if start.inputs is not None:
                steps = steps._replace(inputs=jnp.broadcast_to(start.inputs, (steps.length, *start.inputs.shape)))
            given = jnp.zeros(steps.length, bool)
            out, _ = self.one(start.model, start.state, steps, given, strategy, key, chance.update)
            return _with_the_end(out, target)

        return jax.vmap(one)(steps_of(arrays.source), steps_of(arrays.target), chance.noise, chance.draws)


@dataclass(frozen=True)
class ScheduledSampling(_OwnPast):
    """At every step the model is fed the truth with some probability, otherwise its own draw (Bengio et al. 2015).

    `schedule` gives that probability from the number of the update, counted from 0: one of `hs.schedules`, an optax
    schedule, any such function, or a number. What is learned is the probability of the truth all the same; no gradient
    flows through a draw. With probability 1 this is teacher forcing. Steps of a context are always fed the truth, and
    so is nothing else: missing entries stay missing. The steps of a sequence wait for each other's draws, so it runs
    in sequence whatever the model.
    """

    schedule: Callable[[Any], Any]

    def __post_init__(self):
        if not callable(self.schedule):
            object.__setattr__(self, "schedule", constant(self.schedule))
        first = np.asarray(self.schedule(np.int32(0)))
        if first.shape != () or not 0 <= first <= 1:
            raise HiddenStateError(
                f"schedule gives {first} at update 0; it must give a probability, that of feeding the truth."
            )

    @property
    def steady(self) -> bool:
        """Only if the probability is always the same."""
        return isinstance(self.schedule, constant)

    def check(self, model: Any, strategy: Strategy) -> None:
        """It takes a model that predicts each step from those before, and runs in sequence."""
        super().check(model, strategy)
        if not isinstance(strategy, Auto | Sequential):
            raise HiddenStateError(
                f"objective is ScheduledSampling, in which every step waits for the draw before, but strategy is "
                f"{strategy!r}; leave strategy out."
            )

    def one(
        self,
        model: SequenceModel,
        state: State,
        steps: Steps,
        given: Shaped[Array, " time"],
        strategy: Strategy,
        key: PRNGKeyArray,
        update: Array,
    ) -> tuple[Float[Array, " time"], State]:
        """One scan for the states; read-outs of the truth at all steps at once after it."""
        coin_key, draw_key = jr.split(key)
        truth = prepared(model, steps)
        told = given | jr.bernoulli(coin_key, self.schedule(update), given.shape)

        def advance(state, now):
            element, told, key, (x, u, observed, valid) = now
            drawn = _drawn(model, state, u, x, key)
            fed = _select(told, element, _prepare(model, drawn, u, observed))
            new = model.step(state, fed)
            return (new if valid is None else _select(valid, new, state)), state

        keys = jr.split(draw_key, steps.length)
        final, states = jax.lax.scan(advance, state, (truth, told, keys, tuple(steps)))
        score = lambda state, element, x, u: step_log_prob(model, state, element, x, u)  # noqa: E731
        return jax.vmap(score)(states, truth, steps.values, steps.inputs), final


@dataclass(frozen=True)
class FreeRunning(_OwnPast):
    """Stretches of k `steps` on the model's own output, each from where the truth has brought the model.

    The states of all steps given the true past come first, in parallel over time where the model can. From every k-th
    of them the model goes on for k steps on what it predicts itself: a draw (``feed="sample"``, through which no
    gradient flows), or the mean (``feed="mean"``, for real numbers), through which the gradient flows back along the
    whole stretch. Every step of the data is predicted once, from 0 to k - 1 steps after the last truth. Stretches
    begin at step `start`, a number from 0 to k - 1, and by default at one drawn anew for every sequence of every
    update.
    """

    steps: int
    feed: Literal["sample", "mean"] = "sample"
    start: int | Literal["random"] = "random"

    def __post_init__(self):
        if isinstance(self.steps, bool) or not isinstance(self.steps, int | np.integer) or self.steps < 1:
            raise HiddenStateError(f"steps is {self.steps!r}; it must be a whole number from 1 on.")
        if self.feed not in ("sample", "mean"):
            raise HiddenStateError(f"feed is {self.feed!r}; it must be 'sample' or 'mean'.")
        whole = not isinstance(self.start, bool) and isinstance(self.start, int | np.integer)
        if self.start != "random" and not (whole and 0 <= self.start < self.steps):
            raise HiddenStateError(
                f"start is {self.start!r}; it must be 'random' or a whole number from 0 to {self.steps - 1}."
            )

    def check(self, model: Any, strategy: Strategy) -> None:
        """It takes a model that predicts each step from those before; means only of real numbers."""
        super().check(model, strategy)
        if self.feed == "mean" and isinstance(model, SequenceModel):
            _check_mean(model)

    def one(
        self,
        model: SequenceModel,
        state: State,
        steps: Steps,
        given: Shaped[Array, " time"],
        strategy: Strategy,
        key: PRNGKeyArray,
        update: Array,
    ) -> tuple[Float[Array, " time"], State]:
        """All stretches side by side, k steps long."""
        del update
        start_key, draw_key = jr.split(key)
        time, length = steps.length, min(self.steps, steps.length)
        states, final = over_time(model, strategy, state, steps, lambda state, *_: state)
        truth = prepared(model, steps)
        offset = jr.randint(start_key, (), 0, length) if self.start == "random" else self.start % length
        # Stretch 0 covers the steps before the offset, stretch i those from offset + (i - 1) k on.
        count = -(-time // length) + 1
        starts = jnp.clip(offset + (jnp.arange(count) - 1) * length, 0, time - 1)

        def stretch(start, key):
            def advance(state, now):
                ahead, key = now
                place = jnp.minimum(start + ahead, time - 1)
                element, told, (x, u, observed, _) = jax.tree.map(lambda a: a[place], (truth, given, tuple(steps)))
                score = step_log_prob(model, state, element, x, u)
                own = self._own(model, state, u, x, key)
                fed = _select(told, element, _prepare(model, own, u, observed))
                return model.step(state, fed), score

            first = jax.tree.map(lambda a: a[start], states)
            return jax.lax.scan(advance, first, (jnp.arange(length), jr.split(key, length)))[1]

        scores = jax.vmap(stretch)(starts, jr.split(draw_key, count))
        places = jnp.arange(time)
        number = (places - offset) // length + 1
        return scores[number, places - starts[number]], final

    def _own(self, model: SequenceModel, state: State, u: Any, x: Any, key: PRNGKeyArray) -> Any:
        if self.feed == "sample":
            return _drawn(model, state, u, x, key)
        distribution = model.readout(state, u)
        _check_real(distribution, model)
        return jnp.asarray(distribution.mean, x.dtype)


# -- one step --------------------------------------------------------------------------------------------------


def _drawn(model: Any, state: State, u: Any, x: Any, key: PRNGKeyArray) -> Any:
    """A draw from the read-out, of the type of the observation `x`; no gradient flows through it."""
    model, state = (jax.tree.map(_still, tree) for tree in (model, state))
    return jax.lax.stop_gradient(model.readout(state, u).sample(key)).astype(x.dtype)


def _still(leaf: Any) -> Any:
    return jax.lax.stop_gradient(leaf) if eqx.is_inexact_array(leaf) else leaf


def _prepare(model: Any, x: Any, u: Any, observed: Any) -> Element:
    return model.prepare(x, u) if observed is None else model.prepare_partial(x, u, observed)


def _select(condition: Any, one: Any, other: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)


def _with_the_end(out: Float[Array, " longer"], target: Steps) -> Float[Array, " time"]:
    """Log-probabilities of a target; where there is a stop symbol behind its end, the last step's with that of it."""
    if len(out) == target.length:
        return out
    count = target.length if target.valid is None else jnp.sum(target.valid)
    return jnp.where(jnp.arange(target.length) == count - 1, out[:-1] + out[1:], out[:-1])


# -- checks and marks ------------------------------------------------------------------------------------------


def _check_mean(model: SequenceModel) -> None:
    def first(model):
        u = jnp.zeros(model.inputs, dtype_of(model)) if model.inputs else None
        distribution = model.readout(model.initial(), u)
        _check_real(distribution, model)
        return distribution.mean

    eqx.filter_eval_shape(first, model)


def _check_real(distribution: Any, model: Any) -> None:
    said = f"feed is 'mean', but what {name_of(model)} predicts"
    if distribution.is_discrete:
        raise HiddenStateError(f"{said} are symbols or counts: their mean is none of them. Use feed='sample'.")
    try:
        jax.eval_shape(lambda d: d.mean, distribution)
    except NotImplementedError:
        raise HiddenStateError(f"{said} has no mean. Use feed='sample'.") from None


def _mark(value: Any) -> str:
    """A setting in words; a function that has none is known by its values."""
    if not callable(value) or isinstance(value, Schedule):
        return repr(value)
    updates = [0, *(10**i for i in range(8))]
    return digest_of([np.float64(np.asarray(value(np.int32(update)))) for update in updates])
