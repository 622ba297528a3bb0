r"""The joint distribution of observations and hidden states, from the conditionals of a graphical model.

.. math::

    p(x_{1:T}, h_{1:T}) = \prod_v p(v \mid \text{parents}(v))

Where a state is computed, its conditional is a point mass. Summing the hidden states out of it gives back what the
model itself says of the observations (theorem 5 of Choe, Shin and Spencer 2017); `marginal` does this sum.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import networkx as nx
import numpy as np
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Float, Num, PRNGKeyArray, State
from hiddenstate.core import (
    DataError,
    HiddenStateError,
    SequenceModel,
    Sequences,
    checked_key,
    dtype_of,
    has,
    name_of,
)
from hiddenstate.inference.observations import check_sequences, prototype
from hiddenstate.inference.score import states as states_of
from hiddenstate.inference.simulate import check_counts
from hiddenstate.inspect.graphs import check_graph
from hiddenstate.latent.particle.conditionals import draw, single, state_count

MOST_SEQUENCES = 4096
"""How many sequences `marginal` goes through."""


class Joint(NamedTuple):
    """Observations and hidden states drawn together, both with leading axes (sequence, time)."""

    observed: Num[Array, "sequence time ..."]
    hidden: State


class Marginal(NamedTuple):
    """All sequences (sequence, time, ...) and the log-probability of each, with the hidden states summed out."""

    sequences: np.ndarray
    log_probs: np.ndarray


def sample_joint(graph: nx.DiGraph, *, key: PRNGKeyArray, n: int = 1, inputs: Any = None) -> Joint:
    """`n` draws of all variables, each after its parents (remark 2 of Choe, Shin and Spencer 2017).

    `inputs` (steps, inputs) are needed where the model takes them, and serve all draws.
    """
    check_counts(n=n)
    model, latent = _model_of(graph)
    us = _inputs(graph, inputs)
    keys = jr.split(checked_key(key), n)
    return (_draw_latent if latent else _draw_recurrence)(model, us, keys, graph.graph["steps"])


def log_joint(
    graph: nx.DiGraph, observed: Any, hidden: State, *, inputs: Any = None, tolerance: float | None = None
) -> Float[Array, " sequence"]:
    r"""The logarithm of the product of all conditionals, for each sequence.

    `observed` and `hidden` are what `sample_joint` gives: observations (sequence, time, ...) and the states at these
    steps. A computed state counts 0 where it is what its parents make of it, and :math:`-\infty` where it differs by
    more than rounding: by more than `tolerance`, absolute up to 1 and relative beyond, which is by default the root
    of the precision. The logarithm is that of the density of the rest with respect to these point masses.
    """
    model, latent = _model_of(graph)
    us = _inputs(graph, inputs)
    xs = _observations(graph, model, observed, us)
    hidden = _hidden(graph, model, latent, hidden, len(xs))
    if tolerance is None:
        tolerance = float(np.sqrt(np.finfo(dtype_of(model)).eps))
    elif isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not tolerance >= 0:
        raise HiddenStateError(f"tolerance is {tolerance!r}; it must be a number from 0 on.")
    return _log_joint_latent(model, xs, hidden, us) if latent else _log_joint(model, xs, hidden, us, tolerance)


def marginal(graph: nx.DiGraph, *, given: int = 0, inputs: Any = None) -> Marginal:
    r"""The probability of every sequence of symbols or bits, by summing the hidden states out of the joint.

    .. math::

        p(x_{k+1:T} \mid x_{1:k}) = \frac{\sum_h p(x_{1:T}, h)}{\sum_{x_{k+1:T}} \sum_h p(x_{1:T}, h)}

    with k = `given` first observations given. The sum is over all values that the hidden variables can take: the
    hidden states of an HMM; of a network all states that some sequence leads to, each of which is tried for each
    sequence. It is meant for few steps.
    """
    model, latent = _model_of(graph)
    us = _inputs(graph, inputs)
    steps = graph.graph["steps"]
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < steps:
        raise HiddenStateError(f"given is {given!r}; it must be a whole number from 0 to {steps - 1}.")
    alphabet = _alphabet(model, latent)
    if len(alphabet) ** steps > MOST_SEQUENCES:
        raise HiddenStateError(
            f"there are {len(alphabet)}^{steps} sequences, but marginal goes through {MOST_SEQUENCES} at most; make a "
            "graph of fewer steps."
        )
    digits = np.stack(np.unravel_index(np.arange(len(alphabet) ** steps), (len(alphabet),) * steps), 1)
    tables = _latent_tables(model, alphabet, us, steps) if latent else _state_tables(model, alphabet, digits, us)
    probs = _summed(tables)
    probs = probs.reshape(len(alphabet) ** given, -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_probs = np.log(probs) - np.log(probs.sum(1, keepdims=True))
    return Marginal(alphabet[digits], log_probs.ravel())


# -- sampling ------------------------------------------------------------------------------------------------


@eqx.filter_jit
def _draw_recurrence(model: SequenceModel, us: Any, keys: Any, steps: int) -> Joint:
    def advance(state, at):
        key, u = at
        x: Any = model.readout(state, u).sample(key)
        return model.step(state, model.prepare(x, u)), Joint(x, state)

    def one(key):
        return jax.lax.scan(advance, model.initial(), (jr.split(key, steps), us))[1]

    return jax.vmap(one)(keys)


@eqx.filter_jit
def _draw_latent(model: Any, us: Any, keys: Any, steps: int) -> Joint:
    dtype = dtype_of(model)

    def advance(z, at):
        key, u = at
        emit_key, move_key = jr.split(key)
        x = draw(single(model.latent_emission(z, u)), emit_key, dtype)
        return draw(_next(model, z, u, x), move_key, dtype), Joint(x, z)

    def one(key):
        first_key, key = jr.split(key)
        first = draw(model.latent_initial(), first_key, dtype)
        return jax.lax.scan(advance, first, (jr.split(key, steps), us))[1]

    return jax.vmap(one)(keys)


def _next(model: Any, z: Any, u: Any, x: Any) -> Distribution:
    """The distribution of the next hidden variable; that of a network whose cell is noisy has read x."""
    if has(model, "latent_update"):
        return model.latent_update(z, model.prepare(x, u))
    return single(model.latent_next(z, u))


# -- the product of the conditionals -------------------------------------------------------------------------


@eqx.filter_jit
def _log_joint(model: SequenceModel, xs: Any, hidden: State, us: Any, tolerance: Any) -> Array:
    def one(xs, states):
        due = jax.vmap(lambda state, x, u: model.step(state, model.prepare(x, u)))(states, xs, us)
        due = jax.tree.map(lambda first, later: jnp.concatenate([first[None], later[:-1]]), model.initial(), due)
        same = [_same(given, made, tolerance) for given, made in zip(*map(jax.tree.leaves, (states, due)), strict=True)]
        seen: Any = jax.vmap(lambda state, x, u: model.readout(state, u).log_prob(x))(states, xs, us)
        return jnp.where(jnp.stack(same).all(), seen.sum(), -jnp.inf)

    return jax.vmap(one)(xs, hidden)


def _same(given: Any, due: Any, tolerance: Any) -> Any:
    if not jnp.issubdtype(due.dtype, jnp.inexact):
        return (given == due).all()
    close = jnp.abs(given - due) <= tolerance * jnp.maximum(1.0, jnp.abs(due))
    return (close | (given == due)).all()  # equal infinities have no difference


@eqx.filter_jit
def _log_joint_latent(model: Any, xs: Any, hidden: Any, us: Any) -> Array:
    def one(xs, zs):
        first = model.latent_initial().log_prob(zs[0])
        seen: Any = jax.vmap(lambda z, x, u: single(model.latent_emission(z, u)).log_prob(x))(zs, xs, us)
        before = None if us is None else us[:-1]
        moved: Any = jax.vmap(lambda z, after, x, u: _next(model, z, u, x).log_prob(after))(
            zs[:-1], zs[1:], xs[:-1], before
        )
        return first + seen.sum() + moved.sum()

    return jax.vmap(one)(xs, hidden)


# -- summing hidden states out -------------------------------------------------------------------------------


class _Tables(NamedTuple):
    """The conditionals at every step as tables over the values that each variable can take.

    first (state), emission of each step (state, symbol), move to the next step (state, symbol, state).
    """

    first: np.ndarray
    emission: list[np.ndarray]
    move: list[np.ndarray]


def _summed(tables: _Tables) -> np.ndarray:
    """The probability of every sequence, in lexicographic order: sums over one hidden variable after another."""
    weights = tables.first[None]
    for emission, move in zip(tables.emission[:-1], tables.move, strict=True):
        weights = np.einsum("ph,hx,hxn->pxn", weights, emission, move, optimize=True).reshape(-1, move.shape[2])
    return (weights @ tables.emission[-1]).ravel()


def _state_tables(model: SequenceModel, alphabet: np.ndarray, digits: np.ndarray, us: Any) -> _Tables:
    """The tables of a network. Its states at a step are all that some beginning of a sequence leads to."""
    count, steps = len(alphabet), digits.shape[1]
    reached = states_of(model, _sequences(alphabet[digits], us))
    rows = np.concatenate([np.arange(count**t) * count ** (steps - t) for t in range(steps)])
    times = np.repeat(np.arange(steps), [count**t for t in range(steps)])
    points = jax.tree.map(lambda a: a[rows, times], reached)
    at = None if us is None else us[times]
    emission, following = _conditionals(model, points, jnp.asarray(alphabet, _kind(alphabet, model)), at)
    values, following = _flat(points, 1), _flat(following, 2)
    where = [times == t for t in range(steps)]
    move = [_point_masses(following[here], values[there]) for here, there in pairwise(where)]
    return _Tables(np.ones(1), [np.exp(np.asarray(emission, float))[here] for here in where], move)


def _sequences(values: np.ndarray, us: Any) -> Sequences:
    known = None if us is None else np.broadcast_to(np.asarray(us), (len(values), *us.shape))
    return Sequences.padded(values, inputs=known)


@eqx.filter_jit
def _conditionals(model: SequenceModel, points: State, alphabet: Any, us: Any) -> tuple[Any, State]:
    def each(state, u):
        read = model.readout(state, u)
        return jax.vmap(lambda x: (read.log_prob(x), model.step(state, model.prepare(x, u))))(alphabet)

    return jax.vmap(each)(points, us)


def _point_masses(following: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Where each state goes (state, symbol, state): all mass on the value that is nearest to what was computed."""
    flat = following.reshape(-1, following.shape[2])
    distance = np.zeros((len(flat), len(values)))
    for entry in range(flat.shape[1]):
        np.maximum(distance, np.abs(flat[:, entry, None] - values[:, entry]), out=distance)
    nearest = distance.argmin(1)
    if (distance.min(1) > 1e-3 * np.maximum(1.0, np.abs(flat).max(1))).any():
        raise AssertionError("an update leads to a state that no sequence leads to")
    moves = np.zeros((*following.shape[:2], len(values)))
    moves.reshape(len(flat), -1)[np.arange(len(flat)), nearest] = 1.0
    return moves


