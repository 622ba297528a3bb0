"""How long a state lasts: probabilities of 1, 2, ... steps, free or negative binomial."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float
from hiddenstate.core import Frozen, register
from hiddenstate.distributions import NegativeBinomialDistribution
from hiddenstate.latent import checks
from hiddenstate.latent.hmm.rows import Rows

_NEWTON = 20


@register("categorical-durations")
class CategoricalDurations(eqx.Module):
    """Any distribution over 1 .. D steps: row k, entry d - 1 is the probability that state k lasts d steps."""

    rows: Rows

    def __init__(self, probs: Any):
        self.rows = Rows.of("durations", probs, 2)

    @property
    def states(self) -> int:
        """How many states there are."""
        return self.rows.allowed.shape[0]

    @property
    def longest(self) -> int:
        """The most steps that a state lasts."""
        return self.rows.allowed.shape[1]

    @property
    def probs(self) -> Float[Array, "state duration"]:
        """The probabilities."""
        return self.rows.probs

    @property
    def free_parameters(self) -> int:
        """How many numbers can be chosen."""
        return self.rows.free_parameters

    def maximise(self, counts: Float[Array, "state duration"], pseudocount: Any) -> "CategoricalDurations":
        """In proportion to expected counts."""
        return eqx.tree_at(lambda d: d.rows, self, self.rows.with_counts(counts, pseudocount))

    def permuted(self, order: Any) -> "CategoricalDurations":
        """The same with states numbered in another order."""
        return jax.tree.map(lambda a: a[np.asarray(order)], self)


@register("negative-binomial-durations")
class NegativeBinomialDurations(eqx.Module):
    r"""One step and a negative binomial number more, given that it is `longest` steps at most.

    :math:`p(d) \propto \mathrm{NB}(d - 1;\, \mathrm{mean} - 1, r)` for :math:`d = 1 \ldots D`. With concentration
    :math:`r = 1` and a large D this is the geometric distribution of an ordinary HMM; larger r make durations more
    regular. `means` are those before the cut at `longest`, above 1.
    """

    log_mean: Float[Array, " state"] | Frozen
    log_concentration: Float[Array, " state"] | Frozen
    longest: int = eqx.field(static=True)

    def __init__(self, means: Any, concentrations: Any, longest: int):
        given = [a.value if isinstance(a, Frozen) else a for a in (means, concentrations)]
        dtype = checks.precision(*given)
        mean, concentration = checks.numbers("means", given[0], 1), checks.numbers("concentrations", given[1], 1)
        checks.same_states("means", len(mean), "concentrations", concentration)
        checks.refuse(mean <= 1, "means", mean, "a mean duration must be above 1 step")
        checks.positive("concentrations", concentration, "concentrations")
        self.longest = checks.whole("longest", longest)
        wrap = Frozen if isinstance(means, Frozen) else (lambda array: array)
        self.log_mean = wrap(jnp.asarray(np.log(mean - 1), dtype))
        self.log_concentration = wrap(jnp.asarray(np.log(concentration), dtype))

    @property
    def states(self) -> int:
        """How many states there are."""
        return self._values[0].shape[0]

    @property
    def _values(self) -> tuple[Array, Array]:
        mean, concentration = self.log_mean, self.log_concentration
        return (
            mean.value if isinstance(mean, Frozen) else mean,
            concentration.value if isinstance(concentration, Frozen) else concentration,
        )

    @property
    def means(self) -> Float[Array, " state"]:
        """The mean durations before the cut at the longest."""
        return 1 + jnp.exp(self._values[0])

    @property
    def concentrations(self) -> Float[Array, " state"]:
        """How regular the durations are."""
        return jnp.exp(self._values[1])

    @property
    def probs(self) -> Float[Array, "state duration"]:
        """The probability of 1, 2, ... steps for each state."""
        return jnp.exp(self._log_probs(*self._values))

    def _log_probs(self, log_mean: Array, log_concentration: Array) -> Float[Array, "state duration"]:
        family = NegativeBinomialDistribution(log_mean[:, None], log_concentration[:, None])
        return jax.nn.log_softmax(family.log_prob(jnp.arange(self.longest)))

    @property
    def free_parameters(self) -> int:
        """How many numbers can be chosen."""
        return 0 if isinstance(self.log_mean, Frozen) else 2 * self.states

    def maximise(self, counts: Float[Array, "state duration"], pseudocount: Any) -> "NegativeBinomialDurations":
        """Up the expected log-probability of the counts by damped Newton steps, each taken only if it gains."""
        if isinstance(self.log_mean, Frozen):
            return self
        total = counts.sum(1, keepdims=True)
        shares = (counts + pseudocount / self.longest) / jnp.where(total > 0, total + pseudocount, 1.0)

        def gain(point, shares):
            return (shares * self._log_probs(point[:1], point[1:])[0]).sum()

        def climb(point, shares):
            def attempt(carry, _):
                point, damping = carry
                slope, curvature = jax.grad(gain)(point, shares), jax.hessian(gain)(point, shares)
                values, vectors = jnp.linalg.eigh(-curvature)
                step = vectors @ ((vectors.T @ slope) / (jnp.abs(values) + damping))
                step = step / jnp.maximum(1.0, jnp.abs(step).max())
                better = gain(point + step, shares) > gain(point, shares)
                return (jnp.where(better, point + step, point), jnp.where(better, damping / 4, damping * 8)), None

            start = (point, jnp.asarray(1e-3, point.dtype))
            return jax.lax.scan(attempt, start, None, length=_NEWTON)[0][0]

        points = jnp.stack(self._values, axis=1)
        found = jnp.where(total > 0, jax.vmap(climb)(points, shares), points)
        return eqx.tree_at(lambda d: (d.log_mean, d.log_concentration), self, (found[:, 0], found[:, 1]))

    def permuted(self, order: Any) -> "NegativeBinomialDurations":
        """The same with states numbered in another order."""
        return jax.tree.map(lambda a: a[np.asarray(order)], self)
