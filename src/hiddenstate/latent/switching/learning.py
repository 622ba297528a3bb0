"""What variational EM needs of a switching model, for one sequence at a time."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float, PRNGKeyArray
from hiddenstate.core import HiddenStateError, Prior, SequenceModel, Sequences, Steps, has, name_of
from hiddenstate.inference.batches import steps_of
from hiddenstate.inference.observations import arrays_for, sequences_for
from hiddenstate.latent.switching.em import SwitchingStatistics, maximised, statistics
from hiddenstate.latent.switching.regimes import RANKS
from hiddenstate.latent.switching.starts import restarted
from hiddenstate.latent.switching.variational import (
    RegimeChain,
    VariationalPosterior,
    VariationalSmoothed,
    ascended,
)
from hiddenstate.strategies import Auto, Strategy, resolved

SWEEPS = 10
"""So many sweeps where nothing is known of the posterior from before."""

PARTS = ("initial", "transition", *RANKS)
"""What EM's `only` can name."""


def posterior(
    model: Any, steps: Steps, marginals: Float[Array, "time regime"], sweeps: int, temperature: Any = 1.0
) -> VariationalPosterior:
    """The variational posterior of one sequence, from given marginals of the regimes."""
    chain = RegimeChain(model.initial_probs, model.transition_probs)
    return ascended(chain, model.arrays(), steps, marginals, sweeps, temperature)


def start(model: Any, steps: Steps, strategy: Strategy) -> Float[Array, "time regime"]:
    """Marginals of the regimes to begin with: those of the model's own smoother."""
    return model.smooth(steps, strategy).marginals


def continued(
    model: Any, steps: Steps, marginals: Float[Array, "time regime"], temperature: Any
) -> tuple[SwitchingStatistics, Float[Array, ""], Float[Array, "time regime"]]:
    """The expected statistics after one sweep from where the last one ended, the bound, and where this one ends."""
    found = posterior(model, steps, marginals, 1, temperature)
    return statistics(model.arrays(), steps, found), found.bound, found.regimes.marginals


def expected(model: Any, steps: Steps, strategy: Strategy) -> tuple[SwitchingStatistics, Float[Array, ""]]:
    """The expected statistics and the bound, from nothing."""
    found = posterior(model, steps, start(model, steps, strategy), SWEEPS)
    return statistics(model.arrays(), steps, found), found.bound


def best_model(model: Any, found: SwitchingStatistics, prior: Prior, only: tuple[str, ...] | None) -> Any:
    """The model of greatest expected likelihood; parts that are fixed, or not among `only`, stay."""
    for name in only or ():
        if name not in PARTS:
            raise HiddenStateError(f"only names {name!r}; the parts of the model are {', '.join(PARTS)}.")
    if only is None or "initial" in only:
        rows = model.start.with_counts(found.initial, prior.pseudocount)
        model = eqx.tree_at(lambda m: m.start, model, rows)
    if only is None or "transition" in only:
        rows = model.switching.with_counts(found.transition, prior.pseudocount)
        model = eqx.tree_at(lambda m: m.switching, model, rows)
    parts = maximised(model.parameters, model.arrays(), model.chains, found, prior, only)
    return eqx.tree_at(lambda m: m.parameters, model, parts)


def reseeded(model: Any, empty: np.ndarray, data: Sequences, *, key: PRNGKeyArray) -> Any:
    """The model with new parts for the regimes that no step is in, where they have their own, and a way into them."""
    fresh = restarted(model, data, key=key, how="random")
    chosen = jnp.asarray(empty)
    own, new = model.arrays(), fresh.arrays()
    parts: dict[str, Array] = {}
    for name in RANKS:
        if name not in model.shared:
            before, after = getattr(own, name), getattr(new, name)
            parts[name] = jnp.where(chosen.reshape(-1, *[1] * (before.ndim - 1)), after, before)
    share = jnp.where(chosen, 0.1, 0.0).astype(model.transition_probs.dtype)
    return model.with_parts(transition=model.transition_probs + share, initial=model.initial_probs + share, **parts)


def variational_smooth(
    model: SequenceModel, data: Any, *, sweeps: int = 50, strategy: Strategy = Auto()
) -> VariationalSmoothed:
    r"""What all observations say of the regimes and states of a switching model, with a bound on the likelihood.

    Structured variational inference: the posterior is approximated by a chain over the regimes times a Gaussian over
    all states, and improved by coordinate ascent in so many `sweeps`, from the regimes that `hs.smooth` finds. The
    bound rises with every sweep and never exceeds the log-probability of the switching model.

    `.marginals` (sequence, time, regime) are probabilities of the regimes; `.mean`, `.covariance` and
    `.cross_covariance` are those of the states; `.bound` has one number for each sequence. Behind a sequence's end
    they are of no meaning.
    """
    if isinstance(sweeps, bool) or not isinstance(sweeps, int | np.integer) or sweeps < 1:
        raise HiddenStateError(f"sweeps is {sweeps!r}; it must be a whole number from 1 on.")
    if not has(model, "variational_start"):
        raise HiddenStateError(
            f"{name_of(model)} has no variational posterior: hs.SwitchingLinearGaussian has, where its switch does not "
            "look at the state."
        )
    data = sequences_for(model, data)
    return _smoothed(model, arrays_for(model, data), strategy, int(sweeps))


@eqx.filter_jit
def _smoothed(model: Any, arrays: Any, strategy: Strategy, sweeps: int) -> VariationalSmoothed:
    def one(steps):
        begun = model.variational_start(steps, resolved(strategy, model, steps.length))
        found = posterior(model, steps, begun, sweeps)
        mean, covariance, crossed, _ = found.states
        return VariationalSmoothed(found.regimes.marginals, mean, covariance, crossed, found.bound)

    return jax.vmap(one)(steps_of(arrays))