def _flat(tree: Any, axes: int) -> np.ndarray:
    """All numbers of a state in one row, infinities as very large ones, so that they can be compared."""
    leaves: list[Any] = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    rows = [leaf.reshape(*leaf.shape[:axes], -1) for leaf in leaves]
    parts = [part.astype(float) for row in rows for part in (row.real, row.imag)]
    return np.nan_to_num(np.concatenate(parts, -1), posinf=1e300, neginf=-1e300)


def _latent_tables(model: Any, alphabet: np.ndarray, us: Any, steps: int) -> _Tables:
    states = state_count(model)
    if states is None:
        raise HiddenStateError(
            f"the hidden variables of {name_of(model)} are no symbols, so they cannot be summed out one by one; "
            "marginal takes networks without noise, and latent models such as hs.HMM."
        )
    symbols = jnp.asarray(alphabet, _kind(alphabet, model))
    first, emission, move = _latent_conditionals(model, jnp.arange(states), symbols, us, steps)
    return _Tables(np.asarray(first), list(np.asarray(emission)), list(np.asarray(move[:-1])))


@eqx.filter_jit
def _latent_conditionals(model: Any, zs: Any, symbols: Any, us: Any, steps: int) -> Any:
    def at(u):
        emission = jax.vmap(lambda z: jax.vmap(single(model.latent_emission(z, u)).log_prob)(symbols))(zs)
        move = jax.vmap(lambda z: jax.vmap(lambda x: _next(model, z, u, x).log_prob(zs))(symbols))(zs)
        return jnp.exp(emission), jnp.exp(move)

    first = jnp.exp(model.latent_initial().log_prob(zs))
    return first, *jax.vmap(at, axis_size=steps)(us)


