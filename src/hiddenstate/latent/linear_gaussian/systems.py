"""The arrays of a model's steps, of one or of all of a sequence."""

from typing import Any

import jax
import jax.numpy as jnp

from hiddenstate.core import DataError, Steps, dtype_of
from hiddenstate.latent.linear_gaussian.parameters import RANKS, Parameters, horizon_of, value_of, varies
from hiddenstate.latent.linear_gaussian.parts import plain
from hiddenstate.latent.linear_gaussian.system import System


def system_at(parameters: Parameters, time: Any = None, u: Any = None) -> System:
    """The arrays of the step `time` (any, where nothing varies) with the inputs `u`."""
    beyond, horizon = None, horizon_of(parameters)
    if horizon is not None:
        beyond = jnp.where(time < horizon, 0.0, jnp.nan)
        time = jnp.clip(time, 0, horizon - 1)

    def at(name):
        part = value_of(getattr(parameters, name))
        return part[time] if part is not None and part.ndim > RANKS[name] else part

    def sum_of(name, size):
        offset, matrix = at(f"{name}_offset"), at(f"{name}_input")
        total = jnp.zeros(size, dtype_of(parameters)) if offset is None else offset
        if matrix is not None:
            total = total + matrix @ u
        return total if beyond is None else total + beyond.astype(total.dtype)

    return System(
        at("transition"),
        sum_of("transition", plain(parameters.transition).shape[-1]),
        at("transition_noise"),
        at("emission"),
        sum_of("emission", plain(parameters.emission).shape[-2]),
        at("emission_noise"),
    )


def systems_of(parameters: Parameters, steps: Steps, start: Any = None) -> tuple[System, System]:
    """The arrays of all steps: those that stay, and those that vary, time first."""
    horizon = horizon_of(parameters)
    if horizon is None:
        varying = System(*[None] * 6)
        if parameters.transition_input is None and parameters.emission_input is None:
            return system_at(parameters), varying
        every = jax.vmap(lambda u: system_at(parameters, None, u))(steps.inputs)
        fixed = system_at(parameters, None, steps.inputs[0])._replace(shift=None, offset=None)
        return fixed, varying._replace(shift=every.shift, offset=every.offset)
    if steps.length > horizon:
        raise DataError(
            f"the data have {steps.length} steps, but the matrices of LinearGaussian are given for {horizon} only."
        )
    times = (0 if start is None else start) + jnp.arange(steps.length)
    if steps.valid is not None:
        times = jnp.where(steps.valid, times, 0)
    every = jax.vmap(lambda time, u: system_at(parameters, time, u))(times, steps.inputs)
    one = system_at(parameters, jnp.zeros((), jnp.int32), None if steps.inputs is None else steps.inputs[0])
    names = ("transition", None, "transition_noise", "emission", None, "emission_noise")
    moving = [name is None or varies(name, getattr(parameters, name)) for name in names]
    fixed = System(*[None if m else a for m, a in zip(moving, one, strict=True)])
    return fixed, System(*[a if m else None for m, a in zip(moving, every, strict=True)])
