"""Recipes: a hidden Markov model by name, with sizes and emissions taken from the data."""

from typing import Any, Literal, get_args

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import DataError, Frozen, HiddenStateError, Sequences, dtype_of, recipe
from hiddenstate.latent import checks
from hiddenstate.latent.emissions import Emission, emission_for
from hiddenstate.latent.hmm.durations import CategoricalDurations, NegativeBinomialDurations
from hiddenstate.latent.hmm.model import HMM
from hiddenstate.latent.hmm.semi_markov import HSMM
from hiddenstate.latent.hmm.switch_copy import SwitchCopy
from hiddenstate.latent.hmm.transitions import InputDriven, TransitionMatrix

Initial = Literal["free", "fixed", "stationary"]
Structure = Literal["dense", "left-right", "banded", "input-driven"]

STAY = 0.8
"""The probability of staying that a fresh model begins with: states that mean something last."""


@recipe("hmm")
def hmm(
    data: Sequences,
    *,
    key: PRNGKeyArray,
    states: int = 4,
    emission: str | None = None,
    initial: Initial = "free",
    transition: Structure | Any = "dense",
    band: int = 1,
    **options: Any,
) -> HMM:
    """A hidden Markov model with `states` states and emissions inferred from the data, or named.

    `initial` is ``"free"``, ``"fixed"`` (all states alike, not learned) or ``"stationary"``. `transition` is
    ``"dense"``, ``"left-right"`` (to the next state only), ``"banded"`` (to states at most `band` away),
    ``"input-driven"``, or a boolean matrix of the moves that are possible. Other options are those of the emissions,
    such as `covariance`.
    """
    checks.whole("states", states)
    emission_key, transition_key = jr.split(key)
    emitted = emission_for(data, states, key=emission_key, family=emission, **options)
    allowed = _allowed(transition, states, band)
    probs = _sticky(allowed, transition_key, emitted)
    moves: Any = TransitionMatrix(probs)
    if isinstance(transition, str) and transition == "input-driven":
        if data.inputs is None:
            raise DataError("transition is 'input-driven', but the data have no inputs.")
        moves = InputDriven(probs, jnp.zeros((states, states, data.inputs.shape[2]), dtype_of(emitted)))
    return HMM(_initial(initial, transition, states, emitted), moves, emitted, schema=data.schema)


