"""The three conditional distributions of a latent model, over many particles at once.

A latent model names ``latent_initial()``, ``latent_next(z, u)`` and ``latent_emission(z, u)``, each a distribution for
one hidden state; nothing else is known of it here. A model whose hidden state sees the observation, such as an
`hs.RNN`, has ``latent_update(z, element)`` in place of the second, with the element that its ``prepare(x, u)`` gives.

What a move hangs on besides z is called `given` here: the input u, or for models that see observations the elements,
one for each particle.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from numpyro.distributions import CategoricalLogits, CategoricalProbs, Distribution, Independent

from hiddenstate._types import Array
from hiddenstate.core import HiddenStateError, cast, dtype_of, has
from hiddenstate.distributions import ColumnsDistribution, partial_log_prob
from hiddenstate.inference.batches import rebatch
from hiddenstate.latent.particle.state import Observation
from hiddenstate.ops.inverse_cdf import symbol_at

CONDITIONALS = ("latent_initial", "latent_next", "latent_emission")


def sees_observations(model: Any) -> bool:
    """Whether the next hidden state depends on the observation too, as that of a recurrent network does."""
    return has(model, "latent_update")


def next_of(model: Any, z: Array, given: Any) -> Any:
    """The distribution of z_{t+1} given z_t and what else it hangs on, for one particle."""
    return model.latent_update(z, given) if sees_observations(model) else model.latent_next(z, given)


def over_particles(model: Any, function: Any) -> Any:
    """A function of (z, given, ...) over all particles."""
    shared = None if not sees_observations(model) else 0
    return lambda particles, given, *rest: jax.vmap(function, (0, shared, *(0 for _ in rest)))(particles, given, *rest)


def check_conditionals(model: Any) -> None:
    """Raise HiddenStateError unless the model has its conditionals, each of them one distribution."""
    names = [name for name in CONDITIONALS if name != "latent_next" or not sees_observations(model)]
    absent = [name for name in names if not has(model, name)]
    if absent and any(getattr(model, "diffuse", None) or ()):
        raise HiddenStateError(
            f"model is a {type(model).__name__} with a diffuse start, from which no particle can be drawn; give it an "
            "initial mean and covariance."
        )
    if absent:
        raise HiddenStateError(
            f"model is {type(model).__name__}, which has no {', '.join(absent)}; a particle filter takes a latent "
            "model such as hs.HMM, hs.LinearGaussian, hs.StateSpace(initial=, transition=, emission=) or an hs.RNN."
        )
    u = no_input(model)
    first = _shape(lambda: model.latent_initial(), "latent_initial()")
    z = jax.eval_shape(lambda key: draw(model.latent_initial(), key, dtype_of(model)), jr.key(0))
    emitted = _shape(lambda z: model.latent_emission(z, u), "latent_emission(z, u)", z)
    given, name = u, "latent_next(z, u)"
    if sees_observations(model):
        given, name = jax.eval_shape(model.prepare, _like(emitted, model), u), "latent_update(z, element)"
    following = _shape(lambda z, given: next_of(model, z, given), name, z, given)
    if following.event_shape != first.event_shape:
        raise HiddenStateError(
            f"the first hidden state has shape {first.event_shape}, but the next one {following.event_shape}; "
            f"latent_initial() and {name} must agree."
        )


def _like(emitted: Distribution, model: Any) -> Any:
    """What an observation looks like: its shape and type."""
    return jax.ShapeDtypeStruct(emitted.event_shape, jnp.int32 if emitted.is_discrete else dtype_of(model))


def no_given(model: Any, particles: Array) -> Any:
    """Zeros in the form of what a move hangs on, before there was any step."""
    u = no_input(model)
    if not sees_observations(model):
        return u
    emitted = jax.eval_shape(lambda z: model.latent_emission(z, u), particles[0])
    element = jax.eval_shape(model.prepare, _like(emitted, model), u)
    return jax.tree.map(lambda a: jnp.zeros((particles.shape[0], *a.shape), a.dtype), element)


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


def draw(distribution: Distribution, key: Any, dtype: Any) -> Array:
    """A draw in the model's precision (whole numbers as int32), from the same random bits in every precision.

    Symbols and normal numbers are drawn by their inverse cumulative distribution function.
    """
    precise: Any = cast(distribution, jnp.result_type(float))
    if is_symbol(distribution):
        return symbol_at(precise.probs.reshape(-1), jr.uniform(key))
    drawn = precise.sample(key)
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


def draw_next(model: Any, particles: Array, given: Any, key: Any) -> tuple[Array, Array]:
    """For each particle z_t a draw of z_{t+1}, with their scores (see `draw_with_score`)."""
    dtype = dtype_of(model)
    keys = jr.split(key, particles.shape[0])
    one = over_particles(model, lambda z, given, key: draw_with_score(next_of(model, z, given), key, dtype))
    return one(particles, given, keys)


def given_by(model: Any, particles: Array, seen: Observation, key: Any) -> tuple[Any, Array]:
    """What the moves of all particles hang on after this step, with scores (see `draw_with_score`).

    Where the hidden state sees the observation and that is missing, every particle imagines one of its own.
    """
    count = particles.shape[0]
    if not sees_observations(model):
        return seen.u, jnp.zeros(count, dtype_of(model))
    if seen.observed is None:
        everyone = jax.tree.map(lambda a: jnp.broadcast_to(a, (count, *a.shape)), seen.element)
        return everyone, jnp.zeros(count, dtype_of(model))

    def one(z, key):
        x, score = _imagined(single(model.latent_emission(z, seen.u)), seen, key, dtype_of(model))
        return model.prepare(x, seen.u), score

    return jax.vmap(one)(particles, jr.split(key, count))


def _imagined(emission: Distribution, seen: Observation, key: Any, dtype: Any) -> tuple[Array, Array]:
    """The observation with draws in place of its missing entries, and their score."""
    observed: Any = seen.observed
    drawn = draw(emission, key, dtype).astype(seen.x.dtype)
    if not emission.has_rsample:
        drawn = jax.lax.stop_gradient(drawn)
    x = jnp.where(observed, seen.x, drawn)
    if not entries_are_independent(emission):
        x = eqx.error_if(
            x,
            observed.any() & ~observed.all(),
            "an observation has a missing entry, and the particles can imagine it only as a whole: its entries depend "
            "on each other.",
        )
    if emission.has_rsample:
        return x, jnp.zeros((), dtype)
    missing = seen._replace(x=jax.lax.stop_gradient(x), observed=~observed)
    return x, only_derivative(_log_prob(emission, missing).astype(dtype))


def entries_are_independent(distribution: Distribution) -> bool:
    """Whether the entries of an observation tell nothing of each other."""
    if isinstance(distribution, ColumnsDistribution):
        return all(entries_are_independent(part) for part in distribution.columns.values())
    plain = isinstance(distribution, Independent) and not distribution.base_dist.event_shape
    return plain or not distribution.event_shape


def first_log_probs(model: Any, particles: Array) -> Array:
    """log p(z_1) of each particle."""
    return jax.vmap(lambda z: model.latent_initial().log_prob(z))(particles).astype(dtype_of(model))


def next_log_probs(model: Any, particles: Array, given: Any, following: Array) -> Array:
    """log p(z_{t+1} | z_t) of pairs of particles."""
    one = over_particles(model, lambda z, given, after: next_of(model, z, given).log_prob(after))
    return one(particles, given, following).astype(dtype_of(model))


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
    support: Any = made.support
    return int(support.upper_bound) + 1 if is_symbol(made) else None


def is_symbol(distribution: Distribution) -> bool:
    """Whether it is the distribution of one symbol."""
    return isinstance(distribution, CategoricalLogits | CategoricalProbs) and distribution.event_shape == ()
