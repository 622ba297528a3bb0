"""Nonlinear models with Gaussian noise, filtered approximately: extended and unscented."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Float, Num, Shaped
from hiddenstate.core import HiddenStateError, Schema, SequenceModel, Steps, dtype_of, register
from hiddenstate.distributions import MultivariateNormalDistribution, NormalDistribution
from hiddenstate.latent.linear_gaussian.covariances import Covariance, covariance
from hiddenstate.latent.linear_gaussian.parts import common_dtype, plain
from hiddenstate.latent.linear_gaussian.singular import normal_with_root
from hiddenstate.latent.linear_gaussian.smoothing import Filtered, Smoothed
from hiddenstate.latent.linear_gaussian.system import Belief, Observation, held
from hiddenstate.ops.gaussian import condition_on_moments, outer, semidefinite_inverse, semidefinite_root, symmetric
from hiddenstate.strategies import Strategy, prepared


class Moments(NamedTuple):
    """Mean and covariance of a function of z, and the covariance of z with it."""

    mean: Float[Array, " value"]
    covariance: Float[Array, "value value"]
    crossed: Float[Array, "state value"]


@register("nonlinear-gaussian")
class NonlinearGaussian(SequenceModel):
    r"""A hidden state that moves and is seen through functions, with Gaussian noise.

    .. math::

        z_1 \sim N(m, P), \qquad z_{t+1} = f(z_t, u_t) + N(0, Q), \qquad x_t = g(z_t, u_t) + N(0, R)

    `transition` f and `emission` g are functions of z (n,) and of the inputs u, None where `inputs` is 0; they
    are written in `jax.numpy`. g gives a number, or a vector. The belief over z is kept Gaussian: with
    ``method="extended"`` f and g are taken as linear around its mean, with ``"unscented"`` 2 n + 1 points are sent
    through them (Julier and Uhlmann 1997). `hs.ParticleFilter` of the same model does without that approximation.

    A model can be saved if f and g are instances of registered `equinox.Module` classes; their arrays are learned.
    """

    transition: Callable[..., Array]
    emission: Callable[..., Array]
    first: Any
    noises: tuple[Covariance, Covariance, Covariance]
    method: Literal["extended", "unscented"] = eqx.field(static=True)
    scalar: bool = eqx.field(static=True)
    """Whether an observation is a single number."""

    def __init__(
        self,
        *,
        transition: Callable[..., Any],
        emission: Callable[..., Any],
        transition_noise: Any,
        emission_noise: Any,
        initial_mean: Any,
        initial_covariance: Any,
        method: Literal["extended", "unscented"] = "extended",
        inputs: int = 0,
        schema: Schema | None = None,
    ):
        if method not in ("extended", "unscented"):
            raise HiddenStateError(f"method is {method!r}; it must be 'extended' or 'unscented'.")
        for name, function in (("transition", transition), ("emission", emission)):
            if not callable(function):
                raise HiddenStateError(f"{name} is {function!r}; it must be a function of z and u.")
        mean = np.asarray(initial_mean, float)
        if mean.ndim != 1 or not mean.size or not np.isfinite(mean).all():
            raise HiddenStateError(f"initial_mean has shape {mean.shape}; it must be (n,), of finite numbers.")
        n = len(mean)
        dtype = common_dtype(initial_mean, transition_noise, emission_noise, initial_covariance)
        z = jax.ShapeDtypeStruct((n,), dtype)
        u = jax.ShapeDtypeStruct((inputs,), dtype) if inputs else None
        moved, seen = jax.eval_shape(transition, z, u), jax.eval_shape(emission, z, u)
        if moved.shape != (n,):
            raise HiddenStateError(f"transition gives an array of shape {moved.shape}; it must be ({n},), as z is.")
        if len(seen.shape) > 1:
            raise HiddenStateError(f"emission gives an array of shape {seen.shape}; it must be a number or a vector.")
        self.scalar = seen.shape == ()
        size = 1 if self.scalar else seen.shape[0]
        self.transition, self.emission = transition, emission
        self.first = jnp.asarray(mean, dtype)
        self.noises = (
            covariance("transition_noise", transition_noise, n, dtype),
            covariance("emission_noise", emission_noise, size, dtype, scalar=self.scalar),
            covariance("initial_covariance", initial_covariance, n, dtype),
        )
        if any(noise.varies for noise in self.noises):
            raise HiddenStateError(
                "transition_noise, emission_noise and initial_covariance must not vary in time here."
            )
        self.method, self.inputs, self.schema = method, inputs, schema

    @property
    def transition_noise(self) -> Float[Array, "state state"]:
        """Q, a covariance."""
        return outer(self.noises[0].root)

    @property
    def emission_noise(self) -> Float[Array, "..."]:
        """R, a covariance or, where an observation is a single number, a variance."""
        found = outer(self.noises[1].root)
        return found[0, 0] if self.scalar else found

    @property
    def initial_mean(self) -> Float[Array, " state"]:
        """m."""
        return plain(self.first)

    @property
    def initial_covariance(self) -> Float[Array, "state state"]:
        """P."""
        return outer(self.noises[2].root)

    # -- the contract ----------------------------------------------------------------------------------------------

    def initial(self) -> Belief:
        """The first mean and covariance."""
        return Belief(self.initial_mean, self.initial_covariance)

    def prepare(self, x: Num[Array, "..."], u: Num[Array, " inputs"] | None = None) -> Observation:
        """The observation itself: the rest depends on the belief."""
        return Observation(self._event(x), u)

    def prepare_partial(
        self, x: Num[Array, "..."], u: Num[Array, " inputs"] | None, observed: Shaped[Array, "..."]
    ) -> Observation:
        """The same, with only the entries known where `observed` is True."""
        return Observation(self._event(x), u, jnp.reshape(observed, (self.noises[1].size,)))

    def step(self, state: Belief, element: Observation) -> Belief:
        """The belief over the next z, approximately: conditioned on the observation, then moved."""
        return self._moved(self._conditioned(state, element)[1], element.u)[0]

    def evidence(self, state: Belief, element: Observation) -> Float[Array, ""]:
        """The log-probability of the observation under the Gaussian of `readout`."""
        return self._conditioned(state, element)[0]

    def readout(self, state: Belief, u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The Gaussian of the next observation, approximately."""
        seen = self._moments(self._seen(u), state)
        spread = seen.covariance + outer(self.noises[1].root)
        if self.scalar:
            return NormalDistribution(seen.mean[0], jnp.sqrt(spread[0, 0]), validate_args=False)
        return MultivariateNormalDistribution(
            seen.mean, scale_tril=jnp.linalg.cholesky(symmetric(spread)), validate_args=False
        )

    # -- what observations say of the states -----------------------------------------------------------------------

    def filter(self, steps: Steps, strategy: Strategy) -> Filtered:
        """p(z_t | x_1 .. x_t), approximately."""
        known, _ = self._known(steps, strategy)
        return Filtered(known.mean, known.covariance)

    def smooth(self, steps: Steps, strategy: Strategy) -> Smoothed:
        """p(z_t | x_1 .. x_T), approximately: backward through the same linearisations or points."""
        known, elements = self._known(steps, strategy)
        valid = None if steps.valid is None else steps.valid[1:]

        def back(later, step):
            known, u, inside = step
            ahead, crossed = self._moved(known, u)
            gain = crossed @ semidefinite_inverse(ahead.covariance)
            spread = known.covariance + gain @ (later.covariance - ahead.covariance) @ gain.T
            new = Belief(known.mean + gain @ (later.mean - ahead.mean), symmetric(spread))
            shared = gain @ later.covariance
            return held(inside, new, known), (
                held(inside, new, known),
                shared if inside is None else jnp.where(inside, shared, 0.0),
            )

        last = jax.tree.map(lambda a: a[-1], known)
        earlier, inputs = jax.tree.map(lambda a: a[:-1], (known, elements.u))
        _, (beliefs, crossed) = jax.lax.scan(back, last, (earlier, inputs, valid), reverse=True)
        beliefs = jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), beliefs, last)
        return Smoothed(beliefs.mean, beliefs.covariance, crossed)

    def _known(self, steps: Steps, strategy: Strategy) -> tuple[Belief, Observation]:
        elements = prepared(self, steps)
        states = strategy.run(self, self.initial(), elements, steps.valid).states
        known = jax.vmap(lambda state, element: self._conditioned(state, element)[1])(states, elements)
        if steps.valid is not None:
            index = jnp.minimum(jnp.arange(steps.length), steps.valid.sum() - 1)
            known = jax.tree.map(lambda a: a[index], known)
        return known, elements

    # -- the three conditionals, for particle filters ---------------------------------------------------------------

    def latent_initial(self) -> Distribution:
        """The distribution of z_1."""
        return normal_with_root(self.initial_mean, self.noises[2].root)

    def latent_next(self, z: Float[Array, " state"], u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The distribution of z_{t+1} given z_t."""
        return normal_with_root(self.transition(z, u), self.noises[0].root)

    def latent_emission(self, z: Float[Array, " state"], u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The distribution of x_t given z_t."""
        if self.scalar:
            return NormalDistribution(self.emission(z, u), jnp.sqrt(self.emission_noise), validate_args=False)
        return normal_with_root(self.emission(z, u), self.noises[1].root)

    # -- approximations --------------------------------------------------------------------------------------------

    def _event(self, x: Any) -> Array:
        return jnp.reshape(jnp.asarray(x, dtype_of(self)), (self.noises[1].size,))

    def _seen(self, u: Any) -> Callable[[Array], Array]:
        return lambda z: jnp.atleast_1d(self.emission(z, u))

    def _conditioned(self, belief: Belief, element: Observation) -> tuple[Array, Belief]:
        seen = self._moments(self._seen(element.u), belief)
        noise = outer(self.noises[1].root)
        found = condition_on_moments(belief.mean, belief.covariance, *seen, noise, element.x, element.observed)
        return found.log_prob, Belief(found.mean, found.covariance)

    def _moved(self, known: Belief, u: Any) -> tuple[Belief, Array]:
        moved = self._moments(lambda z: self.transition(z, u), known)
        return Belief(moved.mean, symmetric(moved.covariance + self.transition_noise)), moved.crossed

    def _moments(self, function: Callable[[Array], Array], belief: Belief) -> Moments:
        if self.method == "extended":
            slope = jax.jacfwd(function)(belief.mean)
            crossed = belief.covariance @ slope.T
            return Moments(function(belief.mean), slope @ crossed, crossed)
        n = belief.mean.shape[0]
        spread = float(np.sqrt(max(3, n)))  # as a number of Python, which leaves the precision of arrays alone
        shares = np.full(2 * n + 1, 0.5 / spread**2)
        shares[0] = 1 - n / spread**2
        weights = jnp.asarray(shares, belief.mean.dtype)
        root = _root(belief.covariance) * spread
        apart = jnp.concatenate([jnp.zeros((1, n), root.dtype), root.T, -root.T])
        values = jax.vmap(function)(belief.mean + apart)
        mean = weights @ values
        left = values - mean
        return Moments(mean, (left.T * weights) @ left, (apart.T * weights) @ left)


@jax.custom_jvp
def _root(matrix: Array) -> Array:
    return semidefinite_root(matrix)


@_root.defjvp
def _root_slope(primals: Any, tangents: Any) -> Any:
    """The derivative of a triangular root, on the directions that have variance."""
    (matrix,), (change,) = primals, tangents
    root = semidefinite_root(matrix)
    diagonal = jnp.diagonal(root)
    some = diagonal > 0
    filled = root + jnp.diag(jnp.where(some, 0.0, 1.0).astype(root.dtype))
    inner = jax.scipy.linalg.solve_triangular(filled, symmetric(change), lower=True)
    inner = jax.scipy.linalg.solve_triangular(filled, inner.T, lower=True)
    lower = jnp.tril(inner, -1) + 0.5 * jnp.diag(jnp.diagonal(inner))
    return root, root @ jnp.where(some[:, None] & some, lower, 0.0)
