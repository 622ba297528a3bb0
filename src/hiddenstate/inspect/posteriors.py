r"""Three ways to carry a belief over the state of a switch-copy model from step to step, and how far they are apart.

Given the belief :math:`b` over the last state, one step has the joint log-probabilities
:math:`J_0(s) = \log P(x_t \mid s, 0) + \log b(s)` where the state was kept and
:math:`J_1(s) = \log P(x_t \mid s, 1) + \log P(s)` where it is fresh.

- Exact filtering mixes arithmetically: :math:`b_t \propto (1 - p)\, e^{J_0} + p\, e^{J_1}`. The best Q(z) Q(s | z) is
  the same.
- The best Q(z) Q(s) mixes geometrically (`mean_field`): :math:`\log Q(s) = (1 - q) J_0 + q J_1 + \text{const}`, where
  the log-odds of :math:`q` are those of p plus :math:`\mathbb{E}_{Q(s)}[J_1 - J_0]`. The two are iterated.
- The rule of the minimal GRU (`one_pass`) is :math:`h_t = (1 - q_t) h_{t-1} + q_t\, c_t` with :math:`h = \log b` up to
  a constant, a gate :math:`q_t = P(z_t = 1 \mid x_t)` that knows nothing of the past, and a candidate that sees x_t
  alone, too. With :math:`q_t c_t = (1 - q_t) \log P(x_t \mid s, 0) + q_t J_1` it is the first iteration of the
  geometric mixture. With :math:`c_t = J_1`, as the note that reads minGRU as a switching state space model has it,
  nothing is learned from an observation of a kept state; the two are the same where such observations say nothing
  about it.

Exact filtering, the geometric mixture and its first iteration agree where q is 0 or 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
from jax.scipy.special import logsumexp

from hiddenstate._types import Array, Float
from hiddenstate.core import SequenceModel
from hiddenstate.inference import arrays_for
from hiddenstate.inference.batches import steps_of
from hiddenstate.inference.posterior import filter as exact_filter
from hiddenstate.inspect.resets import (
    checked_sequences,
    divergence_of_switch,
    marginal_gates,
    reset_probability,
    seen_by,
    weighted,
)
from hiddenstate.latent.checks import whole


class OnePass(NamedTuple):
    """Beliefs by the rule of the minimal GRU; NaN behind the end of a sequence.

    `states` (sequence, time, state) are the beliefs after x_t. They are all zero from where on no state is left that
    both the past and the observation allow: a geometric mixture keeps only what both do. `gates` (sequence, time) are
    P(z_t = 1 | x_t).
    """

    states: np.ndarray
    gates: np.ndarray


class MeanField(NamedTuple):
    """Beliefs by the best Q(z_t) Q(s_t) at every step; NaN behind the end of a sequence.

    `states` (sequence, time, state) is Q(s_t) after x_t and `gates` (sequence, time) is Q(z_t = 1). `bounds` (sequence,
    time, iteration) are lower bounds on `evidence` (sequence, time), the log-probability of x_t given the belief that
    was carried there: they never fall and never exceed it. Their sum over time is no bound on the log-probability of
    the sequence, since beliefs that are carried on are not the exact ones; `hs.inspect.variational_update` has one.
    """

    states: np.ndarray
    gates: np.ndarray
    bounds: np.ndarray
    evidence: np.ndarray


@dataclass(frozen=True, eq=False)
class PosteriorComparison:
    """Beliefs over the state of a switch-copy model after each observation; NaN behind the end of a sequence.

    `exact` is (sequence, time, state), and so is each of `beliefs`: ``"mean_field"``, ``"one_pass"`` and
    ``"resets_only"``, the one-pass rule that learns nothing from kept states. Each of `divergences`, (sequence, time),
    is the divergence from the exact belief in nats, KL(exact || other): infinite where the other rules out what is
    possible.
    """

    exact: np.ndarray
    beliefs: Mapping[str, np.ndarray]
    divergences: Mapping[str, np.ndarray]

    def frame(self) -> pl.DataFrame:
        """Mean divergences over all sequences that are that long, one row a step: ready to plot."""
        steps = np.arange(1, self.exact.shape[1] + 1)
        return pl.DataFrame({"step": steps} | {name: np.nanmean(d, axis=0) for name, d in self.divergences.items()})

    def summary(self) -> pl.DataFrame:
        """The mean divergence per step of each rule, with its standard error over sequences (NaN for one sequence)."""
        rows = []
        for name, values in self.divergences.items():
            each = np.nanmean(values, axis=1)
            error = each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 and np.isfinite(each).all() else np.nan
            rows.append({"rule": name, "divergence": float(each.mean()), "standard_error": float(error)})
        return pl.DataFrame(rows)


def one_pass(model: SequenceModel, data: Any, *, resets_only: bool = False) -> OnePass:
    r"""Beliefs over the state of an `hs.SwitchCopy` by the rule of the minimal GRU, which mixes their logarithms.

    .. math::

        \log b_t(s) = (1 - q_t) \log b_{t-1}(s) + q_t c_t(s) + \text{const}, \qquad q_t = P(z_t = 1 \mid x_t)

    The gate and the candidate see x_t alone. One gate serves all states, so constants do not matter and beliefs are
    normalised. The candidate holds what x_t says under both settings of the switch,
    :math:`q_t c_t = (1 - q_t) \log P(x_t \mid s, 0) + q_t \log P(x_t, s \mid 1)`. With `resets_only` it is
    :math:`c_t = \log P(s \mid x_t, z_t = 1)`, as the note that reads minGRU as a switching state space model has it.
    """
    data = checked_sequences(model, data)
    states, gates = _one_pass(model, arrays_for(model, data), resets_only)
    return OnePass(_known(states, data.valid), _known(gates, data.valid))


def mean_field(model: SequenceModel, data: Any, *, iterations: int = 20) -> MeanField:
    r"""Beliefs over the state of an `hs.SwitchCopy` that are carried on as the best Q(z_t) Q(s_t) of every step.

    The updates :math:`\log Q(s) = \mathbb{E}_{Q(z)}[\log P(x, s \mid z)]` and
    :math:`\log Q(z) = \mathbb{E}_{Q(s)}[\log P(x, s \mid z)] + \log P(z)`, up to constants, are iterated from
    :math:`Q(z_t = 1) = P(z_t = 1 \mid x_t)`. Where no state is possible under both settings of the switch, Q(z) has to
    decide, and takes the more probable one.
    """
    data = checked_sequences(model, data)
    found = _mean_field(model, arrays_for(model, data), whole("iterations", iterations))
    return MeanField(*(_known(values, data.valid) for values in found))


def compare_posteriors(model: SequenceModel, data: Any, *, iterations: int = 20) -> PosteriorComparison:
    """How far the belief of an `hs.SwitchCopy` is from the exact one, by mean field and by the minimal GRU's rule.

    All three have seen x_1 .. x_t at step t: the exact one is that of `hs.filter`.
    """
    data = checked_sequences(model, data)
    exact = _known(exact_filter(model, data), data.valid)
    beliefs = {
        "mean_field": mean_field(model, data, iterations=iterations).states,
        "one_pass": one_pass(model, data).states,
        "resets_only": one_pass(model, data, resets_only=True).states,
    }
    return PosteriorComparison(exact, beliefs, {name: _divergence(exact, found) for name, found in beliefs.items()})


@eqx.filter_jit
def _one_pass(model: Any, arrays: Any, resets_only: bool) -> tuple[Array, Array]:
    def one(steps: Any) -> tuple[Array, Array]:
        seen = seen_by(model, steps)
        gates = marginal_gates(seen)

        kept = jnp.zeros_like(seen.kept) if resets_only else seen.kept

        def step(log_belief: Array, at: tuple[Array, Array, Array]) -> tuple[Array, Array]:
            gate, kept, fresh = at
            log_belief = _normalised(weighted(1 - gate, log_belief + kept) + weighted(gate, fresh))
            return log_belief, jnp.exp(log_belief)

        return jax.lax.scan(step, seen.log_prior, (gates, kept, seen.fresh))[1], gates

    return jax.vmap(one)(steps_of(arrays))


@eqx.filter_jit
def _mean_field(model: Any, arrays: Any, iterations: int) -> tuple[Array, Array, Array, Array]:
    def one(steps: Any) -> tuple[Array, Array, Array, Array]:
        seen = seen_by(model, steps)
        first = jnp.arange(steps.length) == 0

        def step(log_belief: Array, at: Any) -> tuple[Array, Any]:
            gate, kept, fresh, is_first = at
            reset = jnp.where(is_first, 1.0, seen.reset)
            found = _iterated(gate, log_belief + kept, fresh, reset, iterations)
            return found[0], (jnp.exp(found[0]), *found[1:])

        return jax.lax.scan(step, seen.log_prior, (marginal_gates(seen), seen.kept, seen.fresh, first))[1]

    return jax.vmap(one)(steps_of(arrays))


def _iterated(
    gate: Float[Array, ""],
    kept: Float[Array, " state"],
    fresh: Float[Array, " state"],
    reset: Float[Array, ""],
    iterations: int,
) -> tuple[Array, Array, Array, Array]:
    """log Q(s) and Q(z = 1) after so many updates of each, the bounds on the way, and what they bound."""
    either = jnp.log1p(-reset) + logsumexp(kept), jnp.log(reset) + logsumexp(fresh)
    stuck = logsumexp(weighted(1 - gate, kept) + weighted(gate, fresh)) == -jnp.inf
    gate = jnp.where(stuck, jnp.where(either[1] > either[0], 1.0, 0.0), gate)

    def bounded(gate: Array) -> tuple[Array, Array]:
        mixed = weighted(1 - gate, kept) + weighted(gate, fresh)
        return mixed, logsumexp(mixed) - divergence_of_switch(gate, reset)

    def update(gate: Array, _: None) -> tuple[Array, Array]:
        share = jnp.exp(_normalised(bounded(gate)[0]))
        evidence = weighted(share, fresh).sum() - weighted(share, kept).sum()
        gate = reset_probability(reset, evidence)
        return gate, bounded(gate)[1]

    begun = bounded(gate)[1]
    gate, bounds = jax.lax.scan(update, gate, None, length=iterations)
    return _normalised(bounded(gate)[0]), gate, jnp.append(begun, bounds), jnp.logaddexp(*either)


def _normalised(logs: Float[Array, " state"]) -> Float[Array, " state"]:
    """Logarithms of probabilities that sum to one; where all are impossible, they stay so."""
    total = logsumexp(logs)
    return logs - jnp.where(total == -jnp.inf, 0.0, total)


def _known(values: Any, valid: np.ndarray) -> np.ndarray:
    values = np.asarray(values)
    return np.where(valid.reshape(valid.shape + (1,) * (values.ndim - 2)), values, np.nan)


def _divergence(exact: np.ndarray, other: np.ndarray) -> np.ndarray:
    """KL(exact || other) along the last axis, in double precision."""
    exact, other = exact.astype(np.float64), other.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(exact == 0, 0.0, exact * (np.log(exact) - np.log(other)))
    return np.maximum(each.sum(-1), 0.0)
