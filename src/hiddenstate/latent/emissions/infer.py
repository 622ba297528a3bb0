"""The emissions that fit the data: their family by what the columns hold, their parameters by the values."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import Column, DataError, HiddenStateError, Sequences
from hiddenstate.latent import checks
from hiddenstate.latent.emissions.autoregressive import Autoregressive
from hiddenstate.latent.emissions.bernoulli import Bernoulli
from hiddenstate.latent.emissions.categorical import Categorical
from hiddenstate.latent.emissions.columns import Columns
from hiddenstate.latent.emissions.emission import Emission
from hiddenstate.latent.emissions.gaussian import KINDS, Gaussian
from hiddenstate.latent.emissions.gaussian_mixture import GaussianMixture
from hiddenstate.latent.emissions.linear_regression import LinearRegression
from hiddenstate.latent.emissions.negative_binomial import NegativeBinomial
from hiddenstate.latent.emissions.poisson import Poisson
from hiddenstate.latent.emissions.seeding import check_enough
from hiddenstate.latent.emissions.student_t import StudentT

_DEFAULTS = {"symbol": "categorical", "bit": "bernoulli", "count": "poisson", "real": "gaussian"}
_MOST_FULL = 10
"""Vectors of more columns than this get diagonal covariances unless told otherwise."""


@dataclass(frozen=True)
class _Observed:
    """The columns of a data set and the values seen in each; `scalar` where an observation is one number."""

    columns: tuple[Column, ...]
    values: tuple[np.ndarray, ...]
    scalar: bool
    inputs: int

    @property
    def event(self) -> tuple[int, ...]:
        return () if self.scalar else (len(self.columns),)

    def refuse_unless(self, good: Callable[[np.ndarray], np.ndarray], family: str, due: str) -> None:
        """Raise DataError if a value is not good, or is the code of a name."""
        for column, values in zip(self.columns, self.values, strict=True):
            if column.symbols is not None and family not in ("categorical", "bernoulli"):
                raise DataError(f"column {column.name!r} holds names, but {family} emissions take {due}.")
            bad = values[~good(values)]
            if bad.size:
                raise DataError(f"column {column.name!r} holds {bad[0]:g}, but {family} emissions take {due}.")


def emission_for(
    data: Sequences, states: int, *, key: PRNGKeyArray, family: str | None = None, **options: Any
) -> Emission:
    """Emissions for the observations of `data` under that many hidden states, started by k-means.

    Symbols get Categorical emissions, bits Bernoulli, counts Poisson, real numbers Gaussian (of full covariance for
    vectors of up to 10 columns, else diagonal), and records of several kinds (or of several symbols) Columns with one
    such family each. `family` names another: categorical, bernoulli, poisson, negative-binomial, gaussian (option
    `covariance`), student-t, gaussian-mixture (options `components` and `covariance`), regression (on the inputs),
    autoregressive (option `lags`), columns.
    """
    states = checks.whole("states", states)
    kind = data.schema.kind
    several_symbols = kind == "symbol" and not data.schema.scalar
    name = family or ("columns" if several_symbols else _DEFAULTS.get(kind, "columns"))
    if name not in _FAMILIES:
        raise HiddenStateError(f"emission is {family!r}; it must be one of {', '.join(_FAMILIES)}.")
    for option in options:
        if option not in _OPTIONS.get(name, ()):
            taken = ", ".join(_OPTIONS.get(name, ())) or "none"
            raise HiddenStateError(
                f"there is no option {option!r}, neither of the model nor of {name} emissions (which take {taken})."
            )
    seen = _observed(data)
    check_enough(max(values.size for values in seen.values), states)
    return _FAMILIES[name](seen, states, **options).restart(data, key=key)


def _observed(data: Sequences) -> _Observed:
    schema = data.schema
    table = data.values.reshape(*data.values.shape[:2], len(schema.columns))
    seen = np.broadcast_to(data.valid[..., None], table.shape)
    if data.observed is not None:
        seen = seen & data.observed.reshape(table.shape)
    values = tuple(table[..., i][seen[..., i]].astype(float) for i in range(len(schema.columns)))
    return _Observed(schema.columns, values, schema.scalar, 0 if data.inputs is None else data.inputs.shape[2])


def _full(shape: tuple[int, ...], value: float = 1.0) -> Any:
    """Parameters that stand for nothing yet, in JAX's default precision."""
    return jnp.full(shape, value, dtype=float)


def _is_count(values: np.ndarray) -> np.ndarray:
    return (values >= 0) & (values % 1 == 0)


def _categorical(seen: _Observed, states: int) -> Emission:
    if not seen.scalar:
        raise DataError(
            "categorical emissions take single symbols, but observations are vectors "
            f"({len(seen.columns)} columns); columns emissions take these."
        )
    seen.refuse_unless(_is_count, "categorical", "symbols 0, 1, 2 and so on")
    highest = int(seen.values[0].max()) if seen.values[0].size else 0
    symbols = max(seen.columns[0].size, highest + 1)
    return Categorical(_full((states, symbols), 1 / symbols))


