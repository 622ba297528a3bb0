r"""Forward, backward, best and sampled paths through a chain, one step after the other.

Beliefs are scaled, not floored: every message is a probability distribution and its logarithmic scale is kept beside
it, relative to the states that are possible, so that nothing underflows on the way and an exact zero stays one.

With :math:`h_t = p(z_t \mid x_{<t})` and :math:`f_t = p(z_t \mid x_{\le t})` the smoothed marginals follow from the
last one by :math:`\gamma_t = f_t \odot P\,(\gamma_{t+1} / h_{t+1})`: a recursion on distributions, in which no
likelihood appears. The derivative of the log-probability takes the same way back (the gradient trick of the lecture
notes: derivatives with respect to log-potentials are posterior probabilities), for any weight of the steps.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr

from hiddenstate._types import Array, Float, PRNGKeyArray, Shaped
from hiddenstate.native.manual import carried
from hiddenstate.ops.simplex import safe_log


class Chain(NamedTuple):
    """How beliefs move: one operator, or with `varying` one for every step, along the first axis of its arrays."""

    operator: Any
    varying: bool = False

    def at(self, step: Any) -> Any:
        """The operator of one step, or of a range of steps."""
        return jax.tree.map(lambda a: a[step], self.operator) if self.varying else self.operator

    @property
    def per_step(self) -> Any:
        """What a scan over time takes of it."""
        return self.operator if self.varying else None

    def of(self, part: Any) -> Any:
        """The operator within such a scan."""
        return part if self.varying else self.operator

    def logarithms(self) -> "Chain":
        """The chain with logarithms in place of probabilities."""
        return Chain(jax.tree.map(safe_log, self.operator), self.varying)

    def mapped(self, method: str, *arrays: Any) -> Any:
        """A method of the operator, mapped over time."""
        call = lambda operator, *each: getattr(operator, method)(*each)  # noqa: E731
        axes = (0 if self.varying else None, *(0 for _ in arrays))
        return jax.vmap(call, axes)(self.operator, *arrays)


class Forward(NamedTuple):
    """Beliefs before and after each observation, the log-probability of each, and the belief after the last move."""

    predicted: Float[Array, "time ..."]
    filtered: Float[Array, "time ..."]
    evidence: Float[Array, " time"]
    final: Float[Array, "..."]


def condition(belief: Float[Array, "..."], log_likelihoods: Float[Array, "..."]) -> tuple[Array, Float[Array, ""]]:
    """Bayes' rule: the belief given an observation, and the log-probability of the observation.

    Where no possible state could have given the observation its log-probability is minus infinity and the belief
    stays as it was.
    """
    joint = safe_log(belief) + log_likelihoods
    top = jax.lax.stop_gradient(joint.max())
    possible = top > -jnp.inf
    weights = jnp.exp(joint - jnp.where(possible, top, 0.0))
    total = jnp.where(possible, weights.sum(), 1.0)
    return jnp.where(possible, weights / total, belief), jnp.where(possible, top + jnp.log(total), -jnp.inf)


def forward(
    chain: Chain,
    belief: Float[Array, "..."],
    log_likelihoods: Float[Array, "time state"],
    valid: Shaped[Array, " time"] | None,
) -> Forward:
    """The forward recursion from a belief before the first observation. Where `valid` is False it stands still."""

    def advance(belief, inputs):
        likelihoods, inside, part = inputs
        operator = chain.of(part)
        filtered, evidence = condition(belief, operator.expand(likelihoods))
        moved = operator.move(filtered)
        if inside is not None:
            moved, evidence = jnp.where(inside, moved, belief), jnp.where(inside, evidence, 0.0)
        return moved, (belief, filtered, evidence)

    begun = carried(belief, chain.operator, log_likelihoods, valid)
    final, (predicted, filtered, evidence) = jax.lax.scan(advance, begun, (log_likelihoods, valid, chain.per_step))
    return Forward(predicted, filtered, evidence, final)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def score(
    varying: bool,
    operator: Any,
    belief: Float[Array, "..."],
    log_likelihoods: Float[Array, "time state"],
    valid: Shaped[Array, " time"] | None,
) -> tuple[Float[Array, " time"], Float[Array, "..."]]:
    """The log-probability of every step and the last belief, with a derivative that costs one backward recursion."""
    found = forward(Chain(operator, varying), belief, log_likelihoods, valid)
    return found.evidence, found.final


def _score_forward(varying, operator, belief, log_likelihoods, valid):
    chain = Chain(operator, varying)
    found = forward(chain, belief, log_likelihoods, valid)
    return (found.evidence, found.final), (chain.operator, found, valid)


def _score_backward(varying, kept, cotangents):
    operator, found, valid = kept
    slopes, adjoint = cotangents
    chain = Chain(operator, varying)
    possible = found.evidence > -jnp.inf
    slopes = jnp.where(possible, slopes, 0.0)

    def retreat(adjoint, inputs):
        predicted, filtered, slope, can, inside, part = inputs
        operator = chain.of(part)
        value = operator.back(adjoint)
        joint = filtered * (value - (filtered * value).sum() + slope)
        before = jnp.where(can, ratio(joint, predicted), value)
        likelihoods = jnp.where(can, operator.collapse(joint), 0.0)
        if inside is not None:
            before, likelihoods = jnp.where(inside, before, adjoint), jnp.where(inside, likelihoods, 0.0)
        return before, (adjoint, likelihoods)

    inputs = (found.predicted, found.filtered, slopes, possible, valid, chain.per_step)
    first, (adjoints, likelihoods) = jax.lax.scan(retreat, adjoint, inputs, reverse=True)
    if valid is not None:
        adjoints = _masked(adjoints, valid)
    if varying:
        each = jax.vmap(lambda operator, belief, adjoint: operator.gradient(belief[None], adjoint[None]))
        gradient = each(operator, found.filtered, adjoints)
    else:
        gradient = operator.gradient(found.filtered, adjoints)
    return gradient, first, likelihoods, None


score.defvjp(_score_forward, _score_backward)


def smooth(chain: Chain, found: Forward, valid: Shaped[Array, " time"] | None) -> Float[Array, "time ..."]:
    """The marginals p(z_t | all observations). Behind the end they are of no meaning; use `hold`."""
    following = _following(valid)

    def retreat(later, inputs):
        filtered, predicted_next, inside, part = inputs
        smoothed = filtered * chain.of(part).back(ratio(later, predicted_next))
        smoothed = smoothed / smoothed.sum()  # one, up to rounding, which would build up
        smoothed = smoothed if inside is None else jnp.where(inside, smoothed, filtered)
        return smoothed, smoothed

    if len(found.filtered) == 1:
        return found.filtered
    start = jax.tree.map(lambda a: a[:-1], chain.per_step)
    inputs = (found.filtered[:-1], found.predicted[1:], following, start)
    _, earlier = jax.lax.scan(retreat, found.filtered[-1], inputs, reverse=True)
    return jnp.concatenate([earlier, found.filtered[-1:]])


def ratios(found: Forward, marginals: Float[Array, "time ..."], valid: Shaped[Array, " time"] | None) -> Array:
    """Smoothed over predicted beliefs of all steps but the first; zero where the later step is none."""
    out = ratio(marginals[1:], found.predicted[1:])
    following = _following(valid)
    return out if following is None else _masked(out, following)


def best_path(
    chain: Chain,
    belief: Float[Array, "..."],
    log_likelihoods: Float[Array, "time state"],
    valid: Shaped[Array, " time"] | None,
) -> Shaped[Array, " time"]:
    """The most probable path (Viterbi), as indices of the chain's states; behind the end the last one.

    The best scores are kept and not the pointers: on the way back one column of the matrix tells the predecessor.
    """
    logs = chain.logarithms()
    scores = safe_log(belief) + chain.at(0).expand(log_likelihoods[0])

    def advance(scores, inputs):
        likelihoods, inside, part = inputs
        operator = logs.of(part)
        # The scale is of no matter to the path; taking it off keeps the differences precise over long time.
        scores = scores - jnp.where(scores.max() > -jnp.inf, scores.max(), 0.0)
        reached = operator.best(scores) + operator.expand(likelihoods)
        if inside is not None:
            reached = jnp.where(inside, reached, scores)
        return reached, scores

    steps = jax.tree.map(lambda a: a[:-1], logs.per_step)
    following = _following(valid)
    last, scored = jax.lax.scan(advance, scores, (log_likelihoods[1:], following, steps))
    end = jnp.argmax(last).astype(jnp.int32)

    def retreat(state, inputs):
        scores, inside, part = inputs
        before = logs.of(part).previous(scores, state)
        before = before if inside is None else jnp.where(inside, before, state)
        return before, before

    _, path = jax.lax.scan(retreat, end, (scored, following, steps), reverse=True)
    return jnp.append(path, end)


def sampled_path(
    chain: Chain,
    found: Forward,
    noise: Float[Array, "time candidate"],
    valid: Shaped[Array, " time"] | None,
) -> Shaped[Array, " time"]:
    """A path drawn from the posterior, backwards from the last filtered belief; `noise` is `gumbel`'s."""
    following = _following(valid)
    filtered = hold(found.filtered, valid)
    last = filtered[-1].ravel()
    end = jnp.argmax(safe_log(last) + noise[-1, : last.size]).astype(jnp.int32)

    def retreat(state, inputs):
        belief, noise, inside, part = inputs
        before = chain.of(part).draw(belief, state, noise)
        before = before if inside is None else jnp.where(inside, before, state)
        return before, before

    steps = jax.tree.map(lambda a: a[:-1], chain.per_step)
    _, path = jax.lax.scan(retreat, end, (filtered[:-1], noise[:-1], following, steps), reverse=True)
    return jnp.append(path, end)


