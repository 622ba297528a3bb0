"""What the approximations of a switch-copy model are made of: its switch, its fresh states, and what it has seen."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from hiddenstate._types import Array, Float
from hiddenstate.core import HiddenStateError, SequenceModel, Sequences, Steps, has, name_of
from hiddenstate.inference import sequences_for
from hiddenstate.inference.posterior import refuse_impossible
from hiddenstate.ops.simplex import safe_log
from hiddenstate.strategies import prepared


class Seen(NamedTuple):
    """One sequence as a switch-copy model sees it, in logarithms; steps behind the end tell nothing.

    `kept` is log p(x_t | s, z = 0) and `fresh` log p(x_t, s | z = 1), with log p(s) in it.
    """

    reset: Float[Array, ""]
    log_prior: Float[Array, " state"]
    kept: Float[Array, "time state"]
    fresh: Float[Array, "time state"]


def checked_sequences(model: SequenceModel, data: Any) -> Sequences:
    """`data` as sequences of a switch-copy model that keeps its states, or the sentence that says what is wrong."""
    if not has(model, "filtered_resets"):
        raise HiddenStateError(f"model is a {name_of(model)}; it must be an hs.SwitchCopy.")
    if model.between is not None:  # pyright: ignore[reportAttributeAccessIssue]
        raise HiddenStateError("model moves its state between resets; it must be an hs.SwitchCopy without `between`.")
    if model.emission.history:  # pyright: ignore[reportAttributeAccessIssue]
        raise HiddenStateError(
            "model has emissions that depend on past observations; they must depend on states alone."
        )
    data = sequences_for(model, data)
    refuse_impossible(model, data)
    return data


def seen_by(model: Any, steps: Steps) -> Seen:
    """What the model sees of one sequence."""
    logs = prepared(model, steps).log_likelihoods
    if steps.valid is not None:
        logs = jnp.where(steps.valid[:, None], logs, 0.0)
    kept, fresh = jnp.split(logs, 2, axis=1) if model.sees_resets else (logs, logs)
    log_prior = safe_log(model.prior)
    return Seen(model.reset, log_prior, kept, log_prior + fresh)


def reset_probability(reset: Float[Array, ""], evidence: Float[Array, "..."]) -> Float[Array, "..."]:
    """The probability of a reset from log-odds of evidence; a switch that is stuck stays so, whatever is seen."""
    found = jax.nn.sigmoid(jnp.log(reset) - jnp.log1p(-reset) + evidence)
    return jnp.where((reset == 0) | (reset == 1), reset, found)


def marginal_gates(seen: Seen) -> Float[Array, " time"]:
    """P(z_t = 1 | x_t), all states being as probable as when nothing is known: what a gate can see of x_t alone.

    The first step is fresh in any case.
    """
    evidence = logsumexp(seen.fresh, axis=-1) - logsumexp(seen.log_prior + seen.kept, axis=-1)
    return reset_probability(seen.reset, evidence).at[0].set(1.0)


def weighted(weight: Float[Array, "..."], logs: Float[Array, "..."]) -> Float[Array, "..."]:
    """`weight` times logarithms, where nothing times minus infinity is nothing."""
    return jnp.where(weight == 0, 0.0, weight * logs)


def divergence_of_switch(gate: Float[Array, "..."], reset: Float[Array, ""]) -> Float[Array, "..."]:
    """KL from Q(z), which is one with probability `gate`, to P(z)."""
    on = jnp.where(gate == 0, 0.0, gate * (jnp.log(jnp.where(gate == 0, 1.0, gate)) - jnp.log(reset)))
    off = 1 - gate
    return on + jnp.where(off == 0, 0.0, off * (jnp.log(jnp.where(off == 0, 1.0, off)) - jnp.log1p(-reset)))
