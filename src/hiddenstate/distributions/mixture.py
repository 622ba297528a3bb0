"""Mixtures of any family."""

from typing import Any

import numpyro.distributions as dist
from jax.scipy.special import xlogy
from numpyro.distributions import constraints

from hiddenstate._types import Array
from hiddenstate.core import HiddenStateError
from hiddenstate.inference.batches import rebatch
from hiddenstate.ops.simplex import safe_log


class MixtureDistribution(dist.MixtureSameFamily):
    """numpyro's mixture of one family, also for symbols and records, which it refuses."""

    def __init__(self, mixing_distribution: Any, component_distribution: dist.Distribution):
        self._mixing_distribution = mixing_distribution
        self._component_distribution = component_distribution
        *batch_shape, self._mixture_size = component_distribution.batch_shape
        dist.Distribution.__init__(self, tuple(batch_shape), component_distribution.event_shape, validate_args=False)

    @property
    def columns(self) -> dict[str, dist.Distribution]:
        """Of records, each column's distribution: the mixture of what the components say of it."""
        records: Any = self.component_distribution  # which other components are not, and have no columns
        return {name: MixtureDistribution(self.mixing_distribution, part) for name, part in records.columns.items()}

    @property
    def probs(self) -> Array:
        """Of symbols the probability of each, of bits that of a one; other mixtures have none."""
        each: Any = getattr(self.component_distribution, "probs", None)
        if each is None or not (self._of_symbols or self.support is constraints.boolean):
            raise AttributeError(f"{self!r} has no probs: only mixtures of symbols or of bits do.")
        weights: Any = self.mixing_distribution.probs  # pyright: ignore[reportAttributeAccessIssue]
        if self._of_symbols:
            return (weights[..., None] * each).sum(-2)
        return (weights * each).sum(-1)

    @property
    def _of_symbols(self) -> bool:
        return isinstance(self.support, type(constraints.integer_interval(0, 1)))

    def entropy(self) -> Array:
        """Of symbols and bits, in nats; that of other mixtures has no closed form."""
        if not hasattr(self, "probs"):
            raise HiddenStateError(
                f"the entropy of {self!r} has no closed form; take the mean of -log_prob over samples of it."
            )
        p = self.probs
        return -xlogy(p, p).sum(-1) if self._of_symbols else -xlogy(p, p) - xlogy(1 - p, 1 - p)

    def __repr__(self) -> str:
        part = type(self.component_distribution).__name__
        shapes = f"batch shape {self.batch_shape}, event shape {self.event_shape}"
        return f"<mixture of {self.mixture_size} {part}, {shapes}>"

    def rebatch(self, batch_shape: tuple[int, ...]) -> "MixtureDistribution":
        """The same mixture with the batch shape that `vmap` gave its arrays."""
        return MixtureDistribution(
            rebatch(self.mixing_distribution, batch_shape),
            rebatch(self.component_distribution, (*batch_shape, self.mixture_size)),
        )


def mixture(probs: Array, components: dist.Distribution) -> MixtureDistribution:
    """The mixture with these probabilities, which sum to one; exact zeros stay zeros and have finite gradients."""
    return MixtureDistribution(dist.CategoricalLogits(safe_log(probs), validate_args=False), components)
