"""Bits."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.core import Prior, Steps, register
from hiddenstate.latent import checks
from hiddenstate.latent.emissions.emission import NOTHING, PartialEmission, known, replaced, total
from hiddenstate.latent.emissions.seeding import Seen, standardised
from hiddenstate.latent.zeros import floored_log
from hiddenstate.native.streaming import StreamedEmission


class BernoulliDistribution(dist.BernoulliLogits):
    """numpyro's distribution of a bit, also for logits of plus and minus infinity."""

    def log_prob(self, value: Any, intermediates: Any = None) -> Array:
        """The log-probability of each bit."""
        return _log_probs(jnp.asarray(self.logits), value)


class Bits(NamedTuple):
    """Expected counts of ones and of zeros, for each state and entry."""

    ones: Array
    zeros: Array


@register("bernoulli-emission")
class Bernoulli(PartialEmission):
    """Bits that are independent given the hidden state, with probabilities `probs` of a 1.

    `probs` is (state,) where an observation is one bit, (state, bit) where it is a vector of bits. Probabilities that
    are given as 0 or 1 stay so in learning.
    """

    logits: Float[Array, "states *event"]
    certain: Shaped[Array, "states *event"]
    """-1 where the bit is always 0, +1 where it is always 1, else 0."""

    def __init__(self, probs: Any):
        dtype = checks.precision(probs)
        array = checks.numbers("probs", probs, 1, 2)
        checks.refuse((array < 0) | (array > 1), "probs", array, "probabilities lie between 0 and 1")
        certain = np.where(array == 0, -1, np.where(array == 1, 1, 0))
        free = np.where(certain == 0, array, 0.5)
        self.logits = jnp.asarray(np.log(free) - np.log1p(-free), dtype)
        self.certain = jnp.asarray(certain, jnp.int32)

    @property
    def states(self) -> int:
        """The number of hidden states."""
        return self.logits.shape[0]

    @property
    def event_shape(self) -> tuple[int, ...]:
        """One bit, or a vector of bits."""
        return self.logits.shape[1:]

    @property
    def probs(self) -> Float[Array, "states *event"]:
        """The probability of a 1 under each state."""
        return jax.nn.sigmoid(self._logits)

    @property
    def free_parameters(self) -> int:
        """One a bit that is not certain."""
        return int((np.asarray(self.certain) == 0).sum())

    @property
    def _logits(self) -> Float[Array, "states *event"]:
        endless = jnp.where(self.certain > 0, jnp.inf, -jnp.inf).astype(self.logits.dtype)
        return jnp.where(self.certain == 0, self.logits, endless)

    def distribution(self, u: Any = None, past: Any = None) -> dist.Distribution:
        """Independent bits for each state."""
        return BernoulliDistribution(self._logits, validate_args=False).to_event(len(self.event_shape))

    def log_likelihoods(self, x: Any, u: Any = None, past: Any = None) -> Float[Array, " states"]:
        """The sum over bits of the logarithm of the probability of a 1 or of a 0."""
        return self._each(x).reshape(self.states, -1).sum(-1)

    def partial_log_likelihoods(self, x: Any, u: Any, observed: Any) -> Float[Array, " states"]:
        """The same, over the bits that were observed."""
        return jnp.where(observed, self._each(x), 0.0).reshape(self.states, -1).sum(-1)

    def _each(self, x: Any) -> Float[Array, "states *event"]:
        return _log_probs(self._logits, x)

    @property
    def streamed(self) -> StreamedEmission:
        """What a compiled stream takes of it."""
        levels = jnp.stack([self._each(bit).reshape(self.states, -1).T for bit in (0, 1)], axis=1)
        return StreamedEmission("table", "bit", self.event_shape, (levels,))

    def sums(self, weights: Float[Array, "time states"], steps: Steps, pasts: Any = None) -> Bits:
        """Expected counts of ones and zeros."""
        bits = known(steps, weights.dtype)
        there = jnp.ones_like(bits) if steps.observed is None else steps.observed.astype(weights.dtype)
        return Bits(total(weights, bits), total(weights, there - bits))

    def maximise(self, statistics: Bits, prior: Prior = NOTHING) -> "Bernoulli":
        """The shares of ones."""
        pseudocount = jnp.asarray(prior.pseudocount, statistics.ones.dtype)
        ones, zeros = statistics.ones + pseudocount, statistics.zeros + pseudocount
        both = ones + zeros
        some = both > 0
        both = jnp.where(some, both, 1)
        logits = jnp.where(some, floored_log(ones / both) - floored_log(zeros / both), self.logits)
        return replaced(self, logits=jnp.where(self.certain == 0, logits, 0))

    def around(self, seen: Seen, random: np.random.Generator) -> "Bernoulli":
        """The frequencies of ones, moved by random steps in their logits."""
        frequencies = (seen.filled.sum(0) + 0.5) / (len(seen) + 1)
        logits = np.log(frequencies) - np.log1p(-frequencies) + random.normal(size=(self.states, frequencies.size))
        probs = (1 / (1 + np.exp(-logits))).reshape(self.logits.shape)
        certain = np.asarray(self.certain)
        return self.rebuilt({"probs": np.where(certain == 0, probs, certain > 0)})

    def points(self, seen: Seen) -> np.ndarray | None:
        """Vectors of bits are points; single bits say nothing."""
        return standardised(seen.filled) if self.event_shape and self.event_shape[0] > 1 else None


def _log_probs(logits: Array, bits: Any) -> Array:
    return jnp.where(jnp.asarray(bits) > 0, jax.nn.log_sigmoid(logits), jax.nn.log_sigmoid(-logits))
