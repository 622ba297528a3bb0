r"""The same recursions over a dense chain, all steps at once by associative scans (Särkkä and García-Fernández 2021;
Hassan, Särkkä and García-Fernández 2021).

An element says, for every state that a stretch of steps may begin in, where it ends (a row of probabilities) and how
probable its observations are (a logarithm for each row): rows are scaled each by itself, so that none underflows.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.latent.hmm.operators import Dense
from hiddenstate.latent.hmm.recursions import Chain, Forward, condition, hold, ratio
from hiddenstate.ops.simplex import safe_log


class Stretch(NamedTuple):
    """One step or many: `log_likelihoods` of the observations given the state before, `matrix` the state behind.

    `matrix` is None where it is the chain's own, for one step.
    """

    log_likelihoods: Float[Array, " state"]
    matrix: Float[Array, "state state"] | None = None


def join(earlier: Stretch, later: Stretch) -> Stretch:
    """Both stretches as one; both matrices must be there."""
    first: Any = earlier.matrix
    second: Any = later.matrix
    joint = safe_log(first) + later.log_likelihoods[None, :]
    top = jax.lax.stop_gradient(joint.max(1))
    possible = top > -jnp.inf
    weights = jnp.exp(joint - jnp.where(possible, top, 0.0)[:, None])
    total = jnp.where(possible, weights.sum(1), 1.0)
    matrix = (weights / total[:, None]) @ second
    scale = jnp.where(possible, top + jnp.log(total), -jnp.inf)
    return Stretch(earlier.log_likelihoods + scale, matrix)


def forward(
    chain: Chain,
    belief: Float[Array, " state"],
    log_likelihoods: Float[Array, "time state"],
    valid: Shaped[Array, " time"] | None,
) -> Forward:
    """The forward recursion as a parallel scan."""
    time = len(log_likelihoods)
    matrices = _matrices(chain, time)
    if valid is not None:
        log_likelihoods = jnp.where(valid[:, None], log_likelihoods, 0.0)
        matrices = jnp.where(valid[:, None, None], matrices, jnp.eye(belief.size, dtype=belief.dtype))
    prefixes = jax.lax.associative_scan(jax.vmap(join), Stretch(log_likelihoods, matrices))
    moved = jax.vmap(lambda part: condition(belief, part.log_likelihoods)[0] @ part.matrix)(prefixes)
    predicted = jnp.concatenate([belief[None], moved[:-1]])
    filtered, evidence = jax.vmap(condition)(predicted, log_likelihoods)
    evidence = evidence if valid is None else jnp.where(valid, evidence, 0.0)
    return Forward(predicted, filtered, evidence, moved[-1])


def smooth(chain: Chain, found: Forward, valid: Shaped[Array, " time"] | None) -> Float[Array, "time state"]:
    """The marginals as products of the chain's matrices in reversed time, which are stochastic: nothing to scale."""
    time = len(found.filtered)
    if time == 1:
        return found.filtered
    matrices = _matrices(chain, time)[:-1]
    back = found.filtered[:-1, :, None] * ratio(matrices, found.predicted[1:, None, :])
    if valid is not None:
        # A step whose successor is none begins the recursion: every column is its own filtered belief.
        back = jnp.where(valid[1:, None, None], back, found.filtered[:-1, :, None])
    later = jax.lax.associative_scan(lambda a, b: jnp.einsum("tij,tjk->tik", b, a), back, reverse=True)
    marginals = jnp.einsum("tij,j->ti", later, found.filtered[-1])
    marginals = marginals / marginals.sum(-1, keepdims=True)
    return jnp.concatenate([marginals, found.filtered[-1:]])


def best_path(
    chain: Chain,
    belief: Float[Array, " state"],
    log_likelihoods: Float[Array, "time state"],
    valid: Shaped[Array, " time"] | None,
) -> Shaped[Array, " time"]:
    """The most probable path: best scores by a scan of max-plus products, then the composed maps of predecessors."""
    time, states = log_likelihoods.shape
    first = safe_log(belief) + log_likelihoods[0]
    if time == 1:
        return jnp.argmax(first)[None].astype(jnp.int32)
    log_matrices = safe_log(_matrices(chain, time))[:-1]
    scores = log_matrices + log_likelihoods[1:, None, :]
    following = None if valid is None else valid[1:]
    if following is not None:
        stay = safe_log(jnp.eye(states, dtype=belief.dtype))
        scores = jnp.where(following[:, None, None], scores, stay)
    prefixes = jax.lax.associative_scan(jax.vmap(_max_plus), scores)
    best = jnp.concatenate([first[None], (first[None, :, None] + prefixes).max(1)])
    pointers = (best[:-1, :, None] + log_matrices).argmax(1).astype(jnp.int32)
    if following is not None:
        pointers = jnp.where(following[:, None], pointers, jnp.arange(states, dtype=jnp.int32))
    return _composed(pointers, jnp.argmax(best[-1]).astype(jnp.int32))


def sampled_path(
    chain: Chain, found: Forward, noise: Float[Array, "time state"], valid: Shaped[Array, " time"] | None
) -> Shaped[Array, " time"]:
    """A path drawn from the posterior, the same as in sequence: a predecessor for every state, then composed."""
    filtered = hold(found.filtered, valid)
    end = jnp.argmax(safe_log(filtered[-1]) + noise[-1]).astype(jnp.int32)
    time, states = filtered.shape
    if time == 1:
        return end[None]
    every = jnp.arange(states, dtype=jnp.int32)
    draw = lambda matrix, belief, row: jax.vmap(lambda s: Dense(matrix).draw(belief, s, row))(every)  # noqa: E731
    maps = jax.vmap(draw)(_matrices(chain, time)[:-1], filtered[:-1], noise[:-1])
    if valid is not None:
        maps = jnp.where(valid[1:, None], maps, every)
    return _composed(maps, end)


def _composed(maps: Shaped[Array, "earlier state"], end: Any) -> Shaped[Array, " time"]:
    """Where maps of a state to its predecessor lead from the end, at every step."""
    later = jax.lax.associative_scan(lambda a, b: jax.vmap(lambda f, g: g[f])(a, b), maps, reverse=True)
    return jnp.append(later[:, end], end)


def _max_plus(earlier: Float[Array, "i j"], later: Float[Array, "j k"]) -> Float[Array, "i k"]:
    product = (earlier[:, :, None] + later[None, :, :]).max(1)
    top = product.max()
    return product - jnp.where(top > -jnp.inf, top, 0.0)


def _matrices(chain: Chain, time: int) -> Float[Array, "time state state"]:
    matrix = chain.operator.matrix
    return matrix if chain.varying else jnp.broadcast_to(matrix, (time, *matrix.shape))
