"""The two halves of EM, compiled, for many models at once: expected statistics of all data, and the best model."""

from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Shaped
from hiddenstate.core import (
    Arrays,
    HiddenStateError,
    Prior,
    Remembered,
    SequenceModel,
    Sequences,
    compiled,
    dtype_of,
    has,
    name_of,
)
from hiddenstate.inference import arrays_for, masked_log_probs, steps_of
from hiddenstate.learn.minibatches import chunks, even
from hiddenstate.ops.sums import sum_over_time
from hiddenstate.strategies import Strategy, resolved

STEPS_AT_ONCE = 2**18
"""So many steps, of all models together, are worked on at once (a longer sequence is worked on alone)."""

CAPABILITIES = ("expected_statistics", "maximise")


def check_learns_by_em(model: SequenceModel, how: str) -> None:
    """Raise the sentence that says which models have what EM needs, unless `model` has it."""
    lacks = [name for name in CAPABILITIES if not has(model, name)]
    if lacks and hasattr(type(model), lacks[0]):
        raise HiddenStateError(f"{name_of(model)} cannot learn by {how} as it is: {_why_not(model, lacks[0])}")
    if lacks:
        raise HiddenStateError(
            f"{name_of(model)} cannot learn by {how}: it has no `{lacks[0]}`. Latent-state models such as hs.HMM and "
            "hs.LinearGaussian have; hs.SGD() and hs.LBFGS() learn any model."
        )


def _why_not(model: SequenceModel, capability: str) -> str:
    """What a model says of a capability that its kind has, but not this one."""
    try:
        getattr(model, capability)
    except AttributeError as error:
        return f"{str(error).rstrip('.')}. hs.SGD() and hs.LBFGS() learn any model."
    raise AssertionError(f"{name_of(model)} has {capability}")


# -- several models as one, with a leading axis --------------------------------------------------------------


def stack(models: Sequence[Any]) -> Any:
    """Models of one structure as one whose arrays have a leading axis."""
    arrays = [eqx.filter(model, eqx.is_array) for model in models]
    kinds = {jax.tree.structure(a) for a in arrays}
    if len(kinds) > 1:
        raise HiddenStateError(f"{name_of(models[0])} changed its structure when it was started anew.")
    static = eqx.filter(models[0], eqx.is_array, inverse=True)
    return eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays), static)


def pick(models: Any, index: int) -> Any:
    """One model out of a stack."""
    return jax.tree.map(lambda leaf: leaf[index] if eqx.is_array(leaf) else leaf, models)


def put(models: Any, index: int, model: Any) -> Any:
    """The stack with another model in one place."""
    return jax.tree.map(lambda leaf, new: leaf.at[index].set(new) if eqx.is_array(leaf) else leaf, models, model)


def where(chosen: np.ndarray, ones: Any, others: Any) -> Any:
    """The models of the stack `ones` in the chosen places, those of `others` elsewhere."""
    return _where(jnp.asarray(chosen), ones, others)


@eqx.filter_jit
def _where(chosen, ones, others):
    def choose(a, b):
        return jnp.where(chosen.reshape(-1, *[1] * (a.ndim - 1)), a, b) if eqx.is_array(a) else a

    return jax.tree.map(choose, ones, others)


# -- expectation ---------------------------------------------------------------------------------------------


