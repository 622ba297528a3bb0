"""Regimes, states and observations drawn from the switching model itself."""

from typing import NamedTuple

import jax
import jax.random as jr

from hiddenstate._types import Array, Float, PRNGKeyArray, Shaped
from hiddenstate.latent.switching.collapse import Switch
from hiddenstate.latent.switching.regimes import Regimes


class Simulated(NamedTuple):
    """What `SwitchingLinearGaussian.simulate` draws, with axes (sequence, time, ...)."""

    regimes: Shaped[Array, "sequence time"]
    states: Float[Array, "sequence time state"]
    values: Float[Array, "sequence time ..."]


def first_draw(regimes: Regimes, switch: Switch, key: PRNGKeyArray) -> tuple[Array, Array]:
    """A first regime and state."""
    regime_key, state_key = jr.split(key)
    regime = jr.categorical(regime_key, switch.log_initial)
    mean = regimes.initial_mean[regime]
    return regime, mean + regimes.initial_root[regime] @ jr.normal(state_key, mean.shape, mean.dtype)


def simulated(regimes: Regimes, switch: Switch, length: int, key: PRNGKeyArray) -> Simulated:
    """One sequence, with time first."""
    first_key, key = jr.split(key)

    def advance(now, key):
        regime, state = now
        seen_key, regime_key, state_key = jr.split(key, 3)
        mean = regimes.observation[regime] @ state + regimes.observation_offset[regime]
        x = mean + regimes.observation_root[regime] @ jr.normal(seen_key, mean.shape, mean.dtype)
        after = jr.categorical(regime_key, switch.log_probs_at(state)[regime])
        moved = regimes.dynamics[after] @ state + regimes.dynamics_offset[after]
        moved = moved + regimes.dynamics_root[after] @ jr.normal(state_key, state.shape, state.dtype)
        return (after, moved), Simulated(regime, state, x)

    return jax.lax.scan(advance, first_draw(regimes, switch, first_key), jr.split(key, length))[1]
