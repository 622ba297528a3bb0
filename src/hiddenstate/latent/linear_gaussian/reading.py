"""The distribution of the next observation, from a belief over the hidden state."""

import jax.numpy as jnp
from numpyro.distributions import Distribution

from hiddenstate._types import Array
from hiddenstate.distributions import MultivariateNormalDistribution, NormalDistribution
from hiddenstate.latent.linear_gaussian.system import Belief, System
from hiddenstate.ops.gaussian import outer, symmetric


def predicted(system: System, belief: Belief, *, scalar: bool) -> Distribution:
    """The Gaussian of the next observation; a diffuse direction gives it an infinite variance."""
    mean = system.emission @ belief.mean + system.offset
    spread = system.emission @ belief.covariance @ system.emission.T + outer(system.emission_noise)
    unknown = _undetermined(system, belief)
    if scalar:
        deviation = jnp.sqrt(spread[0, 0])
        if unknown is not None:
            deviation = jnp.where(unknown[0], jnp.inf, deviation)
        return NormalDistribution(mean[0], deviation, validate_args=False)
    if unknown is None:
        root = jnp.linalg.cholesky(symmetric(spread))
    else:
        eye = jnp.eye(mean.shape[0], dtype=mean.dtype)
        root = jnp.linalg.cholesky(jnp.where(unknown[:, None] | unknown, eye, spread))
        root = jnp.where(unknown[:, None] & (eye > 0), jnp.inf, root)
    return MultivariateNormalDistribution(mean, scale_tril=root, validate_args=False)


def _undetermined(system: System, belief: Belief) -> Array | None:
    """Which entries of the observation see a diffuse direction, beyond rounding; None where there is none."""
    if belief.diffuse is None:
        return None
    reach = jnp.abs(system.emission) @ jnp.abs(belief.diffuse)
    through = jnp.square(system.emission @ belief.diffuse).sum(1)
    return through > jnp.finfo(belief.mean.dtype).eps * jnp.square(reach.sum(1))