def parts(model: SequenceModel, data: Sequences, count: int = 1) -> Iterator[Arrays]:
    """The data in batches of whole sequences that `count` models can work on at once in bounded memory."""
    longest = int(data.lengths.max())
    size = min(len(data), max(1, STEPS_AT_ONCE // (longest * count)))
    if size == len(data):  # as it is, so that data of one padded shape share a compiled program
        yield arrays_for(model, data)._replace(context=None)
        return
    for batch in data.batches(size):
        yield even(model, batch, data, size)._replace(context=None)


def expect(models: Any, data: Sequences, strategy: Strategy) -> tuple[Any, np.ndarray]:
    """The expected statistics of all data under each model, summed, and the log-probability of all data."""
    count = count_of(models)
    statistics, totals = None, np.zeros(count)
    for arrays in parts(models, data, count):
        found, log_probs = expect_batch(models, arrays, strategy)
        statistics = found if statistics is None else add(statistics, found)
        totals += np.asarray(log_probs, np.float64).sum(axis=1)
    return statistics, totals


def expect_onward(
    models: Any, data: Sequences, strategy: Strategy, carried: list[Any] | None, temperature: float
) -> tuple[Any, np.ndarray, list[Any]]:
    """As `expect`, for models whose posterior is found step by step: each goes on from where it was.

    `carried` is what was known of the posteriors before, None at the beginning; the new one comes out as well. The
    numbers are bounds on the log-probability.
    """
    count = count_of(models)
    statistics, totals, after = None, np.zeros(count), []
    heat = jnp.asarray(temperature, dtype_of(models))
    for number, arrays in enumerate(parts(models, data, count)):
        together = _together(count, arrays)
        before = _begin(models, arrays, strategy, together) if carried is None else carried[number]
        found, bounds, now = _go_on(models, arrays, before, heat, together)
        statistics = found if statistics is None else add(statistics, found)
        totals += np.asarray(bounds, np.float64).sum(axis=1)
        after.append(now)
    return statistics, totals, after


def _together(count: int, arrays: Arrays) -> int:
    """How many models can run side by side."""
    return min(count, max(1, STEPS_AT_ONCE // int(np.prod(arrays.values.shape[:2]))))


@eqx.filter_jit
def _begin(models, arrays, strategy, together):
    dynamic, static = eqx.partition(models, eqx.is_array)

    def one_model(dynamic):
        model = eqx.combine(dynamic, static)
        start = lambda steps: model.variational_start(steps, resolved(strategy, model, steps.length))  # noqa: E731
        return jax.vmap(start)(steps_of(arrays))

    return _side_by_side(one_model, dynamic, together)


@eqx.filter_jit
def _go_on(models, arrays, carried, heat, together):
    dynamic, static = eqx.partition(models, eqx.is_array)

    def one_model(both):
        model, before = eqx.combine(both[0], static), both[1]
        sweep = lambda steps, before: model.variational_statistics(steps, before, heat)  # noqa: E731
        statistics, bounds, after = jax.vmap(sweep)(steps_of(arrays), before)
        return *_summed(arrays, statistics, bounds), after

    return _side_by_side(one_model, (dynamic, carried), together)


def _side_by_side(one_model, stacked, together):
    """The function of every model; where not all can run side by side, one group after the other."""
    if together >= jax.tree.leaves(stacked)[0].shape[0]:
        return jax.vmap(one_model)(stacked)
    return jax.lax.map(one_model, stacked, batch_size=together)


def _summed(arrays, statistics, log_probs):
    """Statistics summed over sequences; those that only fill a batch up count for nothing."""
    if arrays.lengths is not None:
        real = arrays.lengths > 0
        log_probs = jnp.where(real, log_probs, 0)
        statistics = jax.tree.map(lambda a: jnp.where(real.reshape(-1, *[1] * (a.ndim - 1)), a, 0), statistics)
    return jax.tree.map(lambda a: a.sum(0), statistics), log_probs


def expect_batch(models: Any, arrays: Arrays, strategy: Strategy) -> tuple[Any, Shaped[Array, "model sequence"]]:
    """The expected statistics of one batch, summed over its sequences, and the log-probability of each sequence."""
    return _expect(models, arrays, strategy, _together(count_of(models), arrays))


@compiled
def _expect(models, arrays, strategy, together):
    """`together` models run side by side; where there are more, one group after the other."""
    dynamic, static = eqx.partition(models, eqx.is_array)

    def one_model(dynamic):
        model = eqx.combine(dynamic, static)

        def one(steps):
            return model.expected_statistics(steps, resolved(strategy, model, steps.length))

        return _summed(arrays, *jax.vmap(one)(steps_of(arrays)))

    return _side_by_side(one_model, dynamic, together)


@eqx.filter_jit
def add(ones: Any, others: Any) -> Any:
    """The sum of two trees of statistics."""
    return jax.tree.map(jnp.add, ones, others)


def blend(kept: Any, new: Any, rate: float, scale: float) -> Any:
    """What is remembered of statistics after new ones: (1 - rate) of the old and `rate` of the new times `scale`."""
    return _blend(kept, new, *(jnp.asarray(x, jnp.result_type(float)) for x in (rate, scale)))


@eqx.filter_jit
def _blend(kept, new, rate, scale):
    return jax.tree.map(lambda a, b: (1 - rate.astype(a.dtype)) * a + (rate * scale).astype(a.dtype) * b, kept, new)


def occupancies(models: Any, statistics: Any) -> np.ndarray | None:
    """The expected number of steps in each hidden state, (model, state); None where nothing could be repaired."""
    found = getattr(statistics, "occupancy", None)
    return None if found is None or not has(models, "reseed") else np.asarray(found)


# -- maximisation --------------------------------------------------------------------------------------------


def maximise(models: Any, statistics: Any, prior: Prior, only: tuple[str, ...] | None) -> Any:
    """The models under which the expected log-probability that gave the statistics is highest."""
    return _maximise(models, statistics, prior, only)


@eqx.filter_jit
def _maximise(models, statistics, prior, only):
    dynamic, static = eqx.partition(models, eqx.is_array)

    def one(dynamic, statistics):
        new = eqx.combine(dynamic, static).maximise(statistics, prior=prior, only=only)
        return eqx.filter(new, eqx.is_array)

    return eqx.combine(jax.vmap(one)(dynamic, statistics), static)


# -- scores --------------------------------------------------------------------------------------------------


def nats_per_step(models: Any, data: Sequences, strategy: Strategy) -> np.ndarray:
    """Minus the mean log-probability of the steps of `data` under each model, given their context."""
    count = count_of(models)
    size = min(len(data), max(1, STEPS_AT_ONCE // (int(data.lengths.max()) * count)))
    totals = np.zeros(count)
    for batch in data.batches(size):
        carried = None
        for part in chunks(even(models, batch, data, size), max(1, STEPS_AT_ONCE // (len(batch) * count))):
            total, carried = _score(models, part, strategy, carried)
            totals += np.asarray(total, np.float64)
    return -totals / data.scored_steps


@eqx.filter_jit
def _score(models, arrays, strategy, carried):
    def one(model, state):
        log_probs, final = masked_log_probs(model, arrays, strategy, state)
        return sum_over_time(sum_over_time(log_probs)), final

    if carried is None:
        return eqx.filter_vmap(lambda model: one(model, None))(models)
    return eqx.filter_vmap(one)(models, carried)


@Remembered
def count_of(models: Any) -> int:
    """How many models a stack holds."""
    return next(leaf.shape[0] for leaf in jax.tree.leaves(models) if eqx.is_array(leaf))
