"""How probable observations are, and what a model expects next: the same for every model."""

from functools import partial
from typing import Any, Literal, TypeAlias, overload

import equinox as eqx
import jax
import jax.numpy as jnp
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Element, Float, State
from hiddenstate.core import Arrays, ConditionalModel, PairArrays, SequenceModel, compiled, has, with_noise
from hiddenstate.inference.answers import answers, masked_answers
from hiddenstate.inference.batches import rebatch, steps_of
from hiddenstate.inference.observations import arrays_for, data_for, sequences_for
from hiddenstate.ops.sums import sum_over_time
from hiddenstate.strategies import Auto, Strategy, over_time, resolved

Model: TypeAlias = SequenceModel | ConditionalModel


@overload
def log_prob(
    model: Model, data: Any, *, strategy: Strategy = ..., total: Literal[False] = ..., given: int = ...
) -> Float[Array, " sequence"]: ...
@overload
def log_prob(
    model: Model, data: Any, *, strategy: Strategy = ..., total: Literal[True], given: int = ...
) -> Float[Array, ""]: ...
def log_prob(model: Model, data: Any, *, strategy: Strategy = Auto(), total: bool = False, given: int = 0):
    """The log-probability (natural logarithm) of each sequence, or with ``total=True`` of all together.

    Where the data have a context, it is the log-probability of the rest given that; with `given`, at least the first so
    many steps of each sequence are context. For a model that answers, the data are `Pairs` and it is the
    log-probability of each target given its source, without what is missing of it.

    >>> hs.log_prob(model, data)  # doctest: +SKIP
    Array([-12.3, -8.1], dtype=float32)
    """
    sums = _log_probs(model, arrays_for(model, data_for(model, data, given)), strategy)
    return sum_over_time(sums) if total else sums


def step_log_probs(
    model: Model, data: Any, *, strategy: Strategy = Auto(), given: int = 0
) -> Float[Array, "sequence time"]:
    """log p(x_t | x_1 .. x_{t-1}) at every step, zero behind a sequence's end and at steps that are only context.

    With `given`, at least the first so many steps of each sequence are context.

    For a model that answers, and `Pairs`, log p(y_s | y_1 .. y_{s-1}, x) at every step of the targets, zero where they
    are missing.
    """
    return _step_log_probs(model, arrays_for(model, data_for(model, data, given)), strategy)


def predictive(model: Model, data: Any, *, strategy: Strategy = Auto()) -> Distribution:
    """The distribution of x_t given x_1 .. x_{t-1} at every step: one distribution of batch shape (sequence, time).

    For a model that answers, that of the answers to each source; the data are `Pairs`, of which only the sources are
    looked at, or sources alone. Its batch shape is (pair, time), or (pair,) where there is one answer to a sequence.
    """
    if isinstance(model, ConditionalModel):
        return answers(model, data, strategy)
    data = sequences_for(model, data)
    return rebatch(_predictive(model, arrays_for(model, data), strategy), data.shape[:2])


def states(model: SequenceModel, data: Any, *, strategy: Strategy = Auto()) -> State:
    """The hidden state at every step, with leading axes (sequence, time); that at t has seen x_1 .. x_{t-1}.

    Behind a sequence's end stands its last state.
    """
    return _states(model, arrays_for(model, sequences_for(model, data)), strategy)[0]


def final_states(model: SequenceModel, data: Any, *, strategy: Strategy = Auto()) -> State:
    """The hidden state of each sequence after its last observation."""
    return _final(model, arrays_for(model, sequences_for(model, data)), strategy)


def each_step(
    model: SequenceModel, arrays: Arrays, strategy: Strategy, emit: Any, state: State = None
) -> tuple[Any, State]:
    """`emit` over all steps of all sequences, and the last states; from given states where there are any."""

    def one(steps, state):
        start = model.initial() if state is None else state
        return over_time(model, strategy, start, steps, emit)

    return jax.vmap(one)(steps_of(arrays), state)


def masked_log_probs(
    model: Any, arrays: Arrays | PairArrays, strategy: Strategy, state: State = None, keys: Any = None
) -> tuple[Float[Array, "sequence time"], State]:
    """Log-probabilities of all steps with zeros behind the ends, and the last states: what training differentiates.

    Of pairs, those of the targets given their sources, and no states. With `keys`, one for each sequence, the model's
    noisy parts draw from them, as they do in learning.
    """
    if isinstance(arrays, PairArrays):
        return masked_answers(model, arrays, strategy, keys), None

    def one(steps, state, key):
        run = model if key is None else with_noise(model, key)
        start = run.initial() if state is None else state
        if has(run, "score_sequence"):
            return run.score_sequence(start, steps, resolved(strategy, run, steps.length))
        return over_time(run, strategy, start, steps, partial(step_log_prob, run))

    out, final = jax.vmap(one)(steps_of(arrays), state, keys)
    step = jnp.arange(out.shape[1])
    if arrays.lengths is not None:
        out = jnp.where(step < arrays.lengths[:, None], out, 0.0)
    if arrays.context is not None:
        out = jnp.where(step >= arrays.context[:, None], out, 0.0)
    return out, final


def step_log_prob(model: SequenceModel, state: State, element: Element, x: Any, u: Any) -> Float[Array, ""]:
    """The log-probability of one step, from the element where the model can, otherwise from the read-out."""
    if has(model, "evidence"):
        return model.evidence(state, element)  # pyright: ignore[reportAttributeAccessIssue]
    return model.readout(state, u).log_prob(x)  # pyright: ignore[reportReturnType]


@compiled
def _step_log_probs(model, arrays, strategy):
    return masked_log_probs(model, arrays, strategy)[0]


@compiled
def _log_probs(model, arrays, strategy):
    return sum_over_time(masked_log_probs(model, arrays, strategy)[0])


@eqx.filter_jit
def _predictive(model, arrays, strategy):
    return each_step(model, arrays, strategy, lambda state, element, x, u: model.readout(state, u))[0]


@compiled
def _states(model, arrays, strategy):
    return each_step(model, arrays, strategy, lambda state, *_: state)


@compiled
def _final(model, arrays, strategy):
    return each_step(model, arrays, strategy, lambda *_: None)[1]
