"""How probable observations are, and what a model expects next: the same for every model."""

from typing import Any, Literal, overload

import equinox as eqx
import jax
import jax.numpy as jnp
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Float, State
from hiddenstate.core import Arrays, SequenceModel
from hiddenstate.inference.batches import rebatch
from hiddenstate.inference.observations import arrays_for, sequences_for
from hiddenstate.ops.sums import sum_over_time
from hiddenstate.strategies import Auto, Strategy, over_time


@overload
def log_prob(
    model: SequenceModel, data: Any, *, strategy: Strategy = ..., total: Literal[False] = ...
) -> Float[Array, " sequence"]: ...
@overload
def log_prob(
    model: SequenceModel, data: Any, *, strategy: Strategy = ..., total: Literal[True]
) -> Float[Array, ""]: ...
def log_prob(model: SequenceModel, data: Any, *, strategy: Strategy = Auto(), total: bool = False):
    """The log-probability (natural logarithm) of each sequence, or with ``total=True`` of all together.

    Where the data have a context, it is the log-probability of the rest given that.

    >>> hs.log_prob(model, data)  # doctest: +SKIP
    Array([-12.3, -8.1], dtype=float32)
    """
    sums = sum_over_time(step_log_probs(model, data, strategy=strategy))
    return sum_over_time(sums) if total else sums


def step_log_probs(model: SequenceModel, data: Any, *, strategy: Strategy = Auto()) -> Float[Array, "sequence time"]:
    """log p(x_t | x_1 .. x_{t-1}) at every step, zero behind a sequence's end and at steps that are only context."""
    return _step_log_probs(model, arrays_for(model, sequences_for(model, data)), strategy)


def predictive(model: SequenceModel, data: Any, *, strategy: Strategy = Auto()) -> Distribution:
    """The distribution of x_t given x_1 .. x_{t-1} at every step: one distribution of batch shape (sequence, time)."""
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

    def one(values, length, inputs, state):
        valid = None if length is None else jnp.arange(values.shape[0]) < length
        start = model.initial() if state is None else state
        return over_time(model, strategy, start, values, inputs, valid, emit)

    return jax.vmap(one)(arrays.values, arrays.lengths, arrays.inputs, state)


def masked_log_probs(
    model: SequenceModel, arrays: Arrays, strategy: Strategy, state: State = None
) -> tuple[Float[Array, "sequence time"], State]:
    """Log-probabilities of all steps with zeros behind the ends, and the last states: what training differentiates."""
    out, final = each_step(model, arrays, strategy, lambda state, x, u: model.readout(state, u).log_prob(x), state)
    step = jnp.arange(out.shape[1])
    if arrays.lengths is not None:
        out = jnp.where(step < arrays.lengths[:, None], out, 0.0)
    if arrays.context is not None:
        out = jnp.where(step >= arrays.context[:, None], out, 0.0)
    return out, final


@eqx.filter_jit
def _step_log_probs(model, arrays, strategy):
    return masked_log_probs(model, arrays, strategy)[0]


@eqx.filter_jit
def _predictive(model, arrays, strategy):
    return each_step(model, arrays, strategy, lambda state, x, u: model.readout(state, u))[0]


@eqx.filter_jit
def _states(model, arrays, strategy):
    return each_step(model, arrays, strategy, lambda state, x, u: state)


@eqx.filter_jit
def _final(model, arrays, strategy):
    return each_step(model, arrays, strategy, lambda state, x, u: None)[1]
