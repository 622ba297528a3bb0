"""What a compiled particle filter takes of a linear Gaussian model."""

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from hiddenstate.core import Steps
from hiddenstate.latent.linear_gaussian.parameters import Parameters
from hiddenstate.latent.linear_gaussian.singular import drawn_root
from hiddenstate.latent.linear_gaussian.systems import systems_of
from hiddenstate.native.particle import Linear


def linear_moves(parameters: Parameters, steps: Steps) -> Linear | None:
    """Moves and whitened emissions of all steps; None where single entries of observations are missing."""
    fixed, varying = systems_of(parameters, steps)
    root = drawn_root(fixed.emission_noise)
    size = root.shape[0]
    if steps.observed is not None and size > 1:
        return None
    white = solve_triangular(root, jnp.eye(size, dtype=root.dtype), lower=True)
    constant = -jnp.log(jnp.abs(jnp.diagonal(root))).sum() - 0.5 * size * np.log(2 * np.pi)
    offset = fixed.offset if varying.offset is None else varying.offset
    xs = jnp.reshape(jnp.asarray(steps.values, root.dtype), (steps.length, size)) - offset
    shift = fixed.shift[None] if varying.shift is None else varying.shift
    return Linear(fixed.transition, drawn_root(fixed.noise), white @ fixed.emission, constant, xs @ white.T, shift)
