"""Real numbers with several peaks within one hidden state."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.core import HiddenStateError, Prior, Steps, dtype_of, register
from hiddenstate.distributions import MixtureDistribution
from hiddenstate.inference.batches import rebatch
from hiddenstate.latent import checks
from hiddenstate.latent.emissions.emission import NOTHING, PartialEmission, replaced
from hiddenstate.latent.emissions.gaussian import Gaussian, Moments
from hiddenstate.latent.emissions.seeding import Seen, clusters, standardised
from hiddenstate.latent.zeros import log_distributions, log_shares, logs_of


class Components(NamedTuple):
    """Expected counts of the components, and their moments."""

    counts: Array
    moments: Moments


@register("gaussian-mixture-emission")
class GaussianMixture(PartialEmission):
    r"""Real numbers from a mixture of normals under each state: :math:`\sum_m w_{km} N(\mu_{km}, \Sigma_{km})`.

    `weights` is (state, component), `means` (state, component) where an observation is one number and
    (state, component, column) where it is a vector. `covariances` are variances of the shape of `means`, or full
    matrices (state, component, column, column). Weights that are given as zero stay zero in learning.
    """

    logits: Float[Array, "states component"]
    possible: Shaped[Array, "states component"]
    components: Gaussian

    def __init__(self, weights: Any, means: Any, covariances: Any):
        dtype = checks.precision(weights, means, covariances)
        shares = checks.numbers("weights", weights, 2)
        centres, spreads = checks.numbers("means", means, 2, 3), checks.numbers("covariances", covariances, 2, 3, 4)
        for name, array in (("means", centres), ("covariances", spreads)):
            checks.same_states("weights", len(shares), name, array)
            if array.shape[1] != shares.shape[1]:
                raise HiddenStateError(
                    f"weights has {shares.shape[1]} components a state, but {name} has {array.shape[1]}: its shape is "
                    f"{array.shape}."
                )
        full = (*centres.shape, *centres.shape[2:])
        if spreads.shape not in (centres.shape, full):
            due = f"{centres.shape} (variances)" + (f" or {full} (full matrices)" if centres.ndim == 3 else "")
            raise HiddenStateError(
                f"covariances has shape {spreads.shape}; with means of shape {centres.shape} it must be {due}."
            )
        self.logits, self.possible = logs_of(checks.distributions("weights", shares, dtype), dtype)
        self.components = Gaussian(
            centres.reshape(-1, *centres.shape[2:]).astype(dtype),
            spreads.reshape(-1, *spreads.shape[2:]).astype(dtype),
            covariance="diagonal" if spreads.shape == centres.shape else "full",
        )

    @property
    def states(self) -> int:
        """The number of hidden states."""
        return self.logits.shape[0]

    @property
    def event_shape(self) -> tuple[int, ...]:
        """One number, or a vector."""
        return self.components.event_shape

    @property
    def weights(self) -> Float[Array, "states component"]:
        """The probability of each component under each state."""
        return jnp.exp(self._log_weights)

    @property
    def means(self) -> Float[Array, "states component *event"]:
        """The mean of each component."""
        return self._unfolded(self.components.means)

    @property
    def covariances(self) -> Float[Array, "states component ..."]:
        """The variances or covariance matrices of each component."""
        return self._unfolded(self.components.covariances)

    @property
    def free_parameters(self) -> int:
        """Those of all components, and one less than the possible components of each state."""
        return self.components.free_parameters + int(np.asarray(self.possible).sum()) - self.states

    @property
    def _log_weights(self) -> Float[Array, "states component"]:
        return log_distributions(self.logits, self.possible)

    def _unfolded(self, array: Any) -> Any:
        return array.reshape(*self.logits.shape, *array.shape[1:])

    def distribution(self, u: Any = None, past: Any = None) -> dist.Distribution:
        """A mixture for each state."""
        parts = rebatch(jax.tree.map(self._unfolded, self.components.distribution()), self.logits.shape)
        return MixtureDistribution(dist.CategoricalLogits(self._log_weights, validate_args=False), parts)

    def log_likelihoods(self, x: Any, u: Any = None, past: Any = None) -> Float[Array, " states"]:
        """The logarithm of the sum over components."""
        return jax.nn.logsumexp(self._log_weights + self._unfolded(self.components.log_likelihoods(x)), axis=-1)

    def partial_log_likelihoods(self, x: Any, u: Any, observed: Any) -> Float[Array, " states"]:
        """The same, of the entries that were observed."""
        parts = self.components.partial_log_likelihoods(x, u, observed)
        return jax.nn.logsumexp(self._log_weights + self._unfolded(parts), axis=-1)

    def sums(self, weights: Float[Array, "time states"], steps: Steps, pasts: Any = None) -> Components:
        """Counts and moments of the components, weighted by how probable each is given the state and x."""
        if steps.observed is None:
            logs = jax.vmap(self.components.log_likelihoods)(steps.values)
        else:
            there = steps.observed.reshape(len(weights), -1).any(-1, keepdims=True)
            weights = jnp.where(there, weights, 0)
            logs = jax.vmap(lambda x, seen: self.components.partial_log_likelihoods(x, None, seen))(
                steps.values, steps.observed
            )
        parts = jax.nn.softmax(self._log_weights + jax.vmap(self._unfolded)(logs), axis=-1) * weights[..., None]
        return Components(parts.sum(0), self.components.sums(parts.reshape(len(parts), -1), steps))

    def maximise(self, statistics: Components, prior: Prior = NOTHING) -> "GaussianMixture":
        """The shares of the components, and what each component makes of its moments."""
        counts = statistics.counts + jnp.asarray(prior.pseudocount, statistics.counts.dtype)
        return replaced(
            self,
            logits=log_shares(counts, self.possible, self.logits),
            components=self.components.maximise(statistics.moments, prior),
        )

    def recentred(self) -> "GaussianMixture":
        """The same distributions, with moments summed around the means."""
        return replaced(self, components=self.components.recentred())

    def permuted(self, order: Any) -> "GaussianMixture":
        """The same states in another order, each with its components."""
        count = self.logits.shape[1]
        flat = (np.asarray(order)[:, None] * count + np.arange(count)).ravel()
        components = self.components.permuted(flat)
        return replaced(self, logits=self.logits[order], possible=self.possible[order], components=components)

    def reseeded(self, empty: np.ndarray, seen: Seen, random: np.random.Generator) -> "GaussianMixture":
        """New components around the values that were seen for the states where `empty` is True."""
        components = self.components.reseeded(np.repeat(empty, self.logits.shape[1]), seen, random)
        return replaced(self, logits=jnp.where(empty[:, None], 0, self.logits), components=components)

    def around(self, seen: Seen, random: np.random.Generator) -> "GaussianMixture":
        """Components at random rows, with the covariance of all rows."""
        components = self.components.around(seen, random)
        return replaced(self, logits=jnp.zeros_like(self.logits), components=components)

    def clustered(self, seen: Seen, labels: np.ndarray, random: np.random.Generator) -> "GaussianMixture":
        """The rows of each cluster in clusters again, one a component."""
        points, count = standardised(seen.filled), self.logits.shape[1]
        inner = np.zeros(len(labels), int)
        for state in np.unique(labels):
            members = labels == state
            inner[members] = clusters(points[members], count, random)
        flat = labels * count + inner
        counts = np.bincount(flat, minlength=self.logits.size).reshape(self.logits.shape) + 1.0
        logits = log_shares(jnp.asarray(counts, dtype_of(self)), self.possible, self.logits)
        return replaced(self, logits=logits, components=self.components.clustered(seen, flat, random))
