"""The parts of a linear Gaussian model as they are kept, and what may be given for them."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array
from hiddenstate.core import HiddenStateError, register
from hiddenstate.latent.linear_gaussian.covariances import Covariance, Diagonal, Full, Given, covariance
from hiddenstate.latent.linear_gaussian.parts import array, common_dtype, frozen, modules, plain

PARTS = (
    "transition",
    "transition_offset",
    "transition_input",
    "transition_noise",
    "emission",
    "emission_offset",
    "emission_input",
    "emission_noise",
    "initial_mean",
    "initial_covariance",
)
"""What `fixed` and EM's `only` can name."""

RANKS: dict[str, int] = dict(zip(PARTS, (2, 1, 2, 2, 2, 1, 2, 2, 1, 2), strict=True))


@register("linear-gaussian-parameters")
class Parameters(eqx.Module):
    """The parts as they are kept: covariances as factors, what is held fixed as `Frozen`."""

    transition: Any
    transition_offset: Any
    transition_input: Any
    transition_noise: Covariance
    emission: Any
    emission_offset: Any
    emission_input: Any
    emission_noise: Covariance
    initial_mean: Any
    initial_covariance: Covariance


def parameters_of(
    given: Mapping[str, Any], *, scalar: bool, diffuse: Any, inputs: int, fixed: Sequence[str]
) -> tuple[Parameters, tuple[bool, ...] | None]:
    """The parts as a person gave them, checked and in the form in which they are kept; and what is diffuse.

    Parts that are named in `fixed`, and those that vary over time, are frozen.
    """
    leading = ("transition", "transition_noise", "emission", "emission_noise", "initial_mean")
    dtype = common_dtype(*(leaf for name in leading for leaf in jax.tree.leaves(given[name])))
    transition = given["transition"]
    if not modules(transition):
        transition = array("transition", transition, (None, None), "(n, n), or (time, n, n)", dtype)
    n = plain(transition).shape[-1]
    if plain(transition).shape[-2] != n:
        raise HiddenStateError(f"transition has shape {plain(transition).shape}; it must be square, (n, n).")
    one, many = ("(n,)", "(time, n)") if scalar else ("(m, n)", "(time, m, n)")
    takes = f"{one} or {many} with n = {n}, as the transition has"
    emission = array("emission", given["emission"], (n,) if scalar else (None, n), takes, dtype)
    emission = emission[..., None, :] if scalar else emission
    m = emission.shape[-2]

    def vector(name: str, size: int, single: bool = False) -> Any:
        if given[name] is None:
            return None
        takes = "a number, or (time,)" if single else f"({size},), or (time, {size})"
        found = array(name, given[name], () if single else (size,), takes, dtype)
        return found[..., None] if single else found

    def matrix(name: str, rows: int, single: bool = False) -> Any:
        if given[name] is None:
            return None
        takes = f"({inputs},), or (time, {inputs})" if single else f"({rows}, {inputs}), or (time, {rows}, {inputs})"
        found = array(name, given[name], (inputs,) if single else (rows, inputs), takes, dtype)
        return found[..., None, :] if single else found

    def noise(name: str, size: int, single: bool = False) -> Any:
        part = given[name]
        return part if modules(part) else covariance(name, part, size, dtype, scalar=single)

    flags = diffuse_entries(diffuse, n)
    parts = {
        "transition": transition,
        "transition_offset": vector("transition_offset", n),
        "transition_input": matrix("transition_input", n),
        "transition_noise": noise("transition_noise", n),
        "emission": emission,
        "emission_offset": vector("emission_offset", m, scalar),
        "emission_input": matrix("emission_input", m, scalar),
        "emission_noise": noise("emission_noise", m, scalar),
        "initial_mean": first_mean(given["initial_mean"], n, dtype),
        "initial_covariance": first_covariance(given["initial_covariance"], flags, n, dtype),
    }
    spread = parts["emission_noise"]
    check_names("fixed", fixed)
    for name, part in parts.items():
        if name in fixed or varies(name, part):
            parts[name] = frozen(part)
    found = Parameters(**parts)
    check_times(found)
    if flags is not None and spread.rank < m and not spread.diagonal:
        raise HiddenStateError(
            "emission_noise is singular and not diagonal, which diffuse initial states do not allow; give it as a "
            "vector of variances, or leave out diffuse."
        )
    return found, flags


