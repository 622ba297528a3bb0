"""Answers written step by step: the most probable next symbol, draws, or a search among several."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from numpyro.distributions import Distribution, constraints

from hiddenstate._types import Array, Float, PRNGKeyArray, Shaped, State
from hiddenstate.core import (
    ConditionalModel,
    DataError,
    Form,
    HiddenStateError,
    Schema,
    Sequences,
    checked_key,
    dtype_of,
    has,
    name_of,
)
from hiddenstate.inference.batches import steps_of
from hiddenstate.inference.observations import arrays_for, describe, sources_for
from hiddenstate.inference.simulate import check_counts
from hiddenstate.strategies import Auto, Strategy


@dataclass(frozen=True, eq=False)
class Generated:
    """What a model answers to each source: one candidate or several, in order.

    `values` has the axes (source, candidate, step, ...), with zeros behind the `lengths` (source, candidate).
    `log_prob` (source, candidate) is log p(y | x) of each under the model, the same as `hs.log_prob` gives. Candidates
    of a beam search are sorted, the best first; where there are fewer possible answers than candidates, those left over
    have log-probability minus infinity. `ended` (source, candidate) is False where the limit set the stop symbol and
    not the model.
    """

    values: np.ndarray
    lengths: np.ndarray
    log_prob: np.ndarray
    ended: np.ndarray
    names: tuple[str, ...]
    schema: Schema | None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def sequences(self) -> Sequences:
        """The first candidate of each source: the best of a beam search, the first draw."""
        return self._sequences(self.values[:, 0], self.lengths[:, 0], self.names)

    def candidates(self, source: int) -> Sequences:
        """All candidates of one source, without those that are impossible."""
        possible = np.isfinite(self.log_prob[source])
        names = tuple(f"{self.names[source]}.{i}" for i in np.flatnonzero(possible))
        return self._sequences(self.values[source, possible], self.lengths[source, possible], names)

    def _sequences(self, values: np.ndarray, lengths: np.ndarray, names: tuple[str, ...]) -> Sequences:
        return Sequences.padded(values[:, : lengths.max()], lengths, names=names, schema=self.schema)


def generate(
    model: ConditionalModel,
    sources: Any,
    *,
    how: Literal["greedy", "sample", "beam"] = "greedy",
    width: int = 5,
    length: Any = None,
    n: int = 1,
    key: PRNGKeyArray | None = None,
    temperature: float = 1.0,
    length_penalty: float = 0.0,
    strategy: Strategy = Auto(),
) -> Generated:
    r"""Answers to `sources`, written step by step; all sources and candidates side by side.

    ``"greedy"`` takes the most probable symbol at every step (of real numbers the mean, of bits the likelier).
    ``"sample"`` draws `n` answers for each source, which needs a `key`; with a `temperature` below 1 from symbols'
    probabilities sharpened, above 1 from flattened ones. ``"beam"`` keeps the `width` best beginnings at every step and
    returns as many candidates. They are ranked by their log-probability, which favours short answers, or with a
    `length_penalty` a by :math:`\log p(y \mid x) / S^a`, where S counts the steps and the stop symbol.

    `length` is how long an answer is, or at most where the model ends it by a stop symbol (by default twice the length
    of the longest source and 10 more); one number, or one for each source. An answer that reaches the limit ends there.
    """
    _check_generates(model)
    sources = sources_for(model, sources)
    limits = _limits(length, sources, model)
    form = model.target_form()  # pyright: ignore[reportAttributeAccessIssue]
    choice = _choice(form, how, width, n, temperature, length_penalty, key)
    keys = None if how != "sample" else jr.split(checked_key(key), len(sources))
    paths = _generate(model, arrays_for(model, sources), jnp.asarray(limits), keys, choice, int(limits.max()), strategy)
    values = np.asarray(paths.values)
    if not np.isfinite(values).all():
        raise DataError(f"{name_of(model)} writes values that are not finite: its numbers are, or they grow too large.")
    lengths, limits = np.asarray(paths.written), limits[:, None]
    ended = lengths < limits if _stop(model) is not None else lengths == limits
    return Generated(values, lengths, np.asarray(paths.log_prob), ended, sources.names, model.target_schema)


# -- ways of choosing the next step --------------------------------------------------------------------------


class Paths(NamedTuple):
    """The candidates of one source, with a leading axis each.

    `values` are what was written, `written` how many steps that is; `log_prob` is that of all `decisions` so far, the
    stop symbol among them.
    """

    states: State
    values: Shaped[Array, "path time ..."]
    written: Shaped[Array, " path"]
    decisions: Shaped[Array, " path"]
    log_prob: Float[Array, " path"]
    finished: Shaped[Array, " path"]


class Chosen(NamedTuple):
    """The next step of every path: the path that it goes on from, the value, and its log-probability."""

    parent: Shaped[Array, " path"]
    value: Shaped[Array, "path ..."]
    gain: Float[Array, " path"]


class Choice(ABC):
    """A way of choosing the next step. Its instances are small, frozen and hashable."""

    paths: int

    def start(self) -> np.ndarray:
        """The log-probabilities of the paths before the first step."""
        return np.zeros(self.paths)

    @abstractmethod
    def among(self, paths: Paths, log_probs: Float[Array, "path symbol"], key: Any) -> Chosen:
        """The next symbols, from the log-probabilities of all."""

    def value(self, distribution: Distribution, key: Any) -> Any:
        """The next observation of one path, where these are no symbols."""
        raise TypeError(f"{type(self).__name__} chooses among symbols.")


@dataclass(frozen=True)
class Beam(Choice):
    """The best beginnings of all that continue those there are."""

    paths: int
    length_penalty: float = 0.0

    def start(self) -> np.ndarray:
        """All but one path are impossible until they part from that one."""
        return np.where(np.arange(self.paths) == 0, 0.0, -np.inf)

    def among(self, paths: Paths, log_probs: Float[Array, "path symbol"], key: Any) -> Chosen:
        """The paths of highest log-probability, or of highest penalised one, each with its parent."""
        total = paths.log_prob[:, None] + log_probs
        decisions = jnp.maximum(paths.decisions + ~paths.finished, 1)
        ranked = total / decisions[:, None].astype(total.dtype) ** self.length_penalty
        _, best = jax.lax.top_k(ranked.ravel(), self.paths)
        parent, symbol = jnp.divmod(best, log_probs.shape[1])
        return Chosen(parent, symbol, log_probs[parent, symbol])


@dataclass(frozen=True)
class Draw(Choice):
    """Draws from the model, or from symbols' probabilities at another temperature."""

    paths: int
    temperature: float = 1.0

    def among(self, paths: Paths, log_probs: Float[Array, "path symbol"], key: Any) -> Chosen:
        """One symbol for each path."""
        symbol = jr.categorical(key, log_probs / self.temperature)
        parent = jnp.arange(self.paths)
        return Chosen(parent, symbol, log_probs[parent, symbol])

    def value(self, distribution: Distribution, key: Any) -> Any:
        """A draw."""
        return distribution.sample(key)