def _bernoulli(seen: _Observed, states: int) -> Emission:
    seen.refuse_unless(lambda values: (values == 0) | (values == 1), "bernoulli", "0 and 1")
    return Bernoulli(_full((states, *seen.event), 0.5))


def _poisson(seen: _Observed, states: int) -> Emission:
    seen.refuse_unless(_is_count, "poisson", "whole numbers from 0 on")
    return Poisson(_full((states, *seen.event)))


def _gaussian(seen: _Observed, states: int, covariance: str | None = None) -> Emission:
    seen.refuse_unless(np.isfinite, "gaussian", "numbers")
    means = _full((states, *seen.event), 0.0)
    columns = len(seen.columns)
    kind = covariance or ("full" if columns <= _MOST_FULL else "diagonal")
    if kind not in KINDS:
        raise HiddenStateError(f"covariance is {covariance!r}; it must be one of {', '.join(map(repr, KINDS))}.")
    if seen.scalar:
        return Gaussian(means, _full(()) if kind == "tied" else _full((states,)), covariance=kind)
    identity = jnp.eye(columns, dtype=means.dtype)
    shapes = {
        "full": jnp.broadcast_to(identity, (states, columns, columns)),
        "diagonal": _full((states, columns)),
        "spherical": _full((states,)),
        "tied": identity,
    }
    return Gaussian(means, shapes[kind], covariance=kind)  # pyright: ignore[reportArgumentType]


def _negative_binomial(seen: _Observed, states: int) -> Emission:
    seen.refuse_unless(_is_count, "negative-binomial", "whole numbers from 0 on")
    return NegativeBinomial(_full((states, *seen.event)), _full((states, *seen.event)))


def _student_t(seen: _Observed, states: int) -> Emission:
    seen.refuse_unless(np.isfinite, "student-t", "numbers")
    shape = (states, *seen.event)
    return StudentT(_full(shape, 0.0), _full(shape), _full(shape, 10.0))


def _gaussian_mixture(seen: _Observed, states: int, components: int = 2, covariance: str | None = None) -> Emission:
    seen.refuse_unless(np.isfinite, "gaussian-mixture", "numbers")
    components = checks.whole("components", components)
    columns = len(seen.columns)
    kind = covariance or ("full" if columns <= _MOST_FULL and not seen.scalar else "diagonal")
    if kind not in ("full", "diagonal"):
        raise HiddenStateError(f"covariance is {covariance!r}; that of a mixture must be 'full' or 'diagonal'.")
    shape = (states, components, *seen.event)
    full = kind == "full" and not seen.scalar
    spreads = jnp.broadcast_to(jnp.eye(columns, dtype=float), (*shape, columns)) if full else _full(shape)
    return GaussianMixture(_full((states, components), 1 / components), _full(shape, 0.0), spreads)


def _regression(seen: _Observed, states: int) -> Emission:
    seen.refuse_unless(np.isfinite, "regression", "numbers")
    if not seen.inputs:
        raise DataError("regression emissions depend on inputs, but the data have none.")
    shape = (states, *seen.event)
    return LinearRegression(_full(shape, 0.0), _full((*shape, seen.inputs), 0.0), _full(shape))


def _autoregressive(seen: _Observed, states: int, lags: int = 1) -> Emission:
    seen.refuse_unless(np.isfinite, "autoregressive", "numbers")
    shape = (states, *seen.event)
    weights = _full((states, checks.whole("lags", lags), *seen.event, *seen.event), 0.0)
    return Autoregressive(_full(shape, 0.0), weights, _full(shape))


def _columns(seen: _Observed, states: int) -> Emission:
    if seen.scalar:
        raise DataError("columns emissions take vectors, but observations are single numbers.")
    parts = []
    for column, values in zip(seen.columns, seen.values, strict=True):
        alone = replace(seen, columns=(column,), values=(values,), scalar=True)
        parts.append((column.name, _FAMILIES[_DEFAULTS[column.kind]](alone, states)))
    return Columns(parts)


_FAMILIES: dict[str, Callable[..., Emission]] = {
    "categorical": _categorical,
    "bernoulli": _bernoulli,
    "poisson": _poisson,
    "negative-binomial": _negative_binomial,
    "gaussian": _gaussian,
    "student-t": _student_t,
    "gaussian-mixture": _gaussian_mixture,
    "regression": _regression,
    "autoregressive": _autoregressive,
    "columns": _columns,
}

_OPTIONS = {
    "gaussian": ("covariance",),
    "gaussian-mixture": ("components", "covariance"),
    "autoregressive": ("lags",),
}
