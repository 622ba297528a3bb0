"""Parameters to start from, for variational EM that starts many times: stretches of data sorted by how they move.

The data are cut into short windows. Each regime is a regression of every observation on those shortly before it;
windows and regimes find each other as in k-means, from windows drawn at random. The states are the leading components
of observations (of several in a row, where there are more hidden numbers than observed ones), and all parts of the
model are then regressions within the windows of a regime.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import HiddenStateError, Sequences, dtype_of
from hiddenstate.core.padding import generator

LAGS = 2
"""So many observations before it tell how one moves."""

ROUNDS = 15
"""So many times windows change their regimes."""

TRIES = 8
"""With ``how="kmeans"`` windows are sorted so many times, and the best counts."""

SHRINKAGE = 0.1
"""The share of the variance of all data in that of a regime, so that few windows never fit without error."""


class Windows(NamedTuple):
    """Sums over each window of a regression of `y` on `regressors`, and how many steps it has."""

    squared: np.ndarray
    crossed: np.ndarray
    targets: np.ndarray
    number: np.ndarray


class Fitted(NamedTuple):
    """A regression of each regime: coefficients with the offset last, and covariances of what is left."""

    coefficients: np.ndarray
    noise: np.ndarray


def restarted(model: Any, data: Sequences, *, key: PRNGKeyArray, how: str) -> Any:
    """The switching model with new values wherever it learns."""
    if how not in ("kmeans", "random"):
        raise HiddenStateError(f"how is {how!r}; it must be 'kmeans' or 'random'.")
    random = generator(key)
    sequences = _sequences(data)
    whole = np.concatenate(sequences)
    middle, scale = whole.mean(0), np.where(whole.std(0) > 0, whole.std(0), 1.0)
    sequences = [(x - middle) / scale for x in sequences]
    length = _window_length(model, sequences, random)
    window_of, count = _windows(sequences, length)
    labels = _sorted_windows(model.regimes, sequences, window_of, count, random, TRIES if how == "kmeans" else 1)
    regimes = [labels[each] for each in window_of]
    parts = (_of_chains if model.chains is not None else _of_regimes)(model, sequences, regimes, middle, scale)
    stay = 1 - 1 / (2 * length)
    away = (1 - stay) / max(1, model.regimes - 1)
    parts["initial"] = np.full(model.regimes, 1 / model.regimes)
    parts["transition"] = np.full((model.regimes, model.regimes), away) + (stay - away) * np.eye(model.regimes)
    dtype = dtype_of(model)
    return model.with_parts(
        **{name: jnp.asarray(_common(model, name, part), dtype) for name, part in parts.items() if part is not None}
    )


def _common(model: Any, name: str, part: np.ndarray) -> np.ndarray:
    """The part as it is kept: the mean over regimes, where they share it."""
    return part.mean(0) if name in model.shared else part


# -- windows ---------------------------------------------------------------------------------------------------


def _sequences(data: Sequences) -> list[np.ndarray]:
    """The sequences as tables without gaps: a missing entry is taken from between its neighbours."""
    found = []
    for i, values in enumerate(data):
        table = np.asarray(values, float).reshape(len(values), -1).copy()
        if data.observed is not None:
            known = np.asarray(data.observed[i][: len(table)]).reshape(table.shape)
            steps = np.arange(len(table))
            for column, seen in zip(table.T, known.T, strict=True):
                column[:] = np.interp(steps, steps[seen], column[seen]) if seen.any() else 0.0
        found.append(table)
    return found


def _window_length(model: Any, sequences: list[np.ndarray], random: np.random.Generator) -> int:
    """A random length, such that every regime can have several windows."""
    longest = sum(len(x) for x in sequences) // (4 * model.regimes)
    return int(np.clip(random.integers(10, 41), 2, max(2, longest)))


def _windows(sequences: list[np.ndarray], length: int) -> tuple[list[np.ndarray], int]:
    """The number of the window that every step is in, and how many there are."""
    found, start = [], 0
    for x in sequences:
        found.append(start + np.arange(len(x)) // length)
        start = int(found[-1][-1]) + 1
    return found, start


def _lagged(x: np.ndarray, lags: int) -> np.ndarray:
    """The observations before each step side by side, the newest first; before the beginning, the first one."""
    before = np.concatenate([np.repeat(x[:1], lags, 0), x])
    return np.concatenate([before[lags - lag : len(before) - lag] for lag in range(1, lags + 1)], 1)


def _sums(targets: np.ndarray, regressors: np.ndarray, window_of: np.ndarray, count: int) -> Windows:
    """The sums over each window."""
    extended = np.concatenate([regressors, np.ones((len(regressors), 1))], 1)
    width, size = extended.shape[1], targets.shape[1]
    found = Windows(
        np.zeros((count, width, width)), np.zeros((count, size, width)), np.zeros((count, size, size)), np.zeros(count)
    )
    np.add.at(found.squared, window_of, extended[:, :, None] * extended[:, None])
    np.add.at(found.crossed, window_of, targets[:, :, None] * extended[:, None])
    np.add.at(found.targets, window_of, targets[:, :, None] * targets[:, None])
    np.add.at(found.number, window_of, 1.0)
    return found


def _fitted(sums: Windows, shares: np.ndarray) -> Fitted:
    """The regression of each regime from its `shares` (regime, window) of windows, drawn a little to that of all."""
    pooled = Windows(*[part.sum(0, keepdims=True) for part in sums])
    if not pooled.number[0]:  # sequences of one step do not move
        count, size, width = len(shares), *sums.crossed.shape[1:]
        return Fitted(np.zeros((count, size, width)), np.tile(np.eye(size), (count, 1, 1)))
    total = max(1.0, float(pooled.number[0]))
    weight = sums.squared.shape[-1]
    little = 0.05 * weight / total
    mine = Windows(*[np.tensordot(shares, a, 1) + little * b for a, b in zip(sums, pooled, strict=True)])
    ridge = 1e-6 * np.eye(weight) * np.trace(pooled.squared[0]) / weight
    coefficients = np.swapaxes(np.linalg.solve(mine.squared + ridge, np.swapaxes(mine.crossed, 1, 2)), 1, 2)
    left = _left(mine, coefficients)
    number = mine.number[:, None, None]
    typical = np.diagonal(pooled.targets[0]).clip(1e-12) / total
    return Fitted(coefficients, left / number + 1e-3 * np.diag(typical))


def _left(sums: Windows, coefficients: np.ndarray) -> np.ndarray:
    """The squares that the coefficients leave."""
    crossed = coefficients @ np.swapaxes(sums.crossed, -1, -2)
    explained = coefficients @ sums.squared @ np.swapaxes(coefficients, -1, -2)
    left = sums.targets - crossed - np.swapaxes(crossed, -1, -2) + explained
    return 0.5 * (left + np.swapaxes(left, -1, -2))


def _scores(sums: Windows, fitted: Fitted) -> np.ndarray:
    """The log-density of every window under every regime, (regime, window)."""
    each = []
    for coefficients, noise in zip(*fitted, strict=True):
        left = _left(sums, coefficients)
        size = np.einsum("ij,wji->w", np.linalg.inv(noise), left)
        each.append(-0.5 * (size + sums.number * np.linalg.slogdet(noise)[1]))
    return np.stack(each)


def _sorted_windows(
    regimes: int,
    sequences: list[np.ndarray],
    window_of: list[np.ndarray],
    count: int,
    random: np.random.Generator,
    tries: int,
) -> np.ndarray:
    """The regime of every window: the best of several tries."""
    targets = np.concatenate(sequences)
    regressors = np.concatenate([_lagged(x, LAGS) for x in sequences])
    sums = _sums(targets, regressors, np.concatenate(window_of), count)
    found = [_settled(sums, _seeds(sums, regimes, random), regimes) for _ in range(tries)]
    return max(found, key=lambda each: each[1])[0]


def _settled(sums: Windows, chosen: np.ndarray, regimes: int) -> tuple[np.ndarray, float]:
    """The regimes that windows keep, and their log-density."""
    for _ in range(ROUNDS):
        before = chosen
        chosen = _scores(sums, _fitted(sums, np.eye(regimes)[chosen].T)).argmax(0)
        if (chosen == before).all():
            break
    scores = _scores(sums, _fitted(sums, np.eye(regimes)[chosen].T))
    return chosen, float(scores.max(0).sum())


def _seeds(sums: Windows, regimes: int, random: np.random.Generator) -> np.ndarray:
    """A first regime for every window: windows far from the regimes so far are likely to found the next one."""
    count = len(sums.number)
    founders = [int(random.integers(count))]
    everything = _scores(sums, _fitted(sums, np.ones((1, count))))[0]
    for _ in range(regimes - 1):
        so_far = _scores(sums, _fitted(sums, np.eye(count)[founders])).max(0)
        gap = np.clip(everything - so_far, 0, None) + 1e-9
        founders.append(int(random.choice(count, p=gap / gap.sum())))
    return _scores(sums, _fitted(sums, np.eye(count)[founders])).argmax(0)


# -- parts -----------------------------------------------------------------------------------------------------


def _components(sequences: list[np.ndarray], size: int, mine: list[np.ndarray] | None = None) -> list[np.ndarray]:
    """Numbers for the hidden state: leading components, of several observations in a row where one has too few.

    `mine` says which steps they are to explain; by default, all.
    """
    columns = sequences[0].shape[1]
    lags = 1 if size <= columns else -(-2 * size // columns)
    rows = [np.concatenate([x, _lagged(x, lags - 1)], 1) if lags > 1 else x for x in sequences]
    chosen = rows if mine is None else [row[m] for row, m in zip(rows, mine, strict=True)]
    whole = np.concatenate(chosen)
    middle = whole.mean(0)
    _, sizes, directions = np.linalg.svd(whole - middle, full_matrices=False)
    kept = directions[:size] / np.maximum(sizes[:size, None], 1e-9 * sizes[0] + 1e-300) * np.sqrt(len(whole))
    return [np.pad((row - middle) @ kept.T, ((0, 0), (0, size - len(kept)))) for row in rows]


def _of_regimes(
    model: Any, sequences: list[np.ndarray], regimes: list[np.ndarray], middle: np.ndarray, scale: np.ndarray
) -> dict[str, Any]:
    count, size = model.regimes, model.state_size
    states = _hidden(model, sequences, size, middle, scale)
    shares = np.eye(count)
    moves = _sums(
        np.concatenate([s[1:] for s in states]),
        np.concatenate([s[:-1] for s in states]),
        np.concatenate([r[1:] for r in regimes]),
        count,
    )
    seen = _sums(np.concatenate(sequences), np.concatenate(states), np.concatenate(regimes), count)
    return {
        **_moving(model, moves, shares),
        **_seeing(model, seen, shares, middle, scale),
        **_beginning(model, np.concatenate(states)),
    }


def _hidden(
    model: Any, sequences: list[np.ndarray], size: int, middle: np.ndarray, scale: np.ndarray
) -> list[np.ndarray]:
    """Numbers for the hidden states; where the observation is held fixed, such as it would show."""
    if model.parameters.is_learned("observation"):
        return _components(sequences, size)
    arrays = model.arrays()
    matrix, offset = np.asarray(arrays.observation[0], float), np.asarray(arrays.observation_offset[0], float)
    return [(x * scale + middle - offset) @ np.linalg.pinv(matrix).T for x in sequences]


def _moving(model: Any, sums: Windows, shares: np.ndarray) -> dict[str, Any]:
    own = "dynamics" not in model.shared
    fitted = _fitted(sums, shares if own else np.ones_like(shares))
    matrix = fitted.coefficients[..., :-1]
    largest = np.abs(np.linalg.eigvals(matrix)).max(-1)
    return {
        "dynamics": matrix * np.minimum(1.0, 0.999 / np.maximum(largest, 1e-12))[:, None, None],
        "dynamics_offset": fitted.coefficients[..., -1],
        "dynamics_noise": fitted.noise,
    }


def _seeing(model: Any, sums: Windows, shares: np.ndarray, middle: np.ndarray, scale: np.ndarray) -> dict[str, Any]:
    own = "observation" not in model.shared
    fitted = _fitted(sums, shares if own else np.ones_like(shares))
    noise = fitted.noise + SHRINKAGE * np.eye(len(scale))
    return {
        "observation": fitted.coefficients[..., :-1] * scale[:, None],
        "observation_offset": fitted.coefficients[..., -1] * scale + middle,
        "observation_noise": noise * scale[:, None] * scale,
    }


def _beginning(model: Any, states: np.ndarray) -> dict[str, Any]:
    spread = np.cov(states.T, bias=True).reshape(model.state_size, -1) + 1e-3 * np.eye(model.state_size)
    return {
        "initial_mean": np.tile(states.mean(0), (model.regimes, 1)),
        "initial_covariance": np.tile(spread, (model.regimes, 1, 1)),
    }


def _of_chains(
    model: Any, sequences: list[np.ndarray], regimes: list[np.ndarray], middle: np.ndarray, scale: np.ndarray
) -> dict[str, Any]:
    """Each chain from the windows of its regime alone."""
    count, total, event = model.regimes, model.state_size, len(scale)
    dynamics, noise, spread = np.zeros((total, total)), np.eye(total), np.eye(total)
    offset = np.zeros(total)
    observation, seen_offset = np.zeros((count, event, total)), np.zeros((count, event))
    seen_noise = np.zeros((count, event, event))
    start = 0
    for k, size in enumerate(model.chains):
        place = slice(start, start + size)
        start += size
        mine = [r == k for r in regimes]
        if sum(int(m.sum()) for m in mine) < 4 * (size + 1):
            mine = [np.ones(len(r), bool) for r in regimes]
        found = _within(sequences, mine, size)
        moves = _sums(found.after, found.before, np.zeros(len(found.after), int), 1)
        fitted = _fitted(moves, np.ones((1, 1)))
        matrix = fitted.coefficients[0, :, :-1]
        largest = np.abs(np.linalg.eigvals(matrix)).max()
        dynamics[place, place] = matrix * min(1.0, 0.999 / max(largest, 1e-12))
        noise[place, place] = fitted.noise[0]
        if model.parameters.dynamics_offset is not None:
            offset[place] = fitted.coefficients[0, :, -1]
        seen = _fitted(_sums(found.x, found.states, np.zeros(len(found.x), int), 1), np.ones((1, 1)))
        observation[k, :, place] = seen.coefficients[0, :, :-1] * scale[:, None]
        seen_offset[k] = seen.coefficients[0, :, -1] * scale + middle
        seen_noise[k] = (seen.noise[0] + SHRINKAGE * np.eye(event)) * scale[:, None] * scale
    return {
        "dynamics": dynamics[None],
        "dynamics_offset": offset[None],
        "dynamics_noise": noise[None],
        "observation": observation,
        "observation_offset": seen_offset,
        "observation_noise": seen_noise,
        "initial_mean": np.zeros((1, total)),
        "initial_covariance": spread[None],
    }


class Within(NamedTuple):
    """Hidden numbers and observations at some steps, and pairs of hidden numbers of steps that follow each other."""

    states: np.ndarray
    x: np.ndarray
    before: np.ndarray
    after: np.ndarray


def _within(sequences: list[np.ndarray], mine: list[np.ndarray], size: int) -> Within:
    """Hidden numbers for the chosen steps."""
    states = _components(sequences, size, mine)
    both = [m[1:] & m[:-1] for m in mine]
    return Within(
        np.concatenate([s[m] for s, m in zip(states, mine, strict=True)]),
        np.concatenate([x[m] for x, m in zip(sequences, mine, strict=True)]),
        np.concatenate([s[:-1][b] for s, b in zip(states, both, strict=True)]),
        np.concatenate([s[1:][b] for s, b in zip(states, both, strict=True)]),
    )
