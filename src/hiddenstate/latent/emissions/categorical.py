"""Symbols."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.core import Prior, Steps, register
from hiddenstate.latent import checks
from hiddenstate.latent.emissions.emission import NOTHING, PartialEmission, replaced
from hiddenstate.latent.emissions.seeding import Seen
from hiddenstate.latent.zeros import log_distributions, log_shares, logs_of
from hiddenstate.native.streaming import StreamedEmission


@register("categorical-emission")
class Categorical(PartialEmission):
    """Symbols 0, 1, 2, ... with probabilities `probs` (state, symbol) of each under each hidden state.

    Probabilities that are given as zero stay zero in learning. A symbol that EM never meets in a state gets the
    smallest positive probability there instead, so that other data can raise it again.

    >>> Categorical(probs=[[0.9, 0.1], [0.2, 0.8]]).states
    2
    """

    logits: Float[Array, "states symbol"]
    possible: Shaped[Array, "states symbol"]

    def __init__(self, probs: Any):
        dtype = checks.precision(probs)
        array = checks.distributions("probs", checks.numbers("probs", probs, 2), dtype)
        self.logits, self.possible = logs_of(array, dtype)

    @property
    def states(self) -> int:
        """The number of hidden states."""
        return self.logits.shape[0]

    @property
    def symbols(self) -> int:
        """The number of symbols."""
        return self.logits.shape[1]

    @property
    def event_shape(self) -> tuple[int, ...]:
        """One symbol."""
        return ()

    @property
    def log_probs(self) -> Float[Array, "states symbol"]:
        """The logarithms of the probabilities, minus infinity at exact zeros."""
        return log_distributions(self.logits, self.possible)

    @property
    def probs(self) -> Float[Array, "states symbol"]:
        """The probability of each symbol under each state."""
        return jnp.exp(self.log_probs)

    @property
    def block(self) -> int:
        """At least as many steps as there are counts to add them to."""
        return max(super().block, self.logits.size)

    @property
    def free_parameters(self) -> int:
        """One less than the possible symbols of each state."""
        return int(np.asarray(self.possible).sum()) - self.states

    def distribution(self, u: Any = None, past: Any = None) -> dist.Distribution:
        """A categorical distribution for each state."""
        return dist.CategoricalLogits(self.log_probs, validate_args=False)

    def log_likelihoods(self, x: Any, u: Any = None, past: Any = None) -> Float[Array, " states"]:
        """A column of the table of log-probabilities."""
        return self.log_probs.T[jnp.asarray(x, jnp.int32)]

    def partial_log_likelihoods(self, x: Any, u: Any, observed: Any) -> Float[Array, " states"]:
        """The same, and zeros where the symbol is missing."""
        return jnp.where(observed, self.log_likelihoods(x), 0.0)

    @property
    def streamed(self) -> StreamedEmission:
        """What a compiled stream takes of it."""
        return StreamedEmission("table", "symbol", self.event_shape, (self.log_probs.T[None],))

    def sums(
        self, weights: Float[Array, "time states"], steps: Steps, pasts: Any = None
    ) -> Float[Array, "states symbol"]:
        """Expected counts of the symbols."""
        symbols = jnp.asarray(steps.values, jnp.int32)
        if steps.observed is not None:
            weights = jnp.where(steps.observed[:, None], weights, 0)
        return jnp.zeros((self.symbols, self.states), weights.dtype).at[symbols].add(weights).T

    def maximise(self, statistics: Float[Array, "states symbol"], prior: Prior = NOTHING) -> "Categorical":
        """The shares of the counts."""
        counts = statistics + jnp.asarray(prior.pseudocount, statistics.dtype)
        return replaced(self, logits=log_shares(counts, self.possible, self.logits))

    def around(self, seen: Seen, random: np.random.Generator) -> "Categorical":
        """The frequencies of the symbols, times random numbers."""
        counts = np.bincount(seen.steps(float).values.astype(int)[_present(seen)], minlength=self.symbols)[
            : self.symbols
        ]
        drawn = (counts + 0.5) * random.gamma(2.0, size=(self.states, self.symbols)) * np.asarray(self.possible)
        return self.rebuilt({"probs": drawn / drawn.sum(1, keepdims=True)})

    def points(self, seen: Seen) -> None:
        """Symbols have no distances."""
        return None


def _present(seen: Seen) -> Any:
    return slice(None) if seen.observed is None else seen.observed
