"""The same recursions over one dense matrix by compiled kernels."""

from typing import NamedTuple

import jax.numpy as jnp

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.latent.hmm.recursions import Chain
from hiddenstate.native import hmm
from hiddenstate.native.operation import one_precision
from hiddenstate.ops.simplex import safe_log


class Filtered(NamedTuple):
    """As `recursions.Forward` without predicted beliefs, and what the way back needs; held behind the end."""

    filtered: Float[Array, "time state"]
    evidence: Float[Array, " time"]
    final: Float[Array, " state"]
    log_likelihoods: Float[Array, "time state"]
    passed: hmm.Passed


def score(
    chain: Chain,
    belief: Float[Array, " state"],
    log_likelihoods: Float[Array, "time state"],
    valid: Shaped[Array, " time"] | None,
) -> tuple[Float[Array, " time"], Float[Array, " state"]]:
    """The log-probability of every step and the last belief, with a derivative that costs one way back."""
    matrix, belief, seen = one_precision(chain.operator.matrix, belief, log_likelihoods)
    found = hmm.forward(matrix, belief, seen, valid)
    return found.evidence, found.final


def predicted(
    chain: Chain,
    belief: Float[Array, " state"],
    log_likelihoods: Float[Array, "time state"],
    valid: Shaped[Array, " time"] | None,
) -> tuple[Float[Array, "time state"], Float[Array, " state"]]:
    """The beliefs before every observation, and the one after the last; behind the end it stands."""
    matrix, belief, seen = one_precision(chain.operator.matrix, belief, log_likelihoods)
    found = hmm.forward(matrix, belief, seen, valid, predicted=True)
    return found.predicted, found.final  # pyright: ignore[reportReturnType]


def forward(
    chain: Chain,
    belief: Float[Array, " state"],
    log_likelihoods: Float[Array, "time state"],
    valid: Shaped[Array, " time"] | None,
) -> Filtered:
    """The forward recursion from a belief before the first observation."""
    matrix, belief, seen = one_precision(chain.operator.matrix, belief, log_likelihoods)
    found = hmm.forward(matrix, belief, seen, valid, filtered=True)
    return Filtered(found.filtered, found.evidence, found.final, seen, found)  # pyright: ignore[reportArgumentType]


def smooth(chain: Chain, found: Filtered, valid: Shaped[Array, " time"] | None) -> Float[Array, "time state"]:
    """The marginals p(z_t | all observations)."""
    return moments(chain, found, valid)[0]


def moments(
    chain: Chain, found: Filtered, valid: Shaped[Array, " time"] | None
) -> tuple[Float[Array, "time state"], Float[Array, "state state"]]:
    """The marginals, and the expected numbers of moves between states, without the pairs of every step."""
    matrix = chain.operator.matrix.astype(found.log_likelihoods.dtype)
    return hmm.smooth(matrix, found.log_likelihoods, found.passed, valid)


def ratios(found: Filtered, marginals: Float[Array, "time state"], valid: Shaped[Array, " time"] | None) -> Array:
    """Smoothed over predicted beliefs of all steps but the first; zero where the later step is none.

    Filtered beliefs are predicted ones times the likelihoods relative to the evidence.
    """
    possible = found.filtered > 0
    seen = found.passed.top > -jnp.inf
    shifted = jnp.where(possible & seen[:, None], found.log_likelihoods - found.passed.top[:, None], 0.0)
    relative = jnp.exp(shifted) / found.passed.total[:, None]
    out = jnp.where(possible, marginals / jnp.where(possible, found.filtered, 1.0) * relative, 0.0)[1:]
    return out if valid is None else jnp.where(valid[1:, None], out, 0.0)


def best_path(
    chain: Chain,
    belief: Float[Array, " state"],
    log_likelihoods: Float[Array, "time state"],
    valid: Shaped[Array, " time"] | None,
) -> tuple[Shaped[Array, " time"], Float[Array, " time"]]:
    """The most probable path, and its log-probability with the observations, step by step."""
    matrix, belief, seen = one_precision(chain.operator.matrix, belief, log_likelihoods)
    return hmm.best_path(safe_log(matrix), safe_log(belief), seen, valid)


def sampled_path(
    chain: Chain, found: Filtered, noise: Float[Array, "time state"], valid: Shaped[Array, " time"] | None
) -> Shaped[Array, " time"]:
    """A path drawn from the posterior, the same as in sequence."""
    matrix, filtered, noise = one_precision(chain.operator.matrix, found.filtered, noise)
    return hmm.sampled_path(matrix, filtered, noise, valid)
