"""What a caller gave for the parts of a switching linear Gaussian model, checked and in the form that is kept."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from hiddenstate.core import Frozen, HiddenStateError, cast
from hiddenstate.latent import checks
from hiddenstate.latent.hmm.rows import Rows
from hiddenstate.latent.switching.regimes import RANKS, Parameters, array_part, covariance_part, held, unwrapped

PARTS = ("initial", "transition", "recurrence", *RANKS)
"""What `fixed` can name."""


def check_names(names: Any) -> None:
    """Raise unless `fixed` names parts of the model."""
    if isinstance(names, str):
        raise HiddenStateError(f"fixed is {names!r}; it must be a list of names, such as [{names!r}].")
    for name in names:
        if name not in PARTS:
            raise HiddenStateError(f"fixed names {name!r}; the parts are {', '.join(PARTS)}.")


def rows_part(name: str, given: Any, rank: int, fixed: bool, dtype: Any) -> Rows:
    """Probabilities, in rows that sum to one."""
    if np.size(given.value if isinstance(given, Frozen) else given) == 0:
        raise HiddenStateError(f"{name} is empty; a switching model has at least one regime.")
    rows = cast(Rows.of(name, given, rank), dtype)
    return Rows(Frozen(rows.values), rows.allowed) if fixed else rows


def all_parts(given: dict[str, Any], count: int, scalar: bool, dtype: Any) -> dict[str, Any]:
    """Every part as it is kept, for `count` regimes; where observations are single numbers, as vectors of one."""
    dynamics = checks.numbers("dynamics", given["dynamics"])
    if dynamics.ndim not in (2, 3) or dynamics.shape[-1] != dynamics.shape[-2]:
        raise HiddenStateError(
            f"dynamics has shape {dynamics.shape}; it must be ({count}, n, n), or (n, n) for all regimes."
        )
    n = dynamics.shape[-1]
    seen = checks.numbers("observation", given["observation"])
    m = 1 if scalar else seen.shape[-2] if seen.ndim > 1 else 0

    def part(name, *shape, said=None):
        if given[name] is None:
            return None
        said = ", ".join(map(str, shape)) if said is None else said
        takes = f"({', '.join(filter(None, (str(count), said)))}), or ({said}) for all regimes"
        if name in ("initial_covariance", "dynamics_noise", "observation_noise"):
            return covariance_part(name, given[name], shape[0], count, takes, dtype)
        return array_part(name, given[name], shape, count, takes, dtype)

    if given["initial_mean"] is None:
        given["initial_mean"] = np.zeros(n)
    if given["initial_covariance"] is None:
        given["initial_covariance"] = np.eye(n)
    if scalar:
        given["observation"] = np.asarray(part("observation", n))[..., None, :]
        if given["observation_offset"] is not None:
            given["observation_offset"] = np.asarray(part("observation_offset", said=""))[..., None]
        noise = checks.numbers("observation_noise", given["observation_noise"])
        given["observation_noise"] = noise[..., None, None]
    return {
        "initial_mean": part("initial_mean", n),
        "initial_covariance": part("initial_covariance", n, n),
        "dynamics": part("dynamics", n, n),
        "dynamics_offset": part("dynamics_offset", n),
        "dynamics_noise": part("dynamics_noise", n, n),
        "observation": part("observation", m or None, n, said=f"m, {n}"),
        "observation_offset": part("observation_offset", m),
        "observation_noise": part("observation_noise", m, m),
    }


def slopes_part(given: Any, count: int, size: int, dtype: Any, fixed: bool) -> Any:
    """How the switch looks at the state, or None."""
    if given is None:
        return None
    given, frozen = unwrapped(given)
    numbers = checks.shaped(
        "recurrence", checks.numbers("recurrence", given), (count, size), "one row of the state's numbers a regime"
    )
    return held(jnp.asarray(numbers, dtype), fixed or frozen)


def chain_sizes(chains: Any, parameters: Parameters, regimes: int, total: int) -> tuple[int, ...]:
    """How many hidden numbers each chain has, `total` together; what chains do must be the same in all regimes."""
    sizes = tuple(checks.whole("an entry of chains", size) for size in chains)
    if len(sizes) != regimes or sum(sizes) != total:
        raise HiddenStateError(
            f"chains is {sizes}; it must name a size for each of {regimes} regimes, {total} together."
        )
    for name in ("initial_mean", "initial_covariance", "dynamics", "dynamics_offset", "dynamics_noise"):
        if not parameters.is_shared(name):
            raise HiddenStateError(
                f"{name} has a value for each regime, but chains move in all regimes alike; give it without that axis."
            )
    return sizes
