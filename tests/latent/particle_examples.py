"""Small models with exact answers, written in NumPy apart from the library."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist

import hiddenstate as hs
from hiddenstate.latent.particle import ParticleFilter, Proposal, StateSpace

# -- a hidden chain of two states that emit three symbols ---------------------------------------------------------

CHAIN = (
    np.array([0.6, 0.4]),
    np.array([[0.8, 0.2], [0.3, 0.7]]),
    np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]),
)
SYMBOLS = np.array([0, 2, 2, 1, 0, 0])


@hs.register("tested-chain-initial")
class ChainInitial(eqx.Module):
    logits: jax.Array

    def __call__(self):
        return dist.CategoricalLogits(self.logits)


@hs.register("tested-chain-rows")
class Rows(eqx.Module):
    """Row z of logits, as a distribution over symbols."""

    logits: jax.Array

    def __call__(self, z, u):
        return dist.CategoricalLogits(self.logits[z])


def chain() -> StateSpace:
    initial, transition, emission = (jnp.log(p) for p in CHAIN)
    return StateSpace(ChainInitial(initial), Rows(transition), Rows(emission))


def chain_exact(xs, missing=(), transition=CHAIN[1]):
    """The log-likelihood, p(z_t | x_1 .. x_t) and p(z_t | x_1 .. x_T), forward and backward."""
    initial, _, emission = CHAIN
    likelihoods = np.array([np.ones(2) if t in missing else emission[:, x] for t, x in enumerate(xs)])
    belief, total, filtered = initial, 0.0, []
    for likelihood in likelihoods:
        joint = belief * likelihood
        total += np.log(joint.sum())
        filtered.append(joint / joint.sum())
        belief = filtered[-1] @ transition
    back, smoothed = np.ones(2), [filtered[-1]]
    for t in range(len(xs) - 1, 0, -1):
        back = transition @ (likelihoods[t] * back)
        both = filtered[t - 1] * back
        smoothed.append(both / both.sum())
    return total, np.array(filtered), np.array(smoothed[::-1])


# -- a linear Gaussian model of one hidden number ------------------------------------------------------------------

PULL, MOVE, NOISE = 0.9, 0.7, 0.8
REALS = np.array([0.3, -0.5, 1.1, 1.6, 0.2, -0.4])


@hs.register("tested-line")
class Line(eqx.Module):
    """A normal distribution around slope * z."""

    slope: jax.Array
    scale: jax.Array

    def __call__(self, z, u):
        return dist.Normal(self.slope * z, self.scale)


@hs.register("tested-normal")
class Normal(eqx.Module):
    loc: jax.Array
    scale: jax.Array

    def __call__(self):
        return dist.Normal(self.loc, self.scale)


def line(linear: bool = False) -> StateSpace:
    a = jnp.asarray
    return StateSpace(Normal(a(0.0), a(1.0)), Line(a(PULL), a(MOVE)), Line(a(1.0), a(NOISE)), linear_emission=linear)


def line_exact(xs, missing=()):
    """The log-likelihood, and the means of z_t given x_1 .. x_t and given all, by Kalman and Rauch-Tung-Striebel."""
    mean, variance, total = 0.0, 1.0, 0.0
    filtered, ahead = [], []
    for t, x in enumerate(xs):
        ahead.append((mean, variance))
        if t not in missing:
            spread = variance + NOISE**2
            total += -0.5 * (np.log(2 * np.pi * spread) + (x - mean) ** 2 / spread)
            gain = variance / spread
            mean, variance = mean + gain * (x - mean), (1 - gain) * variance
        filtered.append((mean, variance))
        mean, variance = PULL * mean, PULL**2 * variance + MOVE**2
    smoothed = [filtered[-1][0]]
    for t in range(len(xs) - 2, -1, -1):
        gain = PULL * filtered[t][1] / ahead[t + 1][1]
        smoothed.append(filtered[t][0] + gain * (smoothed[-1] - ahead[t + 1][0]))
    return total, np.array([m for m, _ in filtered]), np.array(smoothed[::-1])


class Halfway(Proposal):
    """Between where the particle would go and the observation; wider than need be."""

    def sample(self, z_before, x, u, key):
        return 0.5 * (PULL * z_before + x) + 0.9 * jr.normal(key, dtype=x.dtype)

    def log_prob(self, z, z_before, x, u):
        return dist.Normal(0.5 * (PULL * z_before + x), 0.9).log_prob(z)

    def sample_first(self, x, u, key):
        return 0.5 * x + 0.9 * jr.normal(key, dtype=x.dtype)

    def log_prob_first(self, z, x, u):
        return dist.Normal(0.5 * x, 0.9).log_prob(z)


def relative(model: ParticleFilter, data, exact: float, seeds: int, seed: int = 0) -> np.ndarray:
    """The estimated likelihood over the exact one, for many seeds."""
    data = hs.Sequences.of([data]) if isinstance(data, np.ndarray) else data
    run = jax.jit(jax.vmap(lambda key: hs.log_prob(model.reseed(key), data)[0]))
    return np.exp(np.asarray(run(jr.split(jr.key(seed), seeds)), np.float64) - exact)
