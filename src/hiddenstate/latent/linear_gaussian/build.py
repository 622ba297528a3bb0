"""The recipe: a linear Gaussian model by the name of its structure, with starting values from the data."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import DataError, HiddenStateError, Sequences, recipe
from hiddenstate.latent.linear_gaussian import structural
from hiddenstate.latent.linear_gaussian.model import LinearGaussian
from hiddenstate.latent.linear_gaussian.parts import common_dtype

STRUCTURES = ("level", "local-level", "trend", "seasonal", "ar", "oscillation")
"""The names that `structure` joins by a plus sign."""


@recipe("linear-gaussian")
def linear_gaussian(
    data: Sequences,
    *,
    key: PRNGKeyArray,
    structure: str | None = None,
    states: int | None = None,
    period: float | None = None,
    order: int | None = None,
    diffuse: bool = False,
) -> LinearGaussian:
    """A linear Gaussian model of real numbers: free, or of a named structure such as ``"level+seasonal"``.

    A free model has `states` hidden numbers (one more than there are columns, at most four, by default) and starts
    from a regression of the data on their own past. The structures, for single numbers, are level, trend, seasonal
    (with its `period`), ar (with its `order`, by default 2) and oscillation (with its `period`, by default where the
    data's spectrum is highest). With ``diffuse=True`` nothing is assumed of where they start.
    """
    del key
    kinds = set(data.schema.kinds)
    if "symbol" in kinds:
        raise DataError("a linear Gaussian model needs numbers, but the data hold symbols; take 'hmm'.")
    inputs = 0 if data.inputs is None else data.inputs.shape[2]
    rows = _filled(data)
    if structure is None:
        return _free(data, rows, states, diffuse, inputs)
    if states is not None:
        raise HiddenStateError(f"states is {states}, but structure={structure!r} says how many states there are.")
    if data.event_shape != ():
        raise DataError(
            f"structure is {structure!r}, but each observation has shape {data.event_shape}: structures are for "
            "single numbers. Leave structure out for a free model."
        )
    variance = max(float(np.concatenate(rows).var()), 1e-12)
    moves = float(np.mean([np.diff(row[:, 0]).var() if len(row) > 2 else variance for row in rows]))
    names = [name.strip() for name in structure.split("+")]
    whole = None
    for name in names:
        part = _component(name, rows, variance, max(moves, 1e-3 * variance), period, order, len(names))
        whole = part if whole is None else whole + part
    assert whole is not None
    still = not any(name in ("level", "local-level", "trend") for name in names)
    centre = float(np.concatenate(rows).mean()) if still else float(rows[0][0, 0])
    mean = np.zeros(whole.state_size)
    mean[0] = 0.0 if still else centre
    model = whole.model(
        emission_noise=0.5 * moves if moves > 0 else 1e-3 * variance,
        diffuse=diffuse,
        initial_mean=mean if not still else None,
        initial_variance=variance,
        inputs=inputs,
        schema=data.schema,
    )
    return _with_offset(model, centre) if still else model


def _component(
    name: str, rows: list[np.ndarray], variance: float, moves: float, period: Any, order: Any, parts: int
) -> structural.Component:
    if name in ("level", "local-level"):
        return structural.local_level(0.3 * moves)
    if name == "trend":
        return structural.local_linear_trend(0.3 * moves, 0.01 * moves)
    if name == "seasonal":
        if period is None or int(period) != period:
            raise HiddenStateError(f"period is {period!r}; structure 'seasonal' needs it as a whole number of steps.")
        return structural.seasonal(int(period), 0.05 * moves)
    if name == "ar":
        return _autoregression(rows, 2 if order is None else order, variance, moves, alone=parts == 1)
    if name == "oscillation":
        length = _main_period(rows) if period is None else float(period)
        return structural.damped_oscillation(length, 0.95, 0.5 * variance * (1 - 0.95**2))
    raise HiddenStateError(f"structure names {name!r}; it takes {', '.join(STRUCTURES)}, joined by '+'.")


def _autoregression(
    rows: list[np.ndarray], order: int, variance: float, moves: float, alone: bool
) -> structural.Component:
    if not alone:
        return structural.ar(order, variance=0.3 * moves)
    centre = np.concatenate(rows).mean()
    made = [_lagged(row[:, 0] - centre, order) for row in rows if len(row) > order]
    if not made:
        return structural.ar(order, variance=variance)
    after, before = np.concatenate([a for a, _ in made]), np.concatenate([b for _, b in made])
    found = np.linalg.solve(before.T @ before + 1e-6 * variance * len(after) * np.eye(order), before.T @ after)
    matrix = np.vstack([found, np.eye(order)[:-1]])
    largest = np.abs(np.linalg.eigvals(matrix)).max()
    found = found * np.minimum(1.0, 0.98 / largest) ** np.arange(1, order + 1)
    return structural.ar(order, found, variance=max(float((after - before @ found).var()), 1e-6 * variance))


def _lagged(values: np.ndarray, order: int) -> tuple[np.ndarray, np.ndarray]:
    columns = [values[order - 1 - i : len(values) - 1 - i] for i in range(order)]
    return values[order:], np.stack(columns, 1)


def _main_period(rows: list[np.ndarray]) -> float:
    """The period where the spectrum of the longest sequence is highest, but no longer than a third of it."""
    longest = max(rows, key=len)[:, 0]
    power = np.abs(np.fft.rfft(longest - longest.mean())) ** 2
    frequencies = np.fft.rfftfreq(len(longest))
    inside = (frequencies >= 3 / len(longest)) & (frequencies < 0.45)
    if not inside.any():
        return 4.0
    return float(1 / frequencies[inside][np.argmax(power[inside])])


def _with_offset(model: LinearGaussian, centre: float) -> LinearGaussian:
    """The same model around a learned mean."""
    offset = jnp.full((1,), centre, model.initial_mean.dtype)
    return eqx.tree_at(lambda m: m.parameters.emission_offset, model, offset, is_leaf=lambda leaf: leaf is None)


def _free(data: Sequences, rows: list[np.ndarray], states: int | None, diffuse: bool, inputs: int) -> LinearGaussian:
    """States are the data's principal scores and their past; both halves of the model are regressions on them."""
    columns = rows[0].shape[1]
    n = min(4, columns + 1) if states is None else states
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise HiddenStateError(f"states is {states!r}; it must be a whole number of at least 1.")
    every = np.concatenate(rows)
    centre, scale = every.mean(0), np.where(every.std(0) > 0, every.std(0), 1.0)
    _, _, directions = np.linalg.svd((every - centre) / scale, full_matrices=False)
    width = min(n, columns, len(directions))
    scores = [((row - centre) / scale) @ directions[:width].T for row in rows]
    lags = -(-n // width)
    hidden = [np.concatenate([_delayed(s, lag) for lag in range(lags)], 1)[:, :n] for s in scores]
    before = np.concatenate([h[:-1] for h in hidden])
    after = np.concatenate([h[1:] for h in hidden])
    transition = _regressed(after, before) if len(before) else 0.5 * np.eye(n)
    largest = np.abs(np.linalg.eigvals(transition)).max()
    transition = transition * min(1.0, 0.99 / largest) if largest > 0 else transition
    left = after - before @ transition.T if len(before) else np.ones((1, n))
    whole = np.concatenate(hidden)
    emission = _regressed(every - centre, whole)
    rest = every - centre - whole @ emission.T
    noise = rest.T @ rest / len(rest) + 0.05 * np.diag(scale**2)
    dtype = common_dtype()
    return LinearGaussian(
        transition=transition.astype(dtype),
        transition_noise=left.T @ left / len(left) + 0.02 * np.eye(n),
        emission=emission[0] if data.event_shape == () else emission,
        emission_offset=centre[0] if data.event_shape == () else centre,
        emission_noise=noise[0, 0] if data.event_shape == () else noise,
        emission_input=None if not inputs else np.zeros((*data.event_shape, inputs)),
        initial_covariance=np.eye(n),
        diffuse=diffuse,
        fixed=("initial_mean", "initial_covariance"),
        schema=data.schema,
    )


def _delayed(scores: np.ndarray, lag: int) -> np.ndarray:
    return np.concatenate([np.repeat(scores[:1], min(lag, len(scores)), 0), scores[: len(scores) - lag]])


def _regressed(targets: np.ndarray, regressors: np.ndarray) -> np.ndarray:
    gram = regressors.T @ regressors + 1e-3 * len(regressors) * np.eye(regressors.shape[1])
    return np.linalg.solve(gram, regressors.T @ targets).T


def _filled(data: Sequences) -> list[np.ndarray]:
    """Each sequence as (time, columns), gaps filled along straight lines."""
    rows = []
    for row in data:
        row = np.array(row, float).reshape(len(row), -1)
        rows.append(row)
    if data.observed is not None:
        masks = [np.asarray(o[: len(r)]).reshape(r.shape) for o, r in zip(data.observed, rows, strict=True)]
        every = np.concatenate(rows)
        seen = np.concatenate(masks)
        means = np.where(seen, every, 0).sum(0) / np.maximum(1, seen.sum(0))
        for row, mask in zip(rows, masks, strict=True):
            for column in range(row.shape[1]):
                known = np.flatnonzero(mask[:, column])
                if known.size:
                    row[:, column] = np.interp(np.arange(len(row)), known, row[known, column])
                else:
                    row[:, column] = means[column]
    return rows
