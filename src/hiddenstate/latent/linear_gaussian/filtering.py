"""The Kalman filter over a whole sequence, in square-root form, with a derivative of its own.

Forward, a covariance is carried as a square root and every step is one QR: covariances stay positive however far apart
their eigenvalues are, in float32 too. Backward, each step is computed once more from its stored square root, as a
covariance, and the gradient is pulled through that: so no QR and no singular root is ever differentiated.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from hiddenstate._types import Array, Float
from hiddenstate.latent.linear_gaussian.system import Belief, System, conditioned, held, merged, propagated
from hiddenstate.native.manual import carried
from hiddenstate.ops.gaussian import LOG_TWO_PI, diffuse_direction, outer, semidefinite_root, triangular


class Sequence(NamedTuple):
    """One sequence: the system in its two halves, the observations, and which of them are there."""

    fixed: System
    varying: System
    xs: Float[Array, "time event"]
    observed: Any = None
    valid: Any = None


class RootBelief(NamedTuple):
    """A belief with a square root in place of the covariance."""

    mean: Float[Array, " state"]
    root: Float[Array, "state state"]
    diffuse: Float[Array, "state state"] | None = None


def log_probs_of(sequence: Sequence, belief: Belief, *, diagonal: bool) -> tuple[Float[Array, " time"], Belief]:
    """The log-probability of every step, and the last belief. `belief` has no time; `diagonal` is the model's."""
    found: Any = _log_probs_of(diagonal, *carried((sequence, belief)))
    return found


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _log_probs_of(diagonal, sequence, belief):
    return _forward_rule(diagonal, sequence, belief)[0]


def _forward_rule(diagonal, sequence, belief):
    log_probs, beliefs, last = forward(sequence, rooted(belief), diagonal=diagonal)
    return (log_probs, Belief(last.mean, outer(last.root), last.diffuse)), (sequence, beliefs)


def _backward_rule(diagonal, kept, slopes):
    sequence, beliefs = kept
    slopes_of_log_probs, slope_of_last = slopes

    def again(fixed, varying, x, belief, observed, inside):
        system = merged(fixed, varying)
        known = conditioned(system, belief, x, observed, diagonal=diagonal)
        new = propagated(system, known)
        log_prob = known.log_prob if inside is None else jnp.where(inside, known.log_prob, 0.0)
        return log_prob, held(inside, new, belief)

    def back(carry, step):
        slope, total = carry
        slope_of_log_prob, varying, x, belief, observed, inside = step
        whole = Belief(belief.mean, outer(belief.root), belief.diffuse)
        _, pull = jax.vjp(
            lambda fixed, varying, x, belief: again(fixed, varying, x, belief, observed, inside),
            sequence.fixed,
            varying,
            x,
            whole,
        )
        of_fixed, of_varying, of_x, slope = pull((slope_of_log_prob, slope))
        return (slope, jax.tree.map(jnp.add, total, of_fixed)), (of_varying, of_x)

    nothing = jax.tree.map(jnp.zeros_like, sequence.fixed)
    (slope, of_fixed), (of_varying, of_xs) = jax.lax.scan(
        back,
        (slope_of_last, nothing),
        (slopes_of_log_probs, sequence.varying, sequence.xs, beliefs, sequence.observed, sequence.valid),
        reverse=True,
    )
    return Sequence(of_fixed, of_varying, of_xs, None, None), slope


_log_probs_of.defvjp(_forward_rule, _backward_rule)


def rooted(belief: Belief) -> RootBelief:
    """The same belief in square-root form."""
    return RootBelief(belief.mean, semidefinite_root(belief.covariance), belief.diffuse)


def forward(
    sequence: Sequence, belief: RootBelief, *, diagonal: bool
) -> tuple[Float[Array, " time"], RootBelief, RootBelief]:
    """Log-probabilities of all steps, the beliefs before each, and the one after the last."""
    sequence = with_masked_noise(sequence)

    def advance(belief, step):
        varying, x, observed, inside = step
        system = merged(sequence.fixed, varying)
        if belief.diffuse is None:
            log_prob, new = _step(system, belief, x, observed)
        else:
            log_prob, known = condition_root(system, belief, x, observed, diagonal=diagonal)
            new = move_root(system, known)
        log_prob = log_prob if inside is None else jnp.where(inside, log_prob, 0.0)
        return held(inside, new, belief), (log_prob, belief)

    last, (log_probs, beliefs) = jax.lax.scan(
        advance, carried(belief, sequence), (sequence.varying, sequence.xs, sequence.observed, sequence.valid)
    )
    return log_probs, beliefs, last


def with_masked_noise(sequence: Sequence) -> Sequence:
    """The same sequence, where each missing entry has a row of zeros and a noise of one of its own."""
    if sequence.observed is None:
        return sequence

    def masked(varying, observed):
        system = merged(sequence.fixed, varying)
        event = observed.shape[0]
        own = jnp.diag(jnp.where(observed, 0.0, 1.0).astype(system.emission_noise.dtype))
        root = jnp.where(observed[:, None], system.emission_noise, 0.0)
        both = root + own if event == root.shape[1] == 1 else triangular(jnp.concatenate([root, own], 1))
        return both, jnp.where(observed[:, None], system.emission, 0.0)

    noise, emission = jax.vmap(masked)(sequence.varying, sequence.observed)
    return sequence._replace(
        fixed=sequence.fixed._replace(emission_noise=None, emission=None),
        varying=sequence.varying._replace(emission_noise=noise, emission=emission),
    )