@dataclass(frozen=True)
class Expect(Choice):
    """What the model expects: for real numbers the mean, for bits the likelier value."""

    bits: bool
    paths: int = 1

    def among(self, paths: Paths, log_probs: Float[Array, "path symbol"], key: Any) -> Chosen:
        """The most probable symbol."""
        return Beam(self.paths).among(paths, log_probs, key)

    def value(self, distribution: Distribution, key: Any) -> Any:
        """The mean, or the likelier value."""
        mean = jnp.asarray(distribution.mean)
        return (mean > 0.5).astype(jnp.int32) if self.bits else mean


# -- writing -------------------------------------------------------------------------------------------------


@eqx.filter_jit
def _generate(
    model: Any, arrays: Any, limits: Any, keys: Any, choice: Choice, longest: int, strategy: Strategy
) -> Paths:
    """The paths of all sources, in one loop that ends when all of them have."""
    stop, form = model.stop_symbol, model.target_form()
    # The decoder is the same for every source; only its states and inputs are mapped.
    decoder, states, inputs = eqx.filter_vmap(
        lambda source: tuple(model.decoder_start(source, strategy)), out_axes=(None, eqx.if_array(0), eqx.if_array(0))
    )(steps_of(arrays))
    symbols = _symbol_count(form) + (stop is not None)

    def extend(paths: Paths, u: Any, limit: Any, key: Any, step: Any) -> Paths:
        key = None if key is None else jr.fold_in(key, step)
        if symbols:
            chosen = choice.among(paths, _symbol_log_probs(decoder, paths, u, symbols, stop, step < limit), key)
        else:
            chosen = _value(decoder, paths, u, choice, key)
        return _extended(decoder, paths, u, chosen, stop, step, limit)

    def going_on(carry: Any) -> Any:
        return jnp.any(~carry[1].finished & (carry[1].log_prob > -jnp.inf))

    def body(carry: Any) -> Any:
        step, paths = carry
        return step + 1, jax.vmap(extend, (0, 0, 0, 0, None))(paths, inputs, limits, keys, step)

    value_type = jnp.int32 if getattr(form.support, "is_discrete", False) else dtype_of(model)
    blank = jnp.zeros((choice.paths, longest, *form.shape), value_type)
    paths = jax.vmap(lambda state: _first(state, blank, jnp.asarray(choice.start(), dtype_of(model))))(states)
    return jax.lax.while_loop(going_on, body, (0, paths))[1]


