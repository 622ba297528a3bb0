"""Futures drawn from a model: samples from nothing, forecasts from a past."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from numpyro.distributions import Distribution

from hiddenstate._types import PRNGKeyArray, State
from hiddenstate.core import DataError, SequenceModel, Sequences, checked_key, dtype_of, has, name_of
from hiddenstate.inference.batches import rebatch
from hiddenstate.inference.observations import prototype, refuse_conditional, sequences_for
from hiddenstate.inference.posterior import refuse_impossible
from hiddenstate.inference.score import final_states
from hiddenstate.strategies import Auto, Strategy


def sample(model: SequenceModel, length: int, *, key: PRNGKeyArray, n: int = 1, inputs: Any = None) -> Sequences:
    """`n` sequences of `length` steps drawn from the model.

    `inputs` are needed where the model takes them: (length, inputs), the same for all samples.
    """
    refuse_conditional(model)
    check_counts(length=length, n=n)
    us = _future_inputs(model, inputs, length, 1)
    start = jax.tree.map(lambda a: jnp.broadcast_to(a, (1, *a.shape)), model.initial())
    values = _simulate(model, start, us, checked_key(key), length, n)[0]
    _check_proper(model, values)
    known = None if us is None else np.broadcast_to(np.asarray(us), (n, *us.shape[1:]))
    return Sequences.padded(np.asarray(values[0]), inputs=known, schema=model.schema)


@dataclass(frozen=True)
class Forecast:
    """Many sampled futures of each sequence, and what they say of every step ahead.

    `samples` has the axes (sequence, sample, step, ...). `mean` averages the model's own predictive means over the
    sampled paths rather than the samples: at the first step it is exact, later it has less noise than the samples'
    mean. Where observations are symbols, `probs` holds the probability of each symbol, computed in the same way, and
    `mean` is None.

    A model that can do without observations predicts every step ahead exactly: then `mean` and `probs` are exact,
    `distribution` is the predictive distribution of every step, of batch shape (sequence, step), `covariance` its
    covariance where it has one, and `states` are the states behind it: for an HMM p(z_{T+k} | x_1 .. x_T).
    """

    samples: np.ndarray
    mean: np.ndarray | None
    probs: np.ndarray | None
    levels: tuple[float, ...]
    states: State = None
    distribution: Distribution | None = None
    covariance: np.ndarray | None = None

    def quantile(self, level: float) -> np.ndarray:
        """The quantile of each step ahead, (sequence, step, ...); for symbols and counts it is one of their values."""
        if not 0 <= level <= 1:
            raise DataError(f"the level of a quantile is {level}; it must be between 0 and 1.")
        method = "inverted_cdf" if np.issubdtype(self.samples.dtype, np.integer) else "linear"
        return np.quantile(self.samples, level, axis=1, method=method)

    @property
    def median(self) -> np.ndarray:
        """The median of each step ahead."""
        return self.quantile(0.5)

    @cached_property
    def quantiles(self) -> dict[float, np.ndarray]:
        """The quantiles of each step ahead at all `levels`."""
        return {level: self.quantile(level) for level in self.levels}

    @property
    def horizon(self) -> int:
        """How many steps ahead it goes."""
        return self.samples.shape[2]


def forecast(
    model: SequenceModel,
    data: Any,
    horizon: int,
    *,
    key: PRNGKeyArray,
    n: int = 1000,
    levels: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95),
    inputs: Any = None,
    strategy: Strategy = Auto(),
) -> Forecast:
    """What comes after each sequence: `n` sampled futures of `horizon` steps, with mean, median and quantiles.

    `inputs` of the steps to come are needed where the model takes them: (sequence, horizon, inputs), or (horizon,
    inputs) for all sequences alike.
    """
    refuse_conditional(model)
    check_counts(horizon=horizon, n=n)
    data = sequences_for(model, data)
    us = _future_inputs(model, inputs, horizon, len(data))
    if has(model, "smooth"):  # a belief behind an impossible observation is none
        refuse_impossible(model, data, strategy)
    last = final_states(model, data, strategy=strategy)
    return forecast_from(model, last, horizon, key=checked_key(key), n=n, levels=levels, inputs=us)


def forecast_from(
    model: SequenceModel,
    states: State,
    horizon: int,
    *,
    key: PRNGKeyArray,
    n: int,
    levels: Sequence[float] = (),
    inputs: Any = None,
) -> Forecast:
    """What comes after each of several states, given with a leading axis: as `forecast`, from checked arguments."""
    samples, means, probs = _simulate(model, states, inputs, key, horizon, n)
    _check_proper(model, samples)
    ahead, distribution, covariance = None, None, None
    if has(model, "prepare_partial"):
        ahead, distribution, means, probs, covariance = _ahead(model, states, inputs, horizon)
        distribution = rebatch(distribution, (samples.shape[0], horizon))
    mean, probabilities, covariance = (None if a is None else np.asarray(a) for a in (means, probs, covariance))
    return Forecast(np.asarray(samples), mean, probabilities, tuple(levels), ahead, distribution, covariance)


def _check_proper(model: SequenceModel, values: Any) -> None:
    """Raise DataError if nothing could be drawn: a model that knows nothing yet has no distribution to draw from."""
    if jnp.issubdtype(values.dtype, jnp.floating) and not bool(jnp.isfinite(values).all()):
        raise DataError(
            f"{name_of(model)} has no proper distribution to draw from at some step: its start is diffuse, what varies "
            "in time ends sooner, or its numbers are not finite. A diffuse model needs observations first."
        )


def check_counts(**counts: Any) -> None:
    """Raise DataError if one of the named numbers is no whole number of at least 1."""
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise DataError(f"{name} is {value!r}; it must be a whole number of at least 1.")


def _future_inputs(model: SequenceModel, inputs: Any, length: int, count: int) -> Any:
    if not model.inputs:
        return None
    if inputs is None:
        raise DataError(
            f"{name_of(model)} takes {model.inputs} inputs at every step: give inputs for all {length} steps to come."
        )
    inputs = np.asarray(inputs, dtype=dtype_of(model))
    if inputs.shape[-2:] != (length, model.inputs) or inputs.ndim not in (2, 3):
        raise DataError(
            f"inputs has shape {inputs.shape}; it must be ({length}, {model.inputs}), or one such array per sequence."
        )
    if inputs.ndim == 3 and len(inputs) != count:
        raise DataError(f"inputs holds {len(inputs)} arrays for {count} sequences.")
    return np.broadcast_to(inputs, (count, length, model.inputs))


def summarise(distribution: Distribution, x: Any = None) -> tuple[Any, Any]:
    """The mean of one predictive distribution, or for symbols the probability of each; the other is None.

    Where a mean would have to be estimated, a draw `x` stands for it: the average over many draws is wanted.
    """
    highest = getattr(distribution.support, "upper_bound", None)
    if distribution.event_shape == () and distribution.is_discrete and highest is not None:
        return None, jnp.exp(distribution.log_prob(jnp.arange(highest + 1)))
    if x is not None and not getattr(distribution, "exact_moments", True):
        return jnp.asarray(x, dtype_of(distribution)), None
    return distribution.mean, None


@eqx.filter_jit
def _ahead(model: Any, states: State, us: Any, horizon: int) -> Any:
    """The exact state and prediction of every step ahead: those to come are steps whose observation is missing."""
    event = prototype(model)
    nothing = jnp.zeros(event.event_shape, jnp.int32 if event.is_discrete else dtype_of(model))

    def skip(state, u):
        element = model.prepare_partial(nothing, u, jnp.zeros(nothing.shape, bool))
        distribution = model.readout(state, u)
        covariance = getattr(distribution, "covariance_matrix", None)
        return model.step(state, element), (state, distribution, *summarise(distribution), covariance)

    return jax.vmap(lambda state, us: jax.lax.scan(skip, state, us, length=horizon)[1])(states, us)


@eqx.filter_jit
def _simulate(
    model: SequenceModel, states: State, us: Any, key: PRNGKeyArray, length: int, n: int
) -> tuple[Any, Any, Any]:
    """Samples (sequence, sample, step, ...), and means or probabilities averaged over them (sequence, step, ...)."""

    def draw(state, u, key):
        distribution = model.readout(state, u)
        x: Any = distribution.sample(key)
        return model.step(state, model.prepare(x, u)), x, summarise(distribution, x)

    def advance(many, inputs):
        step_key, u = inputs
        many, x, summary = jax.vmap(draw, (0, None, 0))(many, u, jr.split(step_key, n))
        return many, (x, *jax.tree.map(lambda a: a.mean(0), summary))

    def futures(state, us, key):
        many = jax.tree.map(lambda a: jnp.broadcast_to(a, (n, *a.shape)), state)
        return jax.lax.scan(advance, many, (jr.split(key, length), us))[1]

    count = jax.tree.leaves(states)[0].shape[0]
    xs, means, probs = jax.vmap(futures)(states, us, jr.split(key, count))
    return jnp.moveaxis(xs, 1, 2), means, probs