def gumbel(key: PRNGKeyArray, time: int, belief: Float[Array, "..."]) -> Float[Array, "time candidate"]:
    """The noise that `sampled_path` takes: one row a step."""
    return jr.gumbel(key, (time, belief.size), belief.dtype)


def path_log_prob(
    chain: Chain,
    belief: Float[Array, "..."],
    log_likelihoods: Float[Array, "time state"],
    path: Shaped[Array, " time"],
    valid: Shaped[Array, " time"] | None,
) -> Float[Array, " time"]:
    """The log-probability of a path and the observations together, step by step."""
    hidden = chain.at(0).hidden(path)
    seen = jnp.take_along_axis(log_likelihoods, hidden[:, None], axis=1)[:, 0]
    logs = chain.logarithms()
    axes = (0 if chain.varying else None, 0, 0)
    before = jax.tree.map(lambda a: a[:-1], logs.operator) if chain.varying else logs.operator
    moves = jax.vmap(lambda operator, a, b: operator.log_move(a, b), axes)(before, path[:-1], path[1:])
    total = seen + jnp.concatenate([safe_log(belief.ravel()[path[0]])[None], moves])
    return total if valid is None else jnp.where(valid, total, 0.0)


def fixed_lag(
    chain: Chain,
    found: Forward,
    log_likelihoods: Float[Array, "time state"],
    lag: int,
    valid: Shaped[Array, " time"] | None,
) -> Float[Array, "time ..."]:
    """p(z_t | observations up to t + lag), all steps at once, `lag` steps of the backward recursion."""
    time = len(log_likelihoods)
    likelihoods = log_likelihoods if valid is None else jnp.where(valid[:, None], log_likelihoods, 0.0)

    def retreat(values, ahead):
        at = jnp.arange(time) + ahead
        inside = (at < time) if valid is None else (at < time) & valid[jnp.minimum(at, time - 1)]
        seen = jnp.where(inside[:, None], likelihoods[jnp.minimum(at, time - 1)], 0.0)
        moves = Chain(chain.at(jnp.minimum(at - 1, time - 1)), chain.varying)
        joint = safe_log(values) + moves.mapped("expand", seen)
        top = joint.reshape(time, -1).max(1).reshape(-1, *(1 for _ in values.shape[1:]))
        moved = moves.mapped("back", jnp.exp(joint - jnp.where(top > -jnp.inf, top, 0.0)))
        return jnp.where(inside.reshape(-1, *(1 for _ in values.shape[1:])), moved, values), None

    ones = jnp.ones_like(found.filtered)
    values, _ = jax.lax.scan(retreat, ones, jnp.arange(lag, 0, -1))
    joint = found.filtered * values
    return joint / joint.reshape(time, -1).sum(1).reshape(-1, *(1 for _ in values.shape[1:]))


def hold(values: Any, valid: Shaped[Array, " time"] | None) -> Any:
    """The values with the last real one behind the end."""
    if valid is None:
        return values
    index = jnp.minimum(jnp.arange(len(valid)), jnp.maximum(valid.sum() - 1, 0))
    return jax.tree.map(lambda a: a[index], values)


def ratio(numerator: Float[Array, "..."], denominator: Float[Array, "..."]) -> Float[Array, "..."]:
    """Elementwise, zero where the denominator is: a state that cannot be has no say."""
    possible = denominator > jnp.finfo(denominator.dtype).tiny
    return jnp.where(possible, numerator / jnp.where(possible, denominator, 1.0), 0.0)


def _following(valid: Shaped[Array, " time"] | None) -> Shaped[Array, " earlier"] | None:
    """Whether the step after each is real, for all steps but the last."""
    return None if valid is None else valid[1:]


def _masked(values: Array, inside: Shaped[Array, " time"]) -> Array:
    return jnp.where(inside.reshape(-1, *(1 for _ in values.shape[1:])), values, 0.0)
