"""What observations say of the hidden states: the capabilities of latent-state models, over batches of sequences.

A model offers any of these methods, each for one sequence; the functions here check, compile and batch them. `steps`
are the sequence's `hiddenstate.core.Steps` and `strategy` is resolved already.

- ``filter(steps, strategy)``: p(z_t | x_1 .. x_t) at every step, in the model's own form.
- ``smooth(steps, strategy)``: p(z_t | x_1 .. x_T), with what neighbouring states share.
- ``fixed_lag(steps, strategy, lag)``: p(z_t | x_1 .. x_{t+lag}).
- ``most_likely_states(steps, strategy)``: a `Decoded`, the jointly most probable states.
- ``sample_states(steps, strategy, key)``: one draw of all states from p(z | x).
- ``expected_statistics(steps, strategy)``: what `maximise` needs, and the log-probability (see `hs.EM`).

``filter_with_evidence``, ``smooth_with_evidence`` and ``fixed_lag_with_evidence``, where the class that defines the
method has them too, give the log-probability of every step beside it; elsewhere a second pass finds what is impossible.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from jax.core import Tracer

from hiddenstate._types import Array, Float, PRNGKeyArray, Shaped
from hiddenstate.core import DataError, HiddenStateError, SequenceModel, Sequences, checked_key, compiled, has, name_of
from hiddenstate.inference.batches import steps_of
from hiddenstate.inference.observations import arrays_for, sequences_for
from hiddenstate.inference.score import step_log_probs
from hiddenstate.strategies import Auto, Strategy, resolved

_MEANINGS = {
    "filter": "filter hidden states",
    "smooth": "smooth hidden states",
    "fixed_lag": "smooth hidden states with a fixed lag",
    "most_likely_states": "decode hidden states",
    "sample_states": "draw hidden states",
}


class Decoded(NamedTuple):
    """The most probable hidden states of each sequence, and the joint log-probability of these and the data."""

    states: Shaped[Array, "sequence time"]
    log_prob: Float[Array, " sequence"]


def filter(model: SequenceModel, data: Any, *, strategy: Strategy = Auto()) -> Any:
    """p(z_t | x_1 .. x_t): what the observations up to each step say of the hidden state there.

    For an HMM an array of probabilities (sequence, time, state), for a linear Gaussian model `.mean` and
    `.covariance`. Behind a sequence's end stands its last value. An observation that is impossible under every
    state is an error that says where it is.
    """
    return _posterior(model, data, strategy, "filter")


def smooth(model: SequenceModel, data: Any, *, strategy: Strategy = Auto()) -> Any:
    """p(z_t | x_1 .. x_T): what all observations say of the hidden state at each step.

    For an HMM `.marginals` (sequence, time, state) and `.pairwise` (sequence, time - 1, state, next state); for a
    `SwitchCopy` `.marginals` and `.resets` (sequence, time); for a linear Gaussian model `.mean`, `.covariance` and
    `.cross_covariance`.
    """
    return _posterior(model, data, strategy, "smooth")


def fixed_lag(model: SequenceModel, data: Any, lag: int, *, strategy: Strategy = Auto()) -> Any:
    """p(z_t | x_1 .. x_{t+lag}): smoothing as it can be done while data arrive, `lag` steps behind them."""
    if isinstance(lag, bool) or not isinstance(lag, int | np.integer) or lag < 0:
        raise DataError(f"lag is {lag!r}; it must be a whole number from 0 on.")
    return _posterior(model, data, strategy, "fixed_lag", int(lag))


def most_likely_states(model: SequenceModel, data: Any, *, strategy: Strategy = Auto()) -> Decoded:
    """The hidden states that are jointly most probable given each sequence (Viterbi), with their log-probability.

    `.states` (sequence, time) holds the last state behind a sequence's end; `.log_prob` is that of states and
    observations together.
    """
    data = _checked(model, data, "most_likely_states")
    found = _mapped(model, arrays_for(model, data), strategy, "most_likely_states", ())
    known = not isinstance(found.log_prob, Tracer)
    if known and not np.isfinite(np.asarray(found.log_prob)).all():  # no path leads through an impossible observation
        refuse_impossible(model, data, strategy)
    return found


def sample_states(
    model: SequenceModel, data: Any, *, key: PRNGKeyArray, n: int = 1, strategy: Strategy = Auto()
) -> Any:
    """`n` draws of all hidden states from their joint posterior: (sequence, sample, time, ...)."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise DataError(f"n is {n!r}; it must be a whole number of at least 1.")
    data = _checked(model, data, "sample_states")
    refuse_impossible(model, data, strategy)
    keys = jr.split(checked_key(key), (len(data), int(n)))
    return _draws(model, arrays_for(model, data), strategy, keys)


def _posterior(model: SequenceModel, data: Any, strategy: Strategy, capability: str, *options: Any) -> Any:
    data = _checked(model, data, capability)
    beside = f"{capability}_with_evidence"
    if _home(model, beside) is None or _home(model, beside) is not _home(model, capability):
        refuse_impossible(model, data, strategy)
        return _mapped(model, arrays_for(model, data), strategy, capability, options)
    found, log_probs = _mapped(model, arrays_for(model, data), strategy, beside, options)
    _refuse(model, data, log_probs)
    return found


def _home(model: SequenceModel, method: str) -> type | None:
    """The class that defines a model's method: a subclass may have a new one without having what goes with it."""
    return next((kind for kind in type(model).__mro__ if method in vars(kind)), None)


def _checked(model: SequenceModel, data: Any, capability: str) -> Sequences:
    if not has(model, capability):
        raise HiddenStateError(
            f"{name_of(model)} cannot {_MEANINGS[capability]}: it has no `{capability}`. Latent-state models such as "
            "hs.HMM and hs.LinearGaussian have; the state of a recurrent network is what hs.states gives."
        )
    return sequences_for(model, data)


def refuse_impossible(model: SequenceModel, data: Sequences, strategy: Strategy = Auto()) -> None:
    """Raise DataError at the first observation that has probability zero given those before it.

    Inside of a derivative or of a function that JAX compiles nothing is known yet, and nothing refused.
    """
    if not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(model)):
        _refuse(model, data, step_log_probs(model, data, strategy=strategy))


def _refuse(model: SequenceModel, data: Sequences, log_probs: Float[Array, "sequence time"]) -> None:
    """The same from the log-probabilities of all steps; of those that are only context none is refused."""
    if isinstance(log_probs, Tracer):
        return
    nothing = np.asarray(log_probs) == -np.inf
    if data.context is not None:
        nothing &= np.arange(nothing.shape[1]) >= data.context[:, None]
    if nothing.any():
        sequence, step = (int(i) for i in np.argwhere(nothing)[0])
        got = np.asarray(data.values[sequence, step]).tolist()
        raise DataError(
            f"sequence {data.names[sequence]} holds {got} at step {step + 1}, which has probability zero under every "
            f"hidden state that {name_of(model)} can be in there: no posterior exists."
        )


@compiled
def _mapped(model, arrays, strategy, capability, options):
    def one(steps):
        return getattr(model, capability)(steps, resolved(strategy, model, steps.length), *options)

    return jax.vmap(one)(steps_of(arrays))


@eqx.filter_jit
def _draws(model, arrays, strategy, keys):
    def one(steps, keys):
        chosen = resolved(strategy, model, steps.length)
        return jax.vmap(lambda key: model.sample_states(steps, chosen, key))(keys)

    return jax.vmap(one)(steps_of(arrays), keys)
