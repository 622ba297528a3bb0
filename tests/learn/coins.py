"""A latent model so small that its posterior is one line: at every step one of several coins is drawn and tossed."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist

import hiddenstate as hs
from hiddenstate.core import Prior


class Tossed(NamedTuple):
    """How often each coin showed each side, and how often it was drawn."""

    shown: jax.Array
    occupancy: jax.Array


@hs.register("test-coins")
class Coins(hs.SequenceModel):
    """Which coin is hidden, which of `sides` it shows is seen (and missing steps are told by their mask)."""

    weights: jax.Array
    probs: jax.Array
    broken: bool = eqx.field(static=True, default=False)

    def initial(self):
        return jnp.zeros((), self.weights.dtype)

    def prepare(self, x, u=None):
        return self.prepare_partial(x, u, True)

    def prepare_partial(self, x, u, observed):
        return jnp.where(observed, jnp.log(self.weights @ self.probs[:, x]), 0)

    def evidence(self, state, element):
        return element

    def step(self, state, element):
        return state

    def readout(self, state, u=None):
        return dist.Categorical(probs=self.weights @ self.probs)

    def expected_statistics(self, steps, strategy):
        seen = jnp.ones(steps.length, bool) if steps.observed is None else steps.observed
        seen = seen if steps.valid is None else seen & steps.valid
        joint = self.weights * self.probs[:, steps.values].T
        total = joint.sum(1)
        owned = jnp.where(seen[:, None], joint / total[:, None], 0)
        shown = owned.T @ jax.nn.one_hot(steps.values, self.probs.shape[1], dtype=owned.dtype)
        return Tossed(shown, owned.sum(0)), jnp.where(seen, jnp.log(total), 0).sum()

    def maximise(self, statistics, *, prior=None, only=None):
        prior = Prior() if prior is None else prior
        counts = statistics.shown + prior.pseudocount
        totals = counts.sum(1, keepdims=True)
        probs = jnp.where(totals > 0, counts / jnp.where(totals > 0, totals, 1), self.probs)
        weights = totals[:, 0] / totals.sum()
        if self.broken:
            probs = (probs + probs[:, ::-1]) / 2
        weights = weights if only is None or "weights" in only else self.weights
        probs = probs if only is None or "probs" in only else self.probs
        return Coins(weights, probs, self.broken)

    def restart(self, data, *, key, how):
        first, second = jr.split(key)
        weights = jr.dirichlet(first, jnp.ones(len(self.weights)))
        probs = jr.dirichlet(second, jnp.ones(self.probs.shape[1]), (len(self.weights),))
        return Coins(weights.astype(self.weights.dtype), probs.astype(self.probs.dtype), self.broken)

    def reseed(self, empty, data, *, key):
        fresh = self.restart(data, key=key, how="random")
        empty = jnp.asarray(empty)
        weights = jnp.where(empty, 1 / len(empty), self.weights)
        return Coins(weights / weights.sum(), jnp.where(empty[:, None], fresh.probs, self.probs), self.broken)


def coins(count=3, sides=4, *, seed=0, dtype="float64", broken=False):
    key = jr.key(seed)
    model = Coins(jnp.ones(count, dtype) / count, jnp.ones((count, sides), dtype) / sides, broken)
    return model.restart(None, key=key, how="random")


def tosses(count=20, length=12, *, sides=4, seed=0, ragged=True, missing=0.0):
    random = np.random.default_rng(seed)
    lengths = random.integers(2, length + 1, count) if ragged else np.full(count, length)
    probs = random.dirichlet(np.ones(sides))
    values = [random.choice(sides, p=probs, size=n) for n in lengths]
    masks = [random.random(n) < missing for n in lengths] if missing else None
    return hs.Sequences.of(values, missing=masks)