def _first(state: State, blank: Any, log_prob: Float[Array, " path"]) -> Paths:
    """Paths that have written nothing."""
    paths, none = len(log_prob), jnp.zeros(len(log_prob), jnp.int32)
    states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (paths, *leaf.shape)), state)
    return Paths(states, blank, none, none, log_prob, jnp.zeros(paths, bool))


def _symbol_log_probs(decoder: Any, paths: Paths, u: Any, symbols: int, stop: int | None, within: Any) -> Any:
    """Log-probabilities (path, symbol): at the limit only of the stop symbol; a finished path goes on in one way."""
    every = jnp.arange(symbols)
    log_probs = jax.vmap(lambda state: decoder.readout(state, u).log_prob(every))(paths.states)
    if stop is not None:
        log_probs = jnp.where(within | (every == stop), log_probs, -jnp.inf)
    stay = jnp.where(every == 0, 0.0, -jnp.inf).astype(log_probs.dtype)
    return jnp.where(paths.finished[:, None], stay, log_probs)


def _value(decoder: Any, paths: Paths, u: Any, choice: Choice, key: Any) -> Chosen:
    """The next observation of every path, where these are no symbols."""

    def one(state, path_key):
        distribution = decoder.readout(state, u)
        value = choice.value(distribution, path_key)
        return value, distribution.log_prob(value)

    keys = None if key is None else jr.split(key, choice.paths)
    value, gain = jax.vmap(one)(paths.states, keys)
    return Chosen(jnp.arange(choice.paths), value, jnp.where(paths.finished, 0.0, gain))


def _extended(decoder: Any, old: Paths, u: Any, chosen: Chosen, stop: int | None, step: Any, limit: Any) -> Paths:
    """The paths after one more decision each; those that had finished stay as they were."""
    paths = jax.tree.map(lambda leaf: leaf[chosen.parent], old)
    stops = jnp.zeros_like(paths.finished) if stop is None else chosen.value == stop
    writes = ~paths.finished & ~stops
    column = jnp.where(writes.reshape(-1, *(1,) * (chosen.value.ndim - 1)), chosen.value, 0)
    values = paths.values.at[:, step].set(column.astype(paths.values.dtype), mode="drop")
    states = jax.vmap(lambda state, value: decoder.step(state, decoder.prepare(value, u)))(paths.states, chosen.value)
    return Paths(
        states,
        values,
        paths.written + writes,
        paths.decisions + ~paths.finished,
        paths.log_prob + chosen.gain,
        paths.finished | (stops if stop is not None else step + 1 >= limit),
    )