@recipe("hsmm")
def hsmm(
    data: Sequences,
    *,
    key: PRNGKeyArray,
    states: int = 4,
    emission: str | None = None,
    initial: Literal["free", "fixed"] = "free",
    durations: Literal["negative-binomial", "categorical"] = "negative-binomial",
    longest: int | None = None,
    **options: Any,
) -> HSMM:
    """A hidden semi-Markov model, whose states last at most `longest` steps.

    By default that is a quarter of the longest sequence, between 2 and 50. `durations` are ``"negative-binomial"`` or
    ``"categorical"`` (any distribution).
    """
    checks.whole("states", states)
    if longest is None:
        longest = int(np.clip(data.length // 4, 2, 50))
    emission_key, transition_key = jr.split(key)
    emitted = emission_for(data, states, key=emission_key, family=emission, **options)
    dtype = dtype_of(emitted)
    others = ~np.eye(states, dtype=bool) if states > 1 else np.ones((1, 1), bool)
    weights = np.asarray(jr.uniform(transition_key, (states, states), minval=0.5, maxval=1.5)) * others
    moves = (weights / weights.sum(1, keepdims=True)).astype(dtype)
    if durations == "categorical":
        lasting: Any = CategoricalDurations(np.full((states, longest), 1 / longest, dtype))
    elif durations == "negative-binomial":
        means = np.full(states, 1 + max(0.5, longest / 4), dtype)
        lasting = NegativeBinomialDurations(means, np.full(states, 2.0, dtype), longest)
    else:
        raise HiddenStateError(f"durations is {durations!r}; it must be 'negative-binomial' or 'categorical'.")
    if initial not in ("free", "fixed"):
        raise HiddenStateError(f"initial is {initial!r}; it must be 'free' or 'fixed'.")
    return HSMM(_initial(initial, "dense", states, emitted), moves, lasting, emitted, schema=data.schema)


@recipe("switch-copy")
def switch_copy(
    data: Sequences,
    *,
    key: PRNGKeyArray,
    states: int = 4,
    emission: str | None = None,
    sees_resets: bool = False,
    between: bool = False,
    **options: Any,
) -> SwitchCopy:
    """A state that is kept until a switch draws it afresh, with `states` states and emissions inferred, or named.

    With `sees_resets` fresh states have emissions of their own, with `between` states move where they are not reset.
    Other options are those of the emissions, such as `covariance`.
    """
    checks.whole("states", states)
    for name, value in (("sees_resets", sees_resets), ("between", between)):
        if not isinstance(value, bool):
            raise HiddenStateError(f"{name} is {value!r}; it must be true or false.")
    emission_key, prior_key, between_key = jr.split(key, 3)
    emitted = emission_for(data, 2 * states if sees_resets else states, key=emission_key, family=emission, **options)
    weights = np.asarray(jr.uniform(prior_key, (states,), minval=0.5, maxval=1.5)).astype(dtype_of(emitted))
    moves = _sticky(np.ones((states, states), bool), between_key, emitted) if between else None
    return SwitchCopy(1 - STAY, weights / weights.sum(), emitted, between=moves, schema=data.schema)


def _initial(initial: Any, transition: Any, states: int, emission: Emission) -> Any:
    dtype = dtype_of(emission)
    if initial not in get_args(Initial):
        raise HiddenStateError(f"initial is {initial!r}; it must be one of {', '.join(get_args(Initial))}.")
    if initial == "stationary":
        return initial
    if isinstance(transition, str) and transition == "left-right":
        return Frozen(jnp.asarray(np.eye(states, dtype=dtype)[0]))
    even = np.full(states, 1 / states, dtype)
    return Frozen(jnp.asarray(even)) if initial == "fixed" else even


def _allowed(transition: Any, states: int, band: int) -> np.ndarray:
    if not isinstance(transition, str):
        mask = np.asarray(transition)
        if mask.shape != (states, states) or mask.dtype != bool:
            raise HiddenStateError(
                f"transition is an array of {mask.dtype} and shape {mask.shape}; as a mask it must be boolean, "
                f"{(states, states)}."
            )
        if not mask.any(axis=1).all():
            raise HiddenStateError(f"transition allows no move out of state {int(np.argmin(mask.any(axis=1)))}.")
        return mask
    if transition not in get_args(Structure):
        known = ", ".join(get_args(Structure))
        raise HiddenStateError(f"transition is {transition!r}; it must be one of {known}, or a boolean matrix.")
    ahead = np.arange(states) - np.arange(states)[:, None]
    if transition == "left-right":
        return (ahead == 0) | (ahead == 1)
    if transition == "banded":
        if band < 1:
            raise HiddenStateError(f"band is {band}; states must be able to move at least 1 further.")
        return np.abs(ahead) <= band
    return np.ones((states, states), bool)


def _sticky(allowed: np.ndarray, key: PRNGKeyArray, emission: Emission) -> np.ndarray:
    """Transitions that mostly stay where they can, and otherwise go anywhere allowed, a little unevenly."""
    states = len(allowed)
    away = np.asarray(jr.uniform(key, (states, states), minval=0.5, maxval=1.5)) * allowed * ~np.eye(states, dtype=bool)
    total = away.sum(1, keepdims=True)
    can_stay = np.diagonal(allowed)[:, None]
    stay = np.where(can_stay, np.where(total > 0, STAY, 1.0), 0.0)
    share = away / np.where(total > 0, total, 1.0) * (1 - stay)
    return (share + np.eye(states) * stay).astype(dtype_of(emission))
