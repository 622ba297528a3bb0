"""A state space model written down as functions."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Num, PRNGKeyArray
from hiddenstate.core import DataError, Frozen, HiddenStateError, checked_key, dtype_of, register
from hiddenstate.latent.particle.conditionals import check_conditionals, draw


class Simulated(NamedTuple):
    """Hidden states and observations of `StateSpace.simulate`, both with axes (sequence, time, ...)."""

    states: Array
    values: Array


@register("state-space")
class StateSpace(eqx.Module):
    r"""Any state space model, given as functions that return numpyro distributions.

    .. math::

        z_1 \sim \text{initial}(), \qquad z_{t+1} \sim \text{transition}(z_t, u_t), \qquad
        x_t \sim \text{emission}(z_t, u_t)

    It only names the three conditionals; `hs.ParticleFilter` makes a sequence model of it. The functions are written
    for one state z and one input u (None unless `inputs` says how many there are). `initial` may also be a
    distribution, which is then not learned.

    Plain functions have no parameters, so nothing of them is learned or saved. For that, give modules:
    registered subclasses of `equinox.Module` with a method `__call__` and arrays as fields.

    With ``linear_emission=True`` you promise that transition and emission are normal, the emission with a mean that is
    affine in z and a covariance that does not depend on z: then the locally optimal proposal is known
    (``proposal="guided"``).

    >>> hs.StateSpace(                                                 # stochastic volatility  # doctest: +SKIP
    ...     initial=dist.Normal(-1.0, 0.5),
    ...     transition=lambda z, u: dist.Normal(-1.0 + 0.95 * (z + 1.0), 0.3),
    ...     emission=lambda z, u: dist.Normal(0.0, jnp.exp(z / 2)),
    ... )
    """

    initial: Any
    transition: Callable[[Array, Any], Distribution]
    emission: Callable[[Array, Any], Distribution]
    inputs: int = eqx.field(static=True)
    linear_emission: bool = eqx.field(static=True)

    def __init__(
        self,
        initial: Distribution | Callable[[], Distribution],
        transition: Callable[[Array, Any], Distribution],
        emission: Callable[[Array, Any], Distribution],
        *,
        inputs: int = 0,
        linear_emission: bool = False,
    ):
        for name, part in (("transition", transition), ("emission", emission)):
            if not callable(part):
                raise HiddenStateError(
                    f"{name} is {type(part).__name__}; it must be a function of a state and an input."
                )
        if not isinstance(initial, Distribution) and not callable(initial):
            raise HiddenStateError(f"initial is {type(initial).__name__}; it must be a distribution, or a function.")
        if isinstance(inputs, bool) or not isinstance(inputs, int) or inputs < 0:
            raise HiddenStateError(f"inputs is {inputs!r}; it must be a whole number from 0 on.")
        fixed: Any = jax.tree.map(jnp.asarray, initial) if isinstance(initial, Distribution) else None
        self.initial = initial if fixed is None else Frozen(fixed)
        self.transition = transition
        self.emission = emission
        self.inputs = inputs
        self.linear_emission = bool(linear_emission)
        check_conditionals(self)

    def latent_initial(self) -> Distribution:
        """The distribution of z_1."""
        given: Any = self.initial.value if isinstance(self.initial, Frozen) else self.initial()
        return given

    def latent_next(self, z: Array, u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The distribution of z_{t+1} given z_t."""
        return self.transition(z, u)

    def latent_emission(self, z: Array, u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The distribution of x_t given z_t."""
        return self.emission(z, u)

    def simulate(self, length: int, *, key: PRNGKeyArray, n: int = 1, inputs: Any = None) -> Simulated:
        """`n` draws of hidden states and observations together; `inputs` (length, inputs) serve all of them."""
        for name, value in (("length", length), ("n", n)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise DataError(f"{name} is {value!r}; it must be a whole number of at least 1.")
        if self.inputs and np.shape(inputs) != (length, self.inputs):
            raise DataError(f"inputs has shape {np.shape(inputs)}; it must be ({length}, {self.inputs}).")
        us = jnp.asarray(inputs, dtype_of(self)) if self.inputs else None
        return _simulate(self, us, length, jr.split(checked_key(key), n))


@eqx.filter_jit
def _simulate(model: StateSpace, us: Any, length: int, keys: Any) -> Simulated:
    dtype = dtype_of(model)

    def advance(z, inputs):
        u, key = inputs
        emit_key, move_key = jr.split(key)
        x = draw(model.latent_emission(z, u), emit_key, dtype)
        return draw(model.latent_next(z, u), move_key, dtype), (z, x)

    def one(key):
        first_key, key = jr.split(key)
        z = draw(model.latent_initial(), first_key, dtype)
        return Simulated(*jax.lax.scan(advance, z, (us, jr.split(key, length)), length=length)[1])

    return jax.vmap(one)(keys)
