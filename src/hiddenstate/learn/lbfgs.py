"""Quasi-Newton steps on all data at once: for small models, to the optimum and without a learning rate."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import ConditionalModel, HiddenStateError, Pairs, SequenceModel, Sequences, partition
from hiddenstate.inference import arrays_for, masked_log_probs
from hiddenstate.learn.history import History
from hiddenstate.learn.method import Fit, Method
from hiddenstate.learn.progress import Bar
from hiddenstate.learn.scores import score
from hiddenstate.ops.sums import sum_over_time
from hiddenstate.strategies import Auto, Strategy

_STALL = 3
"""So many iterations in a row without progress are convergence."""


@dataclass(frozen=True, kw_only=True)
class LBFGS(Method):
    r"""Limited-memory BFGS (Liu and Nocedal 1989) on the log-probability of all data at once.

    It maximises :math:`\log p(\text{data}) - \tfrac12 \lambda \lVert\theta - \theta_0\rVert^2`: a Gaussian prior of
    precision `prior` on every learned number, around where it starts, keeps the optimum finite where data are few (a
    symbol never seen). It has converged when the objective falls by less than `tolerance` nats per step for three
    iterations.
    """

    learns_pairs: ClassVar[bool] = True

    iterations: int = 200
    prior: float = 1.0
    tolerance: float = 1e-6
    strategy: Strategy = Auto()

    def __post_init__(self):
        if self.iterations < 1:
            raise HiddenStateError(f"iterations is {self.iterations}; it must be 1 or more.")
        if self.prior < 0 or self.tolerance < 0:
            raise HiddenStateError(f"prior and tolerance must be 0 or more; got {self.prior} and {self.tolerance}.")

    def run(
        self,
        model: SequenceModel | ConditionalModel,
        data: Sequences | Pairs,
        *,
        key: PRNGKeyArray,
        validation: Sequences | Pairs | None,
        checkpoint: Path | None,
        progress: bool,
    ) -> Fit:
        """Learn from checked data; `hs.fit` is the way in. Nothing here is random, so the key is not used."""
        del key
        if checkpoint is not None:
            raise HiddenStateError("LBFGS keeps no checkpoint; leave out checkpoint, or use hs.SGD().")
        learned, rest = partition(model)
        advance, state = self._compile(rest, learned, arrays_for(model, data), data.scored_steps)
        history, best, waited, step = History(), (math.inf, learned), 0, 0
        with Bar(progress) as bar:
            for step in range(1, self.iterations + 1):
                before = learned
                learned, state, loss, norm = advance(learned, state)
                loss = float(loss)
                history.add(step, step, loss, float(norm))
                if not math.isfinite(loss):
                    reason = f"the loss was not finite at iteration {step}; the model is the best before it."
                    return Fit(eqx.combine(best[1], rest), history.frame(), False, reason)
                waited = 0 if loss < best[0] - self.tolerance else waited + 1
                if loss < best[0]:
                    best = loss, before
                bar.show(step / self.iterations, step, loss, None)
                if waited >= _STALL:
                    break
        fitted = eqx.combine(best[1], rest)
        if validation is not None:
            history.evaluate(step, score(fitted, validation, strategy=self.strategy).nats_per_step)
        if waited >= _STALL:
            reason = f"the loss fell by less than {self.tolerance:g} nats per step for {_STALL} iterations."
            return Fit(fitted, history.frame(), True, reason)
        return Fit(
            fitted,
            history.frame(),
            False,
            f"ran all {self.iterations} iterations; the loss was still falling.",
        )

    def _compile(self, rest, learned, arrays, steps):
        """One compiled iteration, and the optimiser's first state."""
        optimiser, start = optax.lbfgs(), learned

        def objective(learned):
            total = sum_over_time(sum_over_time(masked_log_probs(eqx.combine(learned, rest), arrays, self.strategy)[0]))
            moved = jax.tree.map(jnp.subtract, learned, start)
            squares = sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(moved))
            return (-total + 0.5 * self.prior * squares) / steps

        @jax.jit
        def advance(learned, state):
            value, gradient = optax.value_and_grad_from_state(objective)(learned, state=state)
            updates, state = optimiser.update(gradient, state, learned, value=value, grad=gradient, value_fn=objective)
            return optax.apply_updates(learned, updates), state, value, optax.tree.norm(gradient)

        return advance, jax.jit(optimiser.init)(learned)
