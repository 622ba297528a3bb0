"""The recipe: a switching linear Gaussian model of real numbers, with starting values from the data."""

from typing import Literal

import jax.numpy as jnp
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import DataError, HiddenStateError, Sequences, recipe
from hiddenstate.latent import checks
from hiddenstate.latent.switching.model import SwitchingLinearGaussian

FORMS = ("dynamics", "chains")


@recipe("slds")
def slds(
    data: Sequences,
    *,
    key: PRNGKeyArray,
    states: int = 3,
    size: int = 2,
    form: Literal["dynamics", "chains"] = "dynamics",
    recurrent: bool = False,
    method: Literal["gpb2", "imm"] = "gpb2",
) -> SwitchingLinearGaussian:
    """A switching linear Gaussian model of real numbers, with `states` regimes and `size` hidden numbers.

    With ``form="dynamics"`` the regimes differ in how the hidden state moves, and all see it alike. With ``"chains"``
    there is a chain of `size` hidden numbers for each regime, and the regime selects which one is seen (Ghahramani and
    Hinton 2000). With ``recurrent=True`` the switch looks at the state, which SGD learns and EM does not. `method` is
    how the filter joins Gaussians. It starts from stretches of the data, sorted by how they move.
    """
    checks.whole("states", states)
    checks.whole("size", size)
    if form not in FORMS:
        raise HiddenStateError(f"form is {form!r}; it must be 'dynamics' or 'chains'.")
    if set(data.schema.kinds) & {"symbol", "bit"}:
        raise DataError("a switching linear Gaussian model needs numbers, but the data hold symbols; take 'hmm'.")
    if data.inputs is not None:
        raise DataError("a switching linear Gaussian model takes no inputs, but the data have some; leave them out.")
    rough = _rough(data, states, size, chains=form == "chains", recurrent=recurrent, method=method)
    return rough.restart(data, key=key, how="kmeans")


def _rough(
    data: Sequences, states: int, size: int, *, chains: bool, recurrent: bool, method: Literal["gpb2", "imm"]
) -> SwitchingLinearGaussian:
    """A model of the right shapes: chains move alike in all regimes, which then see them each in its own way."""
    dtype = np.dtype(jnp.result_type(float))
    scalar, width = data.event_shape == (), int(np.prod(data.event_shape, dtype=int))
    total = states * size if chains else size
    moving, seeing = ((), (states,)) if chains else ((states,), ())
    square = np.broadcast_to(np.eye(total, dtype=dtype), (*moving, total, total))
    observation, level = np.ones((*seeing, width, total), dtype), np.zeros((*seeing, width), dtype)
    return SwitchingLinearGaussian(
        initial=np.full(states, 1 / states, dtype),
        transition=np.full((states, states), 1 / states, dtype),
        dynamics=0.9 * square,
        dynamics_offset=None if chains else np.zeros((states, total), dtype),
        dynamics_noise=square,
        observation=observation[..., 0, :] if scalar else observation,
        observation_offset=level[..., 0] if scalar else level,
        observation_noise=1.0 if scalar else np.eye(width, dtype=dtype),
        recurrence=np.zeros((states, total), dtype) if recurrent else None,
        chains=(size,) * states if chains else None,
        method=method,
        schema=data.schema,
    )
