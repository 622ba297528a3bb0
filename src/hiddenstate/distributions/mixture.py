"""Mixtures of any family."""

from typing import Any

import numpyro.distributions as dist

from hiddenstate._types import Array
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

    def rebatch(self, batch_shape: tuple[int, ...]) -> "MixtureDistribution":
        """The same mixture with the batch shape that `vmap` gave its arrays."""
        return MixtureDistribution(
            rebatch(self.mixing_distribution, batch_shape),
            rebatch(self.component_distribution, (*batch_shape, self.mixture_size)),
        )


def mixture(probs: Array, components: dist.Distribution) -> MixtureDistribution:
    """The mixture with these probabilities, which sum to one; exact zeros stay zeros and have finite gradients."""
    return MixtureDistribution(dist.CategoricalLogits(safe_log(probs), validate_args=False), components)
