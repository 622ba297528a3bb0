"""Maps between vectors, learned from examples on some sequences to be judged on others."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax

from hiddenstate._types import Array, Float, PRNGKeyArray
from hiddenstate.core import HiddenStateError, Sequences

HELD_OUT = 0.25
"""The share of the sequences on which what was learned is judged."""

_WIDTH = 64
_UPDATES = 2000
_EXAMPLES = 512
_LEARNING_RATE = 1e-2
_ITERATIONS = 200


def parted(data: Sequences, *, key: PRNGKeyArray | None = None) -> tuple[Sequences, Sequences]:
    """Sequences to learn from and sequences to judge by, the last ones or with a key any."""
    if len(data) < 2:
        raise HiddenStateError(
            "data hold one sequence; what is learned from some is judged on others, so give at least 2. "
            "data.pieces(length) cuts one in pieces."
        )
    kept = min(max(1, round((1 - HELD_OUT) * len(data))), len(data) - 1)
    known, others = data.split(kept / len(data), key=key)
    return known, others


# -- least squares -------------------------------------------------------------------------------------------


class Line(NamedTuple):
    """An affine map of rows with any leading axes."""

    weight: np.ndarray
    offset: np.ndarray

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """The images of the rows."""
        return rows @ self.weight + self.offset


def least_squares(inputs: np.ndarray, outputs: np.ndarray) -> Line:
    """The affine map of least squared error from the rows of `inputs` to those of `outputs`, in float64.

    Where several are equally good, as between beliefs, whose entries sum to one, it is the one with least weights.
    """
    centre, level = inputs.mean(axis=0, dtype=np.float64), outputs.mean(axis=0, dtype=np.float64)
    weight = np.linalg.lstsq(inputs - centre, outputs - level, rcond=None)[0]
    return Line(weight, level - centre @ weight)


def r_squared(truth: np.ndarray, found: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """The share of the variance of all columns (row, ..., column) over the valid rows (row, ...) that is explained.

    NaN where they do not vary.
    """
    inside = valid[..., None]
    count = np.maximum(inside.sum(axis=0), 1)
    deviation = np.where(inside, truth - np.where(inside, truth, 0).sum(axis=0) / count, 0)
    error = np.where(inside, truth - found, 0)
    varied, missed = ((part**2).sum(axis=(0, -1)) for part in (deviation, error))
    rounding = valid.sum(axis=0) * (1e-12 * np.abs(np.where(inside, truth, 0)).max(axis=(0, -1), initial=0)) ** 2
    some = varied > rounding
    return np.where(some, 1 - missed / np.where(some, varied, 1), np.nan)


# -- softmax regression --------------------------------------------------------------------------------------


def softmax_regression(inputs: np.ndarray, targets: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The log-probabilities, as a function of rows, whose divergence from the rows of `targets` is least.

    The logits are affine. They are found by L-BFGS on whitened inputs, in at most 200 iterations: where targets are
    certain, there is no best fit, only ever larger weights.
    """
    centre = inputs.mean(axis=0)
    _, sizes, axes = np.linalg.svd(inputs - centre, full_matrices=False)
    used = sizes > sizes.max(initial=0.0) * len(inputs) * np.finfo(np.float32).eps
    whitening = axes[used].T / sizes[used] * np.sqrt(len(inputs))

    def features(rows: np.ndarray) -> Array:
        white = (rows - centre) @ whitening
        return jnp.asarray(np.concatenate([np.ones((*white.shape[:-1], 1)), white], axis=-1))

    weight = _descended(features(inputs), jnp.asarray(targets))
    return lambda rows: np.asarray(jax.nn.log_softmax(features(rows) @ weight), np.float64)


