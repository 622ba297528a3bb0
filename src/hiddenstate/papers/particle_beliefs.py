"""What particle filters say of many sequences of a hidden Markov model, each with random numbers of its own.

Choe, Shin and Spencer (2017, section 2.3) print particle weights that leave out the factor p(x_t | H_{t-1}); the
filters here weigh by p(x_t | H_t) p(H_t | H_{t-1}) / q(H_t | H_{t-1}, x_t), which for particles that move as the model
does is p(x_t | H_t).
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from hiddenstate._types import Array, PRNGKeyArray
from hiddenstate.core import Steps
from hiddenstate.data.tasks import HMMTask
from hiddenstate.latent import HMM, ParticleFilter, emissions
from hiddenstate.strategies import Auto, over_time

PARTICLES_AT_ONCE = 2**20
"""How many particles are in memory at a time: sequences are taken in groups of that many together."""


def filter_of(task: HMMTask, particles: int, proposal: str = "bootstrap", *, key: PRNGKeyArray) -> ParticleFilter:
    """A particle filter that knows the true probabilities of a task."""
    model = HMM(task.initial, task.transition, emissions.Categorical(task.emission))
    return ParticleFilter(model, particles, proposal, key=key)


def filtered_states(particles: ParticleFilter, symbols: np.ndarray, *, key: PRNGKeyArray) -> np.ndarray:
    """The weight of each state among the particles, given x_1 .. x_t: (sequence, time, state)."""
    return _over_sequences(_marginals, particles, symbols, key)


def last_move_summed(task: HMMTask, filtered: np.ndarray, symbols: np.ndarray) -> np.ndarray:
    """p(z_t | x_1 .. x_t) as particles before the last move say it: (sequence, time, state).

    Where the particles went last is an expectation that is known, given where they were: the belief of the weighted
    particles moves by the transition matrix, and Bayes' rule takes in the symbol. What is left of the noise of drawing
    comes from earlier moves (Rao and Blackwell).
    """
    first = np.broadcast_to(task.initial, filtered[:, :1].shape)
    joint = np.concatenate([first, filtered[:, :-1] @ task.transition], axis=1) * task.emission.T[symbols]
    return joint / joint.sum(axis=-1, keepdims=True)


def predicted_symbols(particles: ParticleFilter, symbols: np.ndarray, *, key: PRNGKeyArray) -> np.ndarray:
    """The probability of each symbol at t by the particles given x_1 .. x_{t-1}: (sequence, time, symbol)."""
    return _over_sequences(_predictions, particles, symbols, key)


def _marginals(particles: ParticleFilter, xs: Array) -> Array:
    marginals = particles.filter(Steps(xs), Auto()).marginals
    assert marginals is not None
    return marginals


def _predictions(particles: ParticleFilter, xs: Array) -> Array:
    def probs(state: Any, *_: Any) -> Array:
        mixture: Any = particles.readout(state)
        return jax.vmap(lambda x: jnp.exp(mixture.log_prob(x)))(jnp.arange(symbols))

    symbols = particles.model.latent_emission(jnp.int32(0), None).probs.shape[-1]
    return over_time(particles, Auto(), particles.initial(), Steps(xs), probs)[0]


def _over_sequences(
    says: Callable[[ParticleFilter, Array], Array], particles: ParticleFilter, symbols: np.ndarray, key: PRNGKeyArray
) -> np.ndarray:
    together = max(1, min(len(symbols), PARTICLES_AT_ONCE // (particles.particles * symbols.shape[1])))
    return np.asarray(_mapped(says, particles, jnp.asarray(symbols), key, together), np.float64)


@eqx.filter_jit
def _mapped(says: Any, particles: ParticleFilter, symbols: Array, key: PRNGKeyArray, together: int) -> Array:
    keys = jr.split(key, len(symbols))
    return jax.lax.map(lambda one: says(particles.reseed(one[0]), one[1]), (keys, symbols), batch_size=together)