def _alphabet(model: Any, latent: bool) -> np.ndarray:
    """All values that one observation can take."""
    event = _event(model, latent)
    support: Any = event.support
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    highest = getattr(support, "upper_bound", None)
    if event.is_discrete and event.event_shape == () and highest is not None and highest < MOST_SEQUENCES:
        return np.arange(int(highest) + 1)
    if event.is_discrete and "Boolean" in type(support).__name__ and np.prod(event.event_shape) <= 8:
        size = int(np.prod(event.event_shape))
        bits = np.stack(np.unravel_index(np.arange(2**size), (2,) * size), -1) if size else np.arange(2)
        return bits.reshape(-1, *event.event_shape)
    raise HiddenStateError(f"{name_of(model)} has observations that are no symbols or bits; marginal goes through all.")


# -- checks --------------------------------------------------------------------------------------------------


def _model_of(graph: nx.DiGraph) -> tuple[Any, bool]:
    """The model of a graph, and whether its hidden variables are drawn rather than computed."""
    check_graph(graph)
    model, pattern = graph.graph["model"], graph.graph["pattern"]
    if model is None:
        raise HiddenStateError(
            f"graph is the example {pattern.name!r}, which has no numbers; take hs.inspect.graph of a model."
        )
    state = next(variable for variable in pattern.variables if variable.letter == pattern.state)
    if any(variable.between for variable in pattern.variables):
        raise HiddenStateError(
            "graph shows particles one by one, whose conditionals are not kept; "
            "hs.inspect.graph(model, steps, view='recurrence') takes them together, with their seed."
        )
    latent = state.conditional == "random"
    history = latent and getattr(getattr(model, "emission", None), "history", 0)
    moves = has(model, "latent_next") or has(model, "latent_update")
    if latent and (history or not moves or not has(model, "latent_initial") or not has(model, "latent_emission")):
        raise HiddenStateError(
            f"{name_of(model)} has no plain conditionals of x_t and z_t+1 given z_t: it is diffuse, varies in time, or "
            "its emissions see the past; hs.inspect.graph(model, steps, view='recurrence') takes its belief."
        )
    return model, latent