@jax.jit
def _descended(features: Float[Array, "row feature"], targets: Float[Array, "row outcome"]) -> Array:
    optimiser = optax.lbfgs()

    def loss(weight: Array) -> Array:
        return -(targets * jax.nn.log_softmax(features @ weight)).sum(-1).mean()

    def update(carry: Any, _: Any) -> Any:
        weight, state = carry
        value, slope = optax.value_and_grad_from_state(loss)(weight, state=state)
        change, state = optimiser.update(slope, state, weight, value=value, grad=slope, value_fn=loss)
        return (optax.apply_updates(weight, change), state), None

    start = jnp.zeros((features.shape[1], targets.shape[1]), features.dtype)
    return jax.lax.scan(update, (start, optimiser.init(start)), length=_ITERATIONS)[0][0]


# -- maps of single vectors ----------------------------------------------------------------------------------


class Affine(eqx.Module):
    """A matrix product and an offset."""

    weight: Float[Array, "output input"]
    offset: Float[Array, " output"]

    def __call__(self, vector: Float[Array, " input"]) -> Float[Array, " output"]:
        """The image of one vector."""
        return self.weight @ vector + self.offset


class Bent(eqx.Module):
    """An affine map, and what a network of one hidden layer adds to it."""

    affine: Affine
    network: eqx.nn.MLP
    centre: Float[Array, " input"]
    width: Float[Array, " input"]
    scale: Float[Array, " output"]

    def __call__(self, vector: Float[Array, " input"]) -> Float[Array, " output"]:
        """The image of one vector."""
        return self.affine(vector) + self.scale * self.network((vector - self.centre) / self.width)


def affine_fit(inputs: np.ndarray, outputs: np.ndarray) -> Affine:
    """The affine map of least squared error, in the precision of the outputs."""
    line = least_squares(inputs, outputs)
    return Affine(jnp.asarray(line.weight.T, outputs.dtype), jnp.asarray(line.offset, outputs.dtype))


def bent_fit(inputs: np.ndarray, outputs: np.ndarray, *, key: PRNGKeyArray) -> Bent:
    """A map with a hidden layer of tanh units, learned by Adam from the affine map of least squared error on."""
    network_key, draws_key = jr.split(key)
    dtype = outputs.dtype
    inputs = np.asarray(inputs, dtype)
    affine = affine_fit(inputs, outputs)
    network = eqx.nn.MLP(
        inputs.shape[1], outputs.shape[1], _WIDTH, 1, activation=jnp.tanh, dtype=dtype, key=network_key
    )
    last = lambda n: (n.layers[-1].weight, n.layers[-1].bias)  # noqa: E731
    network = eqx.tree_at(last, network, jax.tree.map(jnp.zeros_like, last(network)))
    start = Bent(
        affine, network, jnp.asarray(inputs.mean(0)), jnp.asarray(_spread(inputs)), jnp.asarray(_spread(outputs))
    )
    return _trained(start, jnp.asarray(inputs), jnp.asarray(outputs), draws_key)


@eqx.filter_jit
def _trained(start: Bent, inputs: Any, outputs: Any, key: PRNGKeyArray) -> Bent:
    """The map whose network has learned what the affine map leaves over, on draws of the examples."""
    optimiser = optax.adam(optax.cosine_decay_schedule(_LEARNING_RATE, _UPDATES))
    learned, rest = eqx.partition(start.network, eqx.is_inexact_array)

    def loss(learned, chosen):
        bent = eqx.tree_at(lambda b: b.network, start, eqx.combine(learned, rest))
        error = (jax.vmap(bent)(inputs[chosen]) - outputs[chosen]) / start.scale
        return (error**2).mean()

    def update(carry, key):
        learned, state = carry
        chosen = jr.randint(key, (_EXAMPLES,), 0, len(inputs))
        changes, state = optimiser.update(jax.grad(loss)(learned, chosen), state)
        return (optax.apply_updates(learned, changes), state), None

    (learned, _), _ = jax.lax.scan(update, (learned, optimiser.init(learned)), jr.split(key, _UPDATES))
    return eqx.tree_at(lambda b: b.network, start, eqx.combine(learned, rest))


def _spread(rows: np.ndarray) -> np.ndarray:
    """The standard deviation of each column, 1 where it does not vary."""
    spread = rows.std(axis=0)
    return np.where(spread > 0, spread, 1).astype(rows.dtype)
