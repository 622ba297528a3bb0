"""The three conditional distributions of a latent model, over many particles at once.

A latent model names ``latent_initial()``, ``latent_next(z, u)`` and ``latent_emission(z, u)``, each a distribution for
one hidden state; nothing else is known of it here.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from numpyro.distributions import CategoricalLogits, CategoricalProbs, Distribution

from hiddenstate._types import Array
from hiddenstate.core import HiddenStateError, cast, dtype_of, has
from hiddenstate.distributions import partial_log_prob
from hiddenstate.inference.batches import rebatch
from hiddenstate.latent.particle.state import Observation

CONDITIONALS = ("latent_initial", "latent_next", "latent_emission")


def check_conditionals(model: Any) -> None:
    """Raise HiddenStateError unless the model has its conditionals, each of them one distribution."""
    absent = [name for name in CONDITIONALS if not has(model, name)]
    if absent and any(getattr(model, "diffuse", None) or ()):
        raise HiddenStateError(
            f"model is a {type(model).__name__} with a diffuse start, from which no particle can be drawn; give it an "
            "initial mean and covariance."
        )
    if absent:
        raise HiddenStateError(
            f"model is {type(model).__name__}, which has no {', '.join(absent)}; a particle filter takes a latent "
            "model such as hs.HMM, hs.LinearGaussian or hs.StateSpace(initial=, transition=, emission=)."
        )
    u = no_input(model)
    first = _shape(lambda: model.latent_initial(), "latent_initial()")
    z = jax.eval_shape(lambda key: draw(model.latent_initial(), key, dtype_of(model)), jr.key(0))
    following = _shape(lambda z: model.latent_next(z, u), "latent_next(z, u)", z)
    _shape(lambda z: model.latent_emission(z, u), "latent_emission(z, u)", z)
    if following.event_shape != first.event_shape:
        raise HiddenStateError(
            f"the first hidden state has shape {first.event_shape}, but the next one {following.event_shape}; "
            "latent_initial() and latent_next(z, u) must agree."
        )


def _shape(function: Any, name: str, *arguments: Any) -> Distribution:
    made = jax.eval_shape(function, *arguments)
    if not isinstance(made, Distribution):
        raise HiddenStateError(f"{name} gives {type(made).__name__}; it must give a numpyro Distribution.")
    try:
        return jax.eval_shape(lambda *given: single(function(*given)), *arguments)
    except AssertionError:
        raise HiddenStateError(
            f"{name} gives distributions of batch shape {made.batch_shape}; it must give one: .to_event() makes the "
            "entries of a vector one observation."
        ) from None


def single(distribution: Distribution) -> Distribution:
    """The distribution, without a batch shape that is left over from indexing into many."""
    return distribution if distribution.batch_shape == () else rebatch(distribution, ())


def no_input(model: Any) -> Array | None:
    """An input of zeros, where the model takes inputs."""
    inputs = getattr(model, "inputs", 0)
    return jnp.zeros(inputs, dtype_of(model)) if inputs else None


def draw(distribution: Distribution, key: Any, dtype: Any, shape: tuple[int, ...] = ()) -> Array:
    """Draws in the model's precision (whole numbers as int32), from the same random bits in every precision."""
    drawn: Any = cast(distribution, jnp.result_type(float)).sample(key, shape)
    return drawn.astype(dtype if jnp.issubdtype(drawn.dtype, jnp.inexact) else jnp.int32)


def draw_with_score(distribution: Distribution, key: Any, dtype: Any) -> tuple[Array, Array]:
    """One draw, and a zero whose derivative is that of its log-probability where the draw itself has none.

    With this zero added to a log-weight, derivatives of weighted sums are right for draws that do not vary smoothly
    with the parameters, such as symbols.
    """
    z = draw(distribution, key, dtype)
    if distribution.has_rsample:
        return z, jnp.zeros((), dtype)
    z = jax.lax.stop_gradient(z)
    return z, only_derivative(jnp.asarray(distribution.log_prob(z)).astype(dtype))


def only_derivative(a: Array) -> Array:
    """Zero, with the derivative of `a`, which must be finite."""
    return a - jax.lax.stop_gradient(a)


def draw_first(model: Any, key: Any, count: int) -> tuple[Array, Array]:
    """Draws of z_1, with their scores (see `draw_with_score`)."""
    first, dtype = model.latent_initial(), dtype_of(model)
    return jax.vmap(lambda key: draw_with_score(first, key, dtype))(jr.split(key, count))


def draw_next(model: Any, particles: Array, u: Any, key: Any) -> tuple[Array, Array]:
    """For each particle z_t a draw of z_{t+1}, with their scores (see `draw_with_score`)."""
    dtype = dtype_of(model)
    keys = jr.split(key, particles.shape[0])
    return jax.vmap(lambda z, key: draw_with_score(model.latent_next(z, u), key, dtype))(particles, keys)


def first_log_probs(model: Any, particles: Array) -> Array:
    """log p(z_1) of each particle."""
    return jax.vmap(lambda z: model.latent_initial().log_prob(z))(particles).astype(dtype_of(model))


def next_log_probs(model: Any, particles: Array, u: Any, following: Array) -> Array:
    """log p(z_{t+1} | z_t) of pairs of particles."""
    each = jax.vmap(lambda z, after: model.latent_next(z, u).log_prob(after))(particles, following)
    return each.astype(dtype_of(model))


def emission_log_probs(model: Any, particles: Array, seen: Observation) -> Array:
    """log p(x_t | z_t) for each particle, of the entries that were seen."""
    each = jax.vmap(lambda z: _log_prob(single(model.latent_emission(z, seen.u)), seen))(particles)
    return each.astype(dtype_of(model))


def _log_prob(distribution: Distribution, seen: Observation) -> Any:
    if seen.observed is None:
        return distribution.log_prob(seen.x)
    try:
        return partial_log_prob(distribution, seen.x, seen.observed)
    except HiddenStateError as error:
        # A family whose entries cannot be summed out one by one: a step that is missing as a whole still can.
        some = seen.observed.any()
        each = jnp.where(some, distribution.log_prob(seen.x), 0.0)
        return eqx.error_if(each, some & ~seen.observed.all(), str(error))


def emissions(model: Any, particles: Array, u: Any) -> Distribution:
    """The distributions of x_t given each particle, as one of batch shape (particle,)."""
    made = jax.vmap(lambda z: model.latent_emission(z, u))(particles)
    return rebatch(cast(made, dtype_of(model)), (particles.shape[0],))


def state_count(model: Any) -> int | None:
    """How many values the hidden state has, where it is a symbol; otherwise None."""
    made = jax.eval_shape(lambda: model.latent_initial())
    symbols = isinstance(made, CategoricalLogits | CategoricalProbs) and made.event_shape == ()
    support: Any = made.support
    return int(support.upper_bound) + 1 if symbols else None
