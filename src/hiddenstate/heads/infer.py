"""The head that fits the data: its family by what the columns hold, its units by their values."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from hiddenstate._types import Array, PRNGKeyArray
from hiddenstate.core import Column, DataError, HiddenStateError, Sequences
from hiddenstate.heads.bernoulli import Bernoulli
from hiddenstate.heads.categorical import Categorical
from hiddenstate.heads.columns import Columns
from hiddenstate.heads.gaussian import Gaussian
from hiddenstate.heads.head import Head
from hiddenstate.heads.mixture import Mixture
from hiddenstate.heads.nade import NADE
from hiddenstate.heads.negative_binomial import NegativeBinomial
from hiddenstate.heads.poisson import Poisson
from hiddenstate.heads.student_t import StudentT
from hiddenstate.heads.subset import Subset

_MIXTURE = "mixture-"
_OWN = 0.75
"""What a component has of its own when it starts; the rest it has of the mean."""

_DEFAULTS = {"symbol": "categorical", "bit": "bernoulli", "count": "negative-binomial", "real": "gaussian"}


@dataclass(frozen=True)
class _Observed:
    """The columns of a data set and the values seen in each; `scalar` where an observation is one number."""

    columns: tuple[Column, ...]
    values: tuple[np.ndarray, ...]
    scalar: bool

    @property
    def size(self) -> int | None:
        return None if self.scalar else len(self.columns)

    def each(self, statistic: Callable[[np.ndarray], float]) -> Any:
        """A statistic of every column, in the shape of one observation."""
        numbers = np.array([statistic(column) for column in self.values])
        return numbers[0] if self.scalar else numbers

    def refuse_unless(self, good: Callable[[np.ndarray], np.ndarray], head: str, due: str) -> None:
        """Raise DataError if a value is not good, or is the code of a name."""
        for column, values in zip(self.columns, self.values, strict=True):
            if column.symbols is not None and head not in ("categorical", "bernoulli", "nade", "subset"):
                raise DataError(f"column {column.name!r} holds names, but a {head} head takes {due}.")
            bad = values[~good(values)]
            if bad.size:
                raise DataError(f"column {column.name!r} holds {bad[0]:g}, but a {head} head takes {due}.")


def head_for(data: Sequences, hidden_size: int, *, key: PRNGKeyArray, head: str | None = None, **options: Any) -> Head:
    """A head for the observations of `data`, over a hidden vector of `hidden_size`.

    Symbols get a Categorical head, bits a Bernoulli, counts a NegativeBinomial, real numbers a Gaussian with
    a diagonal covariance, and records of several kinds (or of several symbols) Columns with one such head
    each. Location and scale, rate and spread, or odds of bits are those of the observed values; where a family has a
    dispersion it is a learned constant, or with ``dispersion="state"`` follows the state. `head` names
    another family: categorical, bernoulli, nade (bits that depend on each other; option `units`), subset (the
    same where few bits are on; options `units`, and `most`, by default twice as many as were seen at once), gaussian
    (option `covariance`), gaussian-full, student-t, poisson, negative-binomial, columns; or mixture- with any of these
    behind it (option `components`, 5 by default), whose components start near observations that were drawn at random,
    where the family can (gaussian, student-t, bernoulli).
    """
    kind = data.schema.kind
    several_symbols = kind == "symbol" and not data.schema.scalar
    name = head or ("columns" if several_symbols else _DEFAULTS.get(kind, "columns"))
    family = name.removeprefix(_MIXTURE)
    if family not in _FAMILIES:
        raise HiddenStateError(
            f"head is {head!r}; it must be one of {', '.join(_FAMILIES)}, or {_MIXTURE} and one of these."
        )
    components = options.pop("components", 5) if name.startswith(_MIXTURE) else None
    for option in options:
        if option not in _OPTIONS.get(family, ()):
            raise HiddenStateError(f"a {name} head has no option {option!r}.")
    family_key, mixture_key = jr.split(key)
    made = _FAMILIES[family](_observed(data), hidden_size, family_key, **options)
    if components is None:
        return made
    return Mixture(made, components, starts=_starts(made, data, components, mixture_key), key=mixture_key)


def _starts(head: Head, data: Sequences, components: Any, key: PRNGKeyArray) -> Array | None:
    """Where components start: near as many observations, drawn to the mean of all so that none is alone."""
    whole = data.valid if data.observed is None else data.valid & data.observed.reshape(*data.valid.shape, -1).all(-1)
    seen = data.values[whole]
    if not isinstance(components, int) or components < 1 or not len(seen):
        return None
    drawn = np.asarray(jr.choice(jr.fold_in(key, 2), len(seen), (components,), replace=components > len(seen)))
    codes = jax.vmap(head.encode)(jnp.asarray(seen[drawn]))
    if head.around(codes[0]) is None:
        return None
    middle = jax.vmap(head.encode)(jnp.asarray(seen)).mean(0)
    return jnp.stack([head.around(_OWN * code + (1 - _OWN) * middle) for code in codes])  # pyright: ignore


def _observed(data: Sequences) -> _Observed:
    schema = data.schema
    table = data.values.reshape(*data.values.shape[:2], len(schema.columns))
    seen = np.broadcast_to(data.valid[..., None], table.shape)
    if data.observed is not None:
        seen = seen & data.observed.reshape(table.shape)
    values = tuple(table[..., i][seen[..., i]].astype(float) for i in range(len(schema.columns)))
    return _Observed(schema.columns, values, schema.scalar)


def _is_count(values: np.ndarray) -> np.ndarray:
    return (values >= 0) & (values % 1 == 0)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else 0.0


def _deviation(values: np.ndarray) -> float:
    """The standard deviation; 1 where all values are the same, up to rounding."""
    if values.size == 0:
        return 1.0
    deviation = float(values.std())
    return deviation if deviation > 1e-12 * float(np.abs(values).max()) else 1.0


def _rate(values: np.ndarray) -> float:
    """The mean; where all counts are 0, that of half an event."""
    return _mean(values) or 0.5 / max(1, values.size)


def _categorical(seen: _Observed, hidden_size: int, key: PRNGKeyArray) -> Head:
    if not seen.scalar:
        raise DataError(
            "a categorical head takes single symbols, but observations are vectors "
            f"({len(seen.columns)} columns); a columns head takes these."
        )
    seen.refuse_unless(_is_count, "categorical", "symbols 0, 1, 2 and so on")
    highest = int(seen.values[0].max()) if seen.values[0].size else 0
    return Categorical(hidden_size, max(seen.columns[0].size, highest + 1), key=key)


def _bernoulli(seen: _Observed, hidden_size: int, key: PRNGKeyArray) -> Head:
    seen.refuse_unless(lambda values: (values == 0) | (values == 1), "bernoulli", "0 and 1")
    return _at_odds(Bernoulli(hidden_size, seen.size, key=key), seen)


def _nade(seen: _Observed, hidden_size: int, key: PRNGKeyArray, units: int = 64) -> Head:
    return _at_odds(NADE(hidden_size, _bits(seen, "nade"), units, key=key), seen)


def _subset(seen: _Observed, hidden_size: int, key: PRNGKeyArray, units: int = 64, most: int | None = None) -> Head:
    bits = _bits(seen, "subset")
    if len({len(column) for column in seen.values}) == 1:
        found = int(np.sum(seen.values, axis=0).max(initial=0))
        if most is not None and most < found:
            raise DataError(
                f"most is {most}, but there are observations with {found} bits on, which a subset head of "
                "this size holds for impossible."
            )
        most = max(1, 2 * found) if most is None else most
    return Subset(hidden_size, bits, units, most, key=key)


def _at_odds(head: Head, seen: _Observed) -> Head:
    """The head with biases of the observed odds of each bit, with half a one and half a zero more."""
    odds = [np.log((column.sum() + 0.5) / ((1 - column).sum() + 0.5)) for column in seen.values]
    _, bias = head.linear
    return eqx.tree_at(lambda h: h.bias, head, bias.at[: len(odds)].set(np.array(odds)))


def _bits(seen: _Observed, head: str) -> int:
    """How many bits an observation has, which must be a vector of them."""
    seen.refuse_unless(lambda values: (values == 0) | (values == 1), head, "0 and 1")
    if seen.size is None:
        raise DataError(f"a {head} head takes vectors of bits, but observations are single numbers.")
    return seen.size


def _gaussian(
    seen: _Observed,
    hidden_size: int,
    key: PRNGKeyArray,
    covariance: Any = "diagonal",
    dispersion: Any = "constant",
) -> Head:
    seen.refuse_unless(np.isfinite, "gaussian", "numbers")
    if covariance == "full" and seen.scalar:
        raise DataError("a gaussian head with full covariance takes vectors, but observations are single numbers.")
    units = seen.each(_mean), seen.each(_deviation)
    return Gaussian(hidden_size, seen.size, covariance, *units, dispersion=dispersion, key=key)


def _gaussian_full(seen: _Observed, hidden_size: int, key: PRNGKeyArray, dispersion: Any = "constant") -> Head:
    return _gaussian(seen, hidden_size, key, "full", dispersion)


def _student_t(seen: _Observed, hidden_size: int, key: PRNGKeyArray, dispersion: Any = "constant") -> Head:
    seen.refuse_unless(np.isfinite, "student-t", "numbers")
    units = seen.each(_mean), seen.each(_deviation)
    return StudentT(hidden_size, seen.size, *units, dispersion=dispersion, key=key)


def _count_units(seen: _Observed, name: str) -> tuple[Any, Any]:
    seen.refuse_unless(_is_count, name, "whole numbers from 0 on")
    return seen.each(_rate), seen.each(lambda values: _deviation(np.log1p(values)))


def _poisson(seen: _Observed, hidden_size: int, key: PRNGKeyArray) -> Head:
    return Poisson(hidden_size, seen.size, *_count_units(seen, "poisson"), key=key)


def _negative_binomial(seen: _Observed, hidden_size: int, key: PRNGKeyArray, dispersion: Any = "constant") -> Head:
    units = _count_units(seen, "negative-binomial")
    return NegativeBinomial(hidden_size, seen.size, *units, dispersion=dispersion, key=key)


def _columns(seen: _Observed, hidden_size: int, key: PRNGKeyArray, **options: Any) -> Head:
    if seen.scalar:
        raise DataError("a columns head takes vectors, but observations are single numbers.")
    keys = jr.split(key, len(seen.columns))
    heads = []
    for column, values, column_key in zip(seen.columns, seen.values, keys, strict=True):
        alone = replace(seen, columns=(column,), values=(values,), scalar=True)
        family = _DEFAULTS[column.kind]
        known = options if "dispersion" in _OPTIONS.get(family, ()) else {}
        heads.append((column.name, _FAMILIES[family](alone, hidden_size, column_key, **known)))
    return Columns(heads)


_FAMILIES: dict[str, Callable[..., Head]] = {
    "categorical": _categorical,
    "bernoulli": _bernoulli,
    "nade": _nade,
    "subset": _subset,
    "gaussian": _gaussian,
    "gaussian-full": _gaussian_full,
    "student-t": _student_t,
    "poisson": _poisson,
    "negative-binomial": _negative_binomial,
    "columns": _columns,
}

_OPTIONS = {
    "nade": ("units",),
    "subset": ("units", "most"),
    "gaussian": ("covariance", "dispersion"),
    "gaussian-full": ("dispersion",),
    "student-t": ("dispersion",),
    "negative-binomial": ("dispersion",),
    "columns": ("dispersion",),
}
