r"""Variational inference in a switch-copy model, for a whole sequence.

The switches are taken to be independent of each other, the states exact given the switches:

.. math::

    Q(z, s) = \prod_t Q(z_t)\; Q(s_{1:T} \mid z_{1:T})

Given the switches a sequence falls into stretches between resets, each with one state. The best Q(s | z) is the
posterior of each stretch, proportional to :math:`P(s) P(x_i \mid s, 1) \prod_{i<u\le j} P(x_u \mid s, 0)`, whatever
Q(z) is. The note that reads minGRU as a switching state space model prints an average over z in it; that is the update
of Q(z) Q(s), see `hs.inspect.mean_field`. What is left is a bound in the :math:`q_t = Q(z_t = 1)` alone:

.. math::

    \log p(x_{1:T}) \ge \sum_{i \le j} q_i \Bigl[\prod_{u=i+1}^{j} (1 - q_u)\Bigr] q_{j+1} \log m_{ij}
        - \sum_{t \ge 2} \mathrm{KL}(Q(z_t) \,\|\, P(z_t)),
    \qquad m_{ij} = \sum_s P(s) P(x_i \mid s, 1) \prod_{u=i+1}^{j} P(x_u \mid s, 0)

with :math:`q_1 = q_{T+1} = 1`. It is linear in each :math:`q_t` but for the divergence, so the best :math:`q_t` given
all others is the sigmoid of the prior log-odds plus what a reset at t adds: the entropy of Q(s | z), which the note
leaves out, is within :math:`\log m`. Each update raises the bound or leaves it. All :math:`\log m` take time in
:math:`T^2 K`; one sweep over all switches then takes :math:`T^2`, since the expectations over the stretch that ends and
over the one that begins each follow from their neighbours'.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from hiddenstate._types import Array, Float
from hiddenstate.core import SequenceModel
from hiddenstate.inference import arrays_for, log_prob
from hiddenstate.inference.batches import steps_of
from hiddenstate.inspect.resets import (
    Seen,
    checked_sequences,
    divergence_of_switch,
    marginal_gates,
    reset_probability,
    seen_by,
)
from hiddenstate.latent.checks import whole


@dataclass(frozen=True, eq=False)
class VariationalPosterior:
    """An approximate posterior of a switch-copy model given whole sequences; NaN behind the end of a sequence.

    `resets` (sequence, time) is Q(z_t = 1) and `states` (sequence, time, state) is Q(s_t). `bounds` (sequence, sweep)
    are lower bounds on the log-probability of each sequence, before the first sweep and after each: they never fall,
    and never exceed `log_prob` (sequence,), the exact one.
    """

    resets: np.ndarray
    states: np.ndarray
    bounds: np.ndarray
    log_prob: np.ndarray

    @property
    def gap(self) -> np.ndarray:
        """What the last bound lacks, (sequence,): the divergence in nats from Q to the exact posterior."""
        return self.log_prob - self.bounds[:, -1]


def variational_update(model: SequenceModel, data: Any, *, sweeps: int = 20) -> VariationalPosterior:
    r"""The best approximate posterior of an `hs.SwitchCopy` in which switches are independent, by coordinate ascent.

    :math:`Q(z, s) = \prod_t Q(z_t)\, Q(s_{1:T} \mid z_{1:T})`, begun at :math:`Q(z_t = 1) = P(z_t = 1 \mid x_t)`, the
    gate of a minimal GRU, which sees one observation. Each sweep updates every Q(z_t) in turn, given all others; the
    best Q(s | z) is exact and known throughout. The bounds are on :math:`\log p(x_{1:T})`. Time and memory grow with
    the square of the length.
    """
    data = checked_sequences(model, data)
    sweeps = whole("sweeps", sweeps)
    resets, states, bounds = _updated(model, arrays_for(model, data), sweeps)
    valid = data.valid
    return VariationalPosterior(
        np.where(valid, np.asarray(resets), np.nan),
        np.where(valid[..., None], np.asarray(states), np.nan),
        np.asarray(bounds),
        np.asarray(log_prob(model, data)),
    )


class _Stretches(NamedTuple):
    """For each stretch (first, last step): log m, zero where it is minus infinity, and one where that is so."""

    possible: Float[Array, "first last"]
    impossible: Float[Array, "first last"]

    def at(self, last: Any) -> Float[Array, "two first"]:
        return jnp.stack([self.possible[:, last], self.impossible[:, last]])


@eqx.filter_jit
def _updated(model: Any, arrays: Any, sweeps: int) -> tuple[Array, Array, Array]:
    def one(steps: Any) -> tuple[Array, Array, Array]:
        seen = seen_by(model, steps)
        stretches = _stretches(seen)
        gates = marginal_gates(seen)
        if steps.valid is not None:
            gates = jnp.where(steps.valid, gates, seen.reset)  # behind the end the prior is exact, and free
        begun = _swept(gates, stretches, seen.reset, update=False)[1]

        def sweep(gates: Array, _: None) -> tuple[Array, Array]:
            return _swept(gates, stretches, seen.reset, update=True)

        gates, bounds = jax.lax.scan(sweep, gates, None, length=sweeps)
        return gates, _state_marginals(gates, seen), jnp.append(begun, bounds)

    return jax.vmap(one)(steps_of(arrays))


def _stretches(seen: Seen) -> _Stretches:
    time = jnp.arange(len(seen.kept))

    def longer(messages: Array, step: Any) -> tuple[Array, Array]:
        messages = _extended(messages, seen, step)
        return messages, logsumexp(messages, axis=1)

    logs = jax.lax.scan(longer, jnp.zeros_like(seen.kept), time)[1].T
    exists = time[:, None] <= time
    finite = jnp.isfinite(logs) & exists
    return _Stretches(jnp.where(finite, logs, 0.0), jnp.where(exists & ~finite, 1.0, 0.0).astype(logs.dtype))


def _extended(messages: Float[Array, "first state"], seen: Seen, step: Any) -> Float[Array, "first state"]:
    """The log-probabilities of all stretches with each state, one step longer; the one that begins here is new."""
    begins = (jnp.arange(len(messages)) == step)[:, None]
    return jnp.where(begins, seen.fresh[step], messages + seen.kept[step])


def _swept(gates: Array, stretches: _Stretches, reset: Array, update: bool) -> tuple[Array, Array]:
    """All gates after one update each, from the first to the last, and the bound they give.

    A stretch that cannot be has log m = -inf. Expectations of log m are therefore kept in two parts, the finite one
    and the weight of what is impossible, and the latter decides wherever it differs.
    """
    time = jnp.arange(len(gates))
    zero = jnp.zeros((), gates.dtype)

    def back(ahead: Array, step: Any) -> tuple[Array, Array]:
        last = step == len(gates) - 1
        next_gate = jnp.where(last, 1.0, gates[jnp.minimum(step + 1, len(gates) - 1)])
        here = next_gate * stretches.at(step) + (1 - next_gate) * ahead
        return here, here

    # ahead[t, :, i]: the expectation over where a stretch that began at i and holds t will end
    nothing = jnp.zeros((2, len(gates)), gates.dtype)
    ahead = jax.lax.scan(back, nothing, time, reverse=True)[1]

    def forward(carry: tuple[Array, Array], step: Any) -> tuple[tuple[Array, Array], Array]:
        began, total = carry  # began[i]: the probability that the stretch at hand began at i
        ended = jnp.where(step == 0, 0.0, stretches.at(jnp.maximum(step - 1, 0)) @ began)
        if update:
            with_reset, without = ended + ahead[step, :, step], ahead[step] @ began
            gate = jnp.where(step == 0, 1.0, _best_gate(with_reset, without, reset))
        else:
            gate = gates[step]
        began = ((1 - gate) * began).at[step].set(gate)
        lost = jnp.where(step == 0, 0.0, divergence_of_switch(gate, reset))
        total = total + gate * ended - jnp.stack([lost, zero])
        return (began, total), gate

    (began, total), gates = jax.lax.scan(forward, (jnp.zeros_like(gates), jnp.zeros(2, gates.dtype)), time)
    possible, impossible = total + stretches.at(len(gates) - 1) @ began
    return gates, jnp.where(impossible > 0, -jnp.inf, possible)


def _best_gate(with_reset: Float[Array, " two"], without: Float[Array, " two"], reset: Array) -> Float[Array, ""]:
    worse = with_reset[1] - without[1]
    rounding = 1e-4 * (with_reset[1] + without[1])
    evidence = jnp.where(worse > rounding, -jnp.inf, jnp.where(worse < -rounding, jnp.inf, with_reset[0] - without[0]))
    return reset_probability(reset, evidence)


def _state_marginals(gates: Float[Array, " time"], seen: Seen) -> Float[Array, "time state"]:
    """Q(s_t): the posteriors of all stretches that hold t, by their probability under Q(z).

    What begins at t less what has ended before t, summed up over time.
    """
    count = len(gates)
    after = jnp.append(gates[1:], 1.0)

    def longer(carry: tuple[Array, Array, Array], step: Any) -> tuple[tuple[Array, Array, Array], Array]:
        messages, began, begun = carry
        messages = _extended(messages, seen, step)
        began = ((1 - gates[step]) * began).at[step].set(gates[step])
        ends = (began * after[step])[:, None] * _normalised(messages)
        return (messages, began, begun + ends), ends.sum(0)

    start = jnp.zeros_like(seen.kept), jnp.zeros_like(gates), jnp.zeros_like(seen.kept)
    (_, _, begun), ended = jax.lax.scan(longer, start, jnp.arange(count))
    marginals = jnp.cumsum(begun - jnp.concatenate([jnp.zeros_like(ended[:1]), ended[:-1]]), axis=0)
    marginals = jnp.maximum(marginals, 0.0)
    return marginals / marginals.sum(-1, keepdims=True)


def _normalised(logs: Float[Array, "first state"]) -> Float[Array, "first state"]:
    total = logsumexp(logs, axis=1, keepdims=True)
    return jnp.where(total == -jnp.inf, 0.0, jnp.exp(logs - jnp.where(total == -jnp.inf, 0.0, total)))
