"""The bootstrap filter of models whose moves and weights a kernel knows, with the same random numbers as step by step.

Models say what a kernel needs by the capability ``particle_moves(steps)``: `hiddenstate.native.particle.Symbols` or
`Linear` of all steps, or None where they have gaps that kernels do not know; then the steps run one after the other.
Numbers are the same up to rounding, until a position lies within rounding of a border between two particles; from there
on the two ways differ as runs with different keys do. The derivative of scores and of weighted particles is a kernel's
too, backwards; that of all states is that of the steps one after the other, which are then computed too.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from hiddenstate._types import Array
from hiddenstate.core import Steps, dtype_of, own
from hiddenstate.latent.particle.scheme import Bootstrap
from hiddenstate.latent.particle.state import Information, Observation, ParticleState, Weighed
from hiddenstate.native import particle
from hiddenstate.native.operation import lengths_of
from hiddenstate.ops.derivatives import differentiated_as
from hiddenstate.ops.resampling import enough_for
from hiddenstate.strategies import Native, Sequential, Unrolled
from hiddenstate.strategies.auto import LONG
from hiddenstate.strategies.strategy import in_chunks


def check(filter: Any) -> None:
    """Raise AttributeError unless a kernel can run this filter."""
    if type(filter.scheme) is not Bootstrap or filter.resampling not in particle.CHOOSING:
        raise AttributeError("only bootstrap filters with resampling by strata have a kernel.")
    if not jax.config.jax_threefry_partitionable:  # pyright: ignore[reportAttributeAccessIssue]
        raise AttributeError("kernels draw as JAX does with jax_threefry_partitionable.")
    own(filter.model, "particle_moves")


def states(filter: Any, state: ParticleState, elements: Observation, valid: Array | None) -> Unrolled:
    """All states of one sequence, and the last one."""

    def plain(filter, state, steps):
        elements = Observation(steps.values, steps.inputs, steps.observed)
        return Unrolled(*_in_sequence(steps.length).run(filter, state, elements, steps.valid))

    def native(filter, state, steps):
        found = _by_kernel(filter, state, steps, "before")
        first, after, kept = state.information, _after(state, found, steps), found.kept
        assert kept is not None

        def before(first, after):
            return jnp.concatenate([first[None], after[:-1]])

        information = Information(
            before(first.effective_sample_size, after.effective_sample_size),
            before(first.resampled, after.resampled),
            kept.ancestors,
            before(first.log_evidence, after.log_evidence),
        )
        along = ParticleState(kept.particles, kept.log_weights, kept.key, information)
        return Unrolled(along, _final(found, after))

    steps = Steps(elements.x, elements.u, elements.observed, valid)
    if filter.model.particle_moves(steps) is None:
        return plain(filter, state, steps)
    arrays, static = eqx.partition(filter, eqx.is_array)

    def whole(function):
        return lambda arrays, state, steps: function(eqx.combine(arrays, static), state, steps)

    return differentiated_as(whole(plain), whole(native))(arrays, state, steps)


def score(
    filter: Any, state: ParticleState, steps: Steps, strategy: Native, plain: Callable[..., Any]
) -> tuple[Array, ParticleState]:
    """The log-probabilities of all steps, and the last state; `plain` computes the same by a strategy."""
    if filter.model.particle_moves(steps) is None:
        return plain(filter, state, steps, _in_sequence(steps.length))

    def run(state, steps):
        found = _by_kernel(filter, state, steps, "nothing")
        return _final(found, _after(state, found, steps)), found.log_evidence

    return in_chunks(run, state, steps, strategy.chunk_length(steps.length))


def weighed(filter: Any, state: ParticleState, steps: Steps, plain: Callable[..., Any]) -> tuple[Weighed, Array]:
    """The particles of every step, weighted by all observations up to it, and the effective sample size."""
    if filter.model.particle_moves(steps) is None:
        return plain(filter, state, steps, _in_sequence(steps.length))
    found = _by_kernel(filter, state, steps, "after")
    kept = found.kept
    assert kept is not None
    resampled = jnp.concatenate([state.information.resampled[None], found.resampled[:-1]])
    every = Weighed(kept.particles, kept.log_weights, found.log_evidence, kept.ancestors, resampled)
    return every, found.effective_sample_size


def _by_kernel(filter: Any, state: ParticleState, steps: Steps, keep: str) -> particle.Run:
    dtype = dtype_of(filter)
    moves = filter.model.particle_moves(steps)
    if isinstance(moves, particle.Linear):
        moves = particle.Linear(*(a.astype(dtype) for a in moves))
    else:
        moves = moves._replace(log_likelihoods=moves.log_likelihoods.astype(dtype))
    seen = None if steps.observed is None else steps.observed.reshape(steps.length, -1).any(1)
    cloud = particle.Cloud(
        state.particles, state.log_weights.astype(dtype), state.information.ancestors.astype(jnp.int32), state.key
    )
    return particle.run(
        moves,
        cloud,
        seen,
        lengths_of(steps.valid, steps.length),
        resampling=filter.resampling,
        enough=enough_for(filter.threshold, filter.particles, dtype),
        keep=keep,
    )


def _after(state: ParticleState, found: particle.Run, steps: Steps) -> Information:
    """What is known of every step, without ancestors; where there is none, what was known before."""
    after = Information(found.effective_sample_size, found.resampled, found.final.ancestors, found.log_evidence)
    if steps.valid is None:
        return after
    return jax.tree.map(lambda a, b: jnp.where(steps.valid.any(), a, b), after, state.information)


def _final(found: particle.Run, after: Information) -> ParticleState:
    information = Information(
        after.effective_sample_size[-1], after.resampled[-1], after.ancestors, after.log_evidence[-1]
    )
    return ParticleState(found.final.particles, found.final.log_weights, found.final.key, information)


def _in_sequence(time: int) -> Sequential:
    """No step is computed twice before memory asks for it, since what it draws takes longest."""
    return Sequential(checkpoint=time >= LONG)
