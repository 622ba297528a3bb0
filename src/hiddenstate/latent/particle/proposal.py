"""Proposals of a user's own."""

from abc import abstractmethod
from typing import Any

import equinox as eqx

from hiddenstate._types import Array


class Proposal(eqx.Module):
    """A distribution q(z_t | z_{t-1}, x_t) to draw particles from, written for one particle.

    It should be wide enough to reach every z_t that the model and the observation allow: the weight of a draw is
    p(x_t | z_t) p(z_t | z_{t-1}) / q(z_t | z_{t-1}, x_t).

    A proposal may also have ``sample_first(x, u, key)`` and ``log_prob_first(z, x, u)`` for z_1; without them the first
    particles come from the model's own `latent_initial()`. Without inputs `u` is None; with them it is the pair (input
    of the step before, input of this step), for the first step the input of this step alone.
    """

    @abstractmethod
    def sample(self, z_before: Array, x: Array, u: Any, key: Any) -> Array:
        """A draw of z_t; if it is a real number, smooth in the parameters for the same key."""

    @abstractmethod
    def log_prob(self, z: Array, z_before: Array, x: Array, u: Any) -> Array:
        """The log-density of such a draw."""