def value_of(part: Any) -> Any:
    """A matrix or vector as it enters a step: a covariance by its square root."""
    return part.root if isinstance(part, Full | Diagonal | Given) else plain(part)


def varies(name: str, part: Any) -> bool:
    """Whether a part has a time axis."""
    if isinstance(part, Full | Diagonal | Given):
        return part.varies
    return part is not None and not modules(part) and plain(part).ndim > RANKS[name]


def horizon_of(parameters: Parameters) -> int | None:
    """For how many steps the parts that vary are given; None where none does."""
    for name in PARTS:
        part = getattr(parameters, name)
        if varies(name, part):
            return value_of(part).shape[0]
    return None


def check_times(parameters: Parameters) -> None:
    """Parts that vary must agree on the number of steps, and the first state has no time axis."""
    lengths = {}
    for name in PARTS:
        part = getattr(parameters, name)
        if varies(name, part):
            lengths[name] = value_of(part).shape[0]
    if "initial_mean" in lengths or "initial_covariance" in lengths:
        raise HiddenStateError("initial_mean and initial_covariance belong to the first step; they have no time axis.")
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name} for {length}" for name, length in lengths.items())
        raise HiddenStateError(f"the matrices that vary must be given for one number of steps; got {said}.")


def input_count(transition: Any, emission: Any, inputs: int | None) -> int:
    """How many inputs there are, from whatever says so."""
    sizes = {np.shape(given)[-1] for given in (transition, emission) if np.ndim(given) > 0}
    if inputs is not None:
        sizes.add(int(inputs))
    if len(sizes) > 1:
        raise HiddenStateError(
            f"transition_input, emission_input and inputs must agree on how many inputs there are; got {sorted(sizes)}."
        )
    count = sizes.pop() if sizes else 0
    if count and transition is None and emission is None:
        raise HiddenStateError(
            f"inputs is {count}, but neither transition_input nor emission_input is given: they would have no effect."
        )
    return count


def diffuse_entries(given: Any, n: int) -> tuple[bool, ...] | None:
    """Of which entries of the first state nothing is known, as booleans; None where all are proper."""
    flags = np.asarray(given)
    if flags.dtype != bool or flags.shape not in ((), (n,)):
        raise HiddenStateError(f"diffuse is {given!r}; it must be True, False or a list of {n} booleans.")
    flags = np.broadcast_to(flags, (n,))
    return tuple(bool(flag) for flag in flags) if flags.any() else None


def first_mean(given: Any, n: int, dtype: Any) -> Array:
    """The mean of the first state, zero unless given."""
    mean = jnp.zeros(n, dtype) if given is None else array("initial_mean", given, (n,), f"({n},)", dtype)
    if mean.ndim != 1:
        raise HiddenStateError(f"initial_mean has shape {mean.shape}; it must be ({n},).")
    return mean


def first_covariance(given: Any, diffuse: tuple[bool, ...] | None, n: int, dtype: Any) -> Covariance:
    """The covariance of the first state, the identity unless given, without what is diffuse."""
    if modules(given):
        return given
    proper = np.ones(n, bool) if diffuse is None else ~np.asarray(diffuse)
    if given is None:
        given = np.diag(proper.astype(float))
    found = np.asarray(given, float)
    if found.shape == (n,):
        return covariance("initial_covariance", np.where(proper, found, 0.0), n, dtype)
    if found.shape == (n, n):
        covariance("initial_covariance", found, n, dtype)
        return covariance("initial_covariance", np.where(proper[:, None] & proper, found, 0.0), n, dtype)
    return covariance("initial_covariance", given, n, dtype)


def check_names(argument: str, names: Any) -> None:
    """Names of parts, in a list."""
    if isinstance(names, str):
        raise HiddenStateError(f"{argument} is {names!r}; it must be a list of names, such as [{names!r}].")
    for name in names:
        if name not in PARTS:
            raise HiddenStateError(f"{argument} names {name!r}; the parts are {', '.join(PARTS)}.")