def _event(model: Any, latent: bool) -> Distribution:
    """One observation's distribution with shapes in place of numbers."""
    if not latent:
        return prototype(model)
    u = jnp.zeros(model.inputs, dtype_of(model)) if model.inputs else None
    z = jax.eval_shape(lambda key: draw(model.latent_initial(), key, dtype_of(model)), jr.key(0))
    return jax.eval_shape(lambda z: single(model.latent_emission(z, u)), z)


def _kind(values: np.ndarray, model: Any) -> Any:
    return jnp.int32 if np.issubdtype(values.dtype, np.integer) else dtype_of(model)


def _inputs(graph: nx.DiGraph, inputs: Any) -> Any:
    model, steps = graph.graph["model"], graph.graph["steps"]
    if not model.inputs:
        return None
    if np.shape(inputs) != (steps, model.inputs):
        raise DataError(f"inputs has shape {np.shape(inputs)}; it must be ({steps}, {model.inputs}).")
    return jnp.asarray(inputs, dtype_of(model))


def _observations(graph: nx.DiGraph, model: Any, observed: Any, us: Any) -> Any:
    """Checked observations (sequence, time, ...) of as many steps as the graph has."""
    steps = graph.graph["steps"]
    values = np.asarray(observed)
    if values.ndim < 2 or values.shape[1] != steps:
        raise DataError(
            f"observed has shape {np.shape(observed)}; its axes must be (sequence, time, ...) with {steps} steps."
        )
    if isinstance(model, SequenceModel):
        check_sequences(model, _sequences(values, us))
    return jnp.asarray(values, _kind(values, model))


def _hidden(graph: nx.DiGraph, model: Any, latent: bool, hidden: State, count: int) -> State:
    """Checked states with leading axes (sequence, time)."""
    if latent:
        due = jax.eval_shape(lambda key: draw(model.latent_initial(), key, dtype_of(model)), jr.key(0))
    else:
        due = jax.eval_shape(model.initial)
    lead = (count, graph.graph["steps"])
    shapes = [(*lead, *leaf.shape) for leaf in jax.tree.leaves(due)]
    got = [np.shape(leaf) for leaf in jax.tree.leaves(hidden)]
    if jax.tree.structure(due) != jax.tree.structure(hidden) or shapes != got:
        raise DataError(f"hidden has arrays of shapes {got}; states of {name_of(model)} at all steps have {shapes}.")
    return jax.tree.map(lambda leaf, like: jnp.asarray(leaf, like.dtype), hidden, due)