# -- checking ------------------------------------------------------------------------------------------------


def _stop(model: Any) -> int | None:
    return model.stop_symbol


def _symbol_count(form: Form) -> int:
    """How many symbols a target is made of; 0 where it is made of something else."""
    symbolic = form.shape == () and isinstance(form.support, type(constraints.integer_interval(0, 1)))
    highest: Any = getattr(form.support, "upper_bound", None)
    return int(highest) + 1 if symbolic else 0


def _check_generates(model: Any) -> None:
    if not has(model, "decoder_start"):
        raise HiddenStateError(
            f"{name_of(model)} writes no answers step by step; hs.generate takes a model such as hs.EncoderDecoder. "
            "hs.predictive gives the answers of a model that labels, hs.sample draws from a sequence model."
        )


def _limits(length: Any, sources: Sequences, model: Any) -> np.ndarray:
    """How many steps the answer to each source has, or has at most."""
    if length is None:
        if _stop(model) is None:
            raise DataError(
                f"length is missing: {name_of(model)} has no stop symbol, so it must be told how many steps an answer "
                "has; one number, or one for each source."
            )
        length = 2 * sources.length + 10
    limits = np.asarray(length)
    if limits.shape not in ((), (len(sources),)) or not np.issubdtype(limits.dtype, np.integer) or limits.min() < 1:
        raise DataError(
            f"length is {length!r}; it must be a whole number of at least 1, or one for each of {len(sources)} sources."
        )
    return np.broadcast_to(limits, (len(sources),)).astype(np.int32)


def _choice(form: Form, how: str, width: Any, n: Any, temperature: Any, penalty: Any, key: Any) -> Choice:
    """The way of choosing that these words and numbers stand for, or what is wrong with them."""
    if how not in ("greedy", "sample", "beam"):
        raise HiddenStateError(f"how is {how!r}; it must be 'greedy', 'sample' or 'beam'.")
    symbols = _symbol_count(form) > 0
    if how == "sample":
        if key is None:
            raise HiddenStateError("how is 'sample', which needs key=, a JAX random key such as jax.random.key(0).")
        check_counts(n=n)
        if not temperature > 0 or not np.isfinite(temperature):
            raise HiddenStateError(f"temperature is {temperature!r}; it must be a number above 0.")
        if temperature != 1 and not symbols:
            raise HiddenStateError(
                f"temperature is {temperature!r}, but targets are {describe(form.support)}; only the probabilities of "
                "symbols can be sharpened."
            )
        return Draw(int(n), float(temperature))
    if n != 1 or temperature != 1:
        raise HiddenStateError(f"how is {how!r}, but n and temperature are for how='sample'.")
    if how == "beam":
        check_counts(width=width)
        if not symbols:
            raise HiddenStateError(
                f"how is 'beam', but targets are {describe(form.support)}; a beam search takes symbols. Use 'greedy' "
                "or 'sample'."
            )
        if not penalty >= 0 or not np.isfinite(penalty):
            raise HiddenStateError(f"length_penalty is {penalty!r}; it must be a number from 0 on.")
        return Beam(int(width), float(penalty))
    said = describe(form.support)
    if not symbols and said not in ("real numbers", "0 or 1"):
        raise HiddenStateError(
            f"how is 'greedy', but targets are {said}, of which there is no one value to go on with; use 'sample'."
        )
    return Expect(said == "0 or 1")