def _step(system: System, belief: RootBelief, x: Array, observed: Array | None) -> tuple[Array, RootBelief]:
    """Condition and move in one QR (Kailath, Sayed and Hassibi 2000, section 12.3)."""
    event, dtype = x.shape[0], x.dtype
    state = belief.mean.shape[0]
    apart = x - system.offset - system.emission @ belief.mean
    count: Any = event
    if observed is not None:
        apart, count = jnp.where(observed, apart, 0.0), observed.sum()
    upper = [system.emission_noise, system.emission @ belief.root, jnp.zeros((event, system.noise.shape[1]), dtype)]
    lower = [
        jnp.zeros((state, system.emission_noise.shape[1]), dtype),
        system.transition @ belief.root,
        system.noise,
    ]
    root = triangular(jnp.concatenate([jnp.concatenate(upper, 1), jnp.concatenate(lower, 1)], 0))
    white = _whitened(root[:event, :event], apart)
    log_prob = _log_prob(white, root[:event, :event], count)
    mean = system.transition @ belief.mean + system.shift + root[event:, :event] @ white
    return log_prob, RootBelief(mean, root[event:, event:])


def condition_root(
    system: System, belief: RootBelief, x: Array, observed: Array | None, *, diagonal: bool
) -> tuple[Array, RootBelief]:
    """The belief given x as well. Missing entries are masked in the system already."""
    event, state = x.shape[0], belief.mean.shape[0]
    if belief.diffuse is not None:
        return _condition_diffuse(system, belief, x, observed, diagonal)
    apart = x - system.offset - system.emission @ belief.mean
    count: Any = event
    if observed is not None:
        apart, count = jnp.where(observed, apart, 0.0), observed.sum()
    upper = [system.emission_noise, system.emission @ belief.root]
    lower = [jnp.zeros((state, system.emission_noise.shape[1]), x.dtype), belief.root]
    root = triangular(jnp.concatenate([jnp.concatenate(upper, 1), jnp.concatenate(lower, 1)], 0))
    white = _whitened(root[:event, :event], apart)
    mean = belief.mean + root[event:, :event] @ white
    return _log_prob(white, root[:event, :event], count), RootBelief(mean, root[event:, event:])


def move_root(system: System, known: RootBelief) -> RootBelief:
    """The belief over the next state."""
    return RootBelief(
        system.transition @ known.mean + system.shift,
        triangular(jnp.concatenate([system.transition @ known.root, system.noise], 1)),
        None if known.diffuse is None else system.transition @ known.diffuse,
    )


def _condition_diffuse(system, belief, x, observed, diagonal):
    """Entry by entry, as `hiddenstate.ops.gaussian.condition_diffuse`, with square roots."""
    seen = jnp.ones(x.shape, bool) if observed is None else observed
    x, emission = jnp.where(seen, x - system.offset, 0.0), system.emission
    if diagonal or x.shape[0] == 1:
        deviations = jnp.sqrt(jnp.square(system.emission_noise).sum(1))
    else:
        lower = triangular(system.emission_noise)
        deviations = jnp.diagonal(lower)
        both = jnp.concatenate([x[:, None], emission], 1)
        both = solve_triangular(lower / deviations, both, lower=True, unit_diagonal=True)
        x, emission = both[:, 0], both[:, 1:]

    def one(belief, entry):
        x, row, deviation, seen = entry
        direction = diffuse_direction(belief.diffuse, row)
        through = row @ belief.root
        variance = through @ through + deviation**2
        variance = jnp.where(direction.infinite, 1.0, variance)
        gain = jnp.where(direction.infinite, direction.gain, belief.root @ through / variance)
        apart = x - row @ belief.mean
        proper = -0.5 * (jnp.log(variance) + apart**2 / variance)
        log_prob = jnp.where(direction.infinite, -jnp.log(direction.size), proper) - 0.5 * LOG_TWO_PI
        kept = belief.root - jnp.outer(gain, through)
        root = triangular(jnp.concatenate([kept, (gain * deviation)[:, None]], 1))
        return RootBelief(belief.mean + gain * apart, root, direction.rest), jnp.where(seen, log_prob, 0.0)

    known, log_probs = jax.lax.scan(one, belief, (x, emission, deviations, seen))
    return log_probs.sum(), known


def filtered(sequence: Sequence, beliefs: RootBelief, *, diagonal: bool) -> RootBelief:
    """p(z_t | x_1 .. x_t) at every step, from the beliefs before each; behind the end, as it was there."""
    masked = with_masked_noise(sequence)

    def one(varying, x, observed, belief):
        return condition_root(merged(masked.fixed, varying), belief, x, observed, diagonal=diagonal)[1]

    known = jax.vmap(one)(masked.varying, masked.xs, masked.observed, beliefs)
    if sequence.valid is None:
        return known
    last = jnp.sum(sequence.valid) - 1
    index = jnp.minimum(jnp.arange(sequence.valid.shape[0]), last)
    return jax.tree.map(lambda a: a[index], known)


def _whitened(root: Array, apart: Array) -> Array:
    return apart / root[0] if apart.shape[0] == 1 else solve_triangular(root, apart, lower=True)


def _log_prob(white: Array, root: Array, count: Any) -> Array:
    return -0.5 * (white @ white) - jnp.log(jnp.abs(jnp.diagonal(root))).sum() - 0.5 * LOG_TWO_PI * count
