"""Distributions that stay in the precision of their parameters."""

from typing import Any

import numpyro.distributions as dist

from hiddenstate._types import Array
from hiddenstate.core import dtype_of


class OwnPrecision(dist.Distribution):
    """Before a family of numpyro's: its samples have the type of its parameters, not JAX's default."""

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws of shape (*sample_shape, *batch_shape, *event_shape)."""
        drawn: Any = super().sample(key, sample_shape)
        return drawn.astype(dtype_of(self))
