"""Linear Gaussian models side by side, as the parts of one switching model."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag

from hiddenstate._types import Array
from hiddenstate.core import HiddenStateError, dtype_of
from hiddenstate.latent.linear_gaussian.model import LinearGaussian
from hiddenstate.latent.linear_gaussian.parts import plain


def stacked_parts(models: list[Any]) -> dict[str, Any]:
    """The states one behind the other, in blocks that do not act on each other, and an observation for each."""
    _check_chains(models)
    first, dtype = models[0], dtype_of(models[0])
    sizes = tuple(model.state_size for model in models)
    ends = np.cumsum(sizes)
    observation = np.zeros((len(models), first.event_size, int(ends[-1])), dtype)
    for k, (model, end) in enumerate(zip(models, ends, strict=True)):
        observation[k, :, end - model.state_size : end] = np.asarray(plain(model.parameters.emission))
    level = _filled([model.emission_offset for model in models], [np.shape(first.emission_noise)[:1]] * len(models))
    moves = _filled([model.transition_offset for model in models], [(size,) for size in sizes])
    return {
        "dynamics": _blocks([model.transition for model in models]),
        "dynamics_offset": None if moves is None else np.concatenate(moves).astype(dtype),
        "dynamics_noise": _blocks([model.transition_noise for model in models]),
        "observation": observation[:, 0] if first.scalar else observation,
        "observation_offset": None if level is None else np.stack(level).astype(dtype),
        "observation_noise": jnp.stack([model.emission_noise for model in models]),
        "initial_mean": jnp.concatenate([model.initial_mean for model in models]),
        "initial_covariance": _blocks([model.initial_covariance for model in models]),
        "chains": sizes,
    }


def _check_chains(models: list[Any]) -> None:
    if not models:
        raise HiddenStateError("chains is empty; a switching model has at least one chain.")
    for model in models:
        if not isinstance(model, LinearGaussian):
            raise HiddenStateError(f"chains holds a {type(model).__name__}; each must be an hs.LinearGaussian.")
        if model.diffuse is not None or model.horizon is not None or model.inputs:
            raise HiddenStateError("chains holds a model with diffuse, varying or input parts, which a switch lacks.")
    events = {(model.scalar, model.event_size) for model in models}
    if len(events) > 1:
        raise HiddenStateError(
            f"chains see observations of {sorted(size for _, size in events)} numbers; they must see the same."
        )


def _filled(offsets: list[Any], shapes: list[tuple[int, ...]]) -> list[np.ndarray] | None:
    """Zeros for those that are not there; None where none is."""
    if all(offset is None for offset in offsets):
        return None
    pairs = zip(offsets, shapes, strict=True)
    return [np.zeros(shape) if offset is None else np.asarray(offset) for offset, shape in pairs]


def _blocks(matrices: list[Any]) -> Array:
    return block_diag(*[jnp.asarray(matrix) for matrix in matrices])
