"""Where states end up in the long run: at rest, in cycles, on closed curves, or in chaos."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import polars as pl

from hiddenstate._types import Array, Float, PRNGKeyArray
from hiddenstate.core import checked_key
from hiddenstate.inspect.dynamics.minimise import repeated, settle
from hiddenstate.inspect.dynamics.motion import motion_of, whole
from hiddenstate.inspect.dynamics.points import sorted_eigenvalues, starting_states

EXPONENTS = 3
"""How many Lyapunov exponents tell closed curves from tori and chaos."""

NEAR = 1e-3
"""A state that comes back to within this, relative to one plus its size, may be on a cycle; the minimiser decides."""

FAR = 1e6
"""A state that has grown beyond this is taken to grow for ever."""

SAME = 0.02
"""Two curves are one if points of the first are this near to the second, in units of its spread."""

SAMPLE = 16
"""How many points of each orbit are looked at to see whether it is another one's."""

CURVE = "limit cycle (closed curve)"


@dataclass(frozen=True, eq=False)
class Orbit:
    r"""Where some states end up.

    `kind` is one of

    - ``"fixed point"``, and ``"limit cycle (period p)"``: the same p states again and again, to rounding; with
      ``", unstable"`` where the start lay on it exactly, and no neighbour would end there;
    - ``"limit cycle (closed curve)"``: a curve that is filled without ever coming back, as a turn by an angle that is
      no fraction of a circle does; the largest Lyapunov exponent is zero, and no other, and late states come near to
      early ones, unlike those that are slowly on their way to rest;
    - ``"quasi-periodic"``: the same with further exponents of zero, on a torus or on one of many curves side by side;
    - ``"chaos"``: the largest exponent is positive, so that neighbours part;
    - ``"diverging"``: the state grows without end;
    - ``"unsettled"``: none of these yet; more steps may tell.

    `period` counts steps: p, on a closed curve the mean number of steps of one turn (of the first two principal
    components), NaN where there is none. `points` (point, size) is one turn of a cycle, or what was visited.
    `multipliers` are the eigenvalues of the product of Jacobians around a cycle (Floquet), and `exponents` the largest
    Lyapunov exponents in nats a step. `starts` says how many states ended here.
    """

    kind: str
    period: float
    points: np.ndarray
    multipliers: np.ndarray
    exponents: np.ndarray
    starts: int


@dataclass(frozen=True, eq=False)
class LimitCycles:
    """Everything that states were found to end up in, that of most starts first."""

    orbits: tuple[Orbit, ...]

    @property
    def cycles(self) -> tuple[Orbit, ...]:
        """Those that are limit cycles: of a period, or closed curves."""
        return tuple(orbit for orbit in self.orbits if orbit.kind.startswith("limit cycle"))

    def frame(self) -> pl.DataFrame:
        """One row an orbit: kind, period, the largest multiplier's modulus and exponent, and how many starts."""
        return pl.DataFrame(
            {
                "kind": [orbit.kind for orbit in self.orbits],
                "period": [orbit.period for orbit in self.orbits],
                "largest_multiplier": [_largest(orbit.multipliers) for orbit in self.orbits],
                "exponent": [float(orbit.exponents[0]) for orbit in self.orbits],
                "starts": [orbit.starts for orbit in self.orbits],
            }
        )


def limit_cycles(
    model: Any,
    *,
    x: Any = None,
    input: Any = None,
    data: Any = None,
    starts: Any = 64,
    key: PRNGKeyArray,
    longest: int = 64,
    transient: int = 1000,
    steps: int = 2000,
) -> LimitCycles:
    r"""What states end up in under a constant observation: attractors of every kind, limit cycles among them.

    Many starts (as in `fixed_points`) run for `transient` steps and are then watched for so many `steps`. A state that
    comes back within `longest` steps is refined by minimising :math:`|f^p(h) - h|^2`; it counts as a cycle of period p
    if that ends at rounding, nearby, and no multiplier is above one. What does not come back is told apart by its
    Lyapunov exponents, found from Jacobians along the way (Benettin et al. 1980): one counts as zero where it is less
    than 10 / `steps`. Only what attracts states is found so: for unstable fixed points see `fixed_points`.
    """
    motion = motion_of(model, x, input)
    start_key, frame_key = jr.split(checked_key(key))
    begun = starting_states(model, motion.size, starts, data, start_key)
    longest, transient, steps = whole("longest", longest), whole("transient", transient, 0), whole("steps", steps, 4)
    steps = max(steps, longest + 1)
    frame = np.asarray(jr.normal(frame_key, (motion.size, min(EXPONENTS, motion.size)))).astype(begun.dtype)
    visited, exponents = (
        np.asarray(found) for found in _watch(motion, jnp.asarray(begun), jnp.asarray(frame), transient, steps)
    )
    finite = np.isfinite(visited).all(axis=(1, 2)) & (np.abs(np.nan_to_num(visited)).max(axis=(1, 2)) < FAR)
    orbits = [] if finite.all() else [_diverging(visited[~finite])]
    left = np.flatnonzero(finite)
    if len(left):
        periodic, cycles = _periodic(motion, visited[left], longest)
        orbits += cycles
        others = left[~periodic]
        orbits += _aperiodic(visited[others], exponents[others], 10 / steps)
    return LimitCycles(tuple(sorted(orbits, key=lambda orbit: -orbit.starts)))


@eqx.filter_jit
def _watch(motion: Any, starts: Array, frame: Array, transient: int, steps: int) -> tuple[Array, Array]:
    """The states after the transient, and the mean growth of as many directions as `frame` has."""

    def one(h: Array) -> tuple[Array, Array]:
        def step(carry: tuple[Array, Array], _: None) -> Any:
            h, frame = carry
            moved, push = jax.linearize(motion, h)
            frame, growth = jnp.linalg.qr(jax.vmap(push, in_axes=1, out_axes=1)(frame))
            return (moved, frame), (h, jnp.log(jnp.abs(jnp.diagonal(growth))))

        begin = (repeated(motion, h, transient), jnp.linalg.qr(frame)[0])
        _, (visited, growth) = jax.lax.scan(step, begin, None, length=steps)
        return visited, growth[steps // 4 :].mean(axis=0)

    return jax.vmap(one)(starts)


def _diverging(visited: np.ndarray) -> Orbit:
    none = np.zeros(0)
    return Orbit("diverging", np.nan, visited[0, :1], none.astype(complex), np.array([np.inf]), len(visited))


def _periodic(
    motion: Any, visited: Float[np.ndarray, "start step size"], longest: int
) -> tuple[np.ndarray, list[Orbit]]:
    """Which starts ended in a cycle, and the cycles."""
    fine = np.finfo(visited.dtype).eps
    last = visited[:, -1]
    scale = 1 + np.abs(last).max(axis=1)
    returns = np.abs(visited[:, -1 - longest : -1][:, ::-1] - last[:, None]).max(axis=2) / scale[:, None]
    lag = np.where((returns <= fine**0.5).any(axis=1), _first(returns <= fine**0.5), _first(returns <= NEAR))
    found = settle(motion, last, lag + 1, iterations=50)
    multipliers = np.full(last.shape, np.inf, complex)
    fit = np.isfinite(found.jacobians).all(axis=(1, 2))
    multipliers[fit] = sorted_eigenvalues(found.jacobians[fit])
    back = (returns <= NEAR).any(axis=1) & fit
    back &= found.speeds <= fine ** (2 / 3) * scale * (lag + 1)
    back &= np.abs(found.points - last).max(axis=1) <= 10 * NEAR * scale
    stable = np.abs(multipliers[:, 0]) <= 1 + NEAR
    back &= stable | (returns <= fine**0.5).any(axis=1)
    cycles, left = [], np.flatnonzero(back)
    turns = np.asarray(_turns(motion, jnp.asarray(found.points), longest))
    while len(left):
        first, period = left[0], lag[left[0]] + 1
        turn = turns[first, :period]
        between = np.abs(found.points[left][:, None] - turn).max(axis=2).min(axis=1)
        same = (lag[left] + 1 == period) & (between <= 10 * NEAR * scale[first])
        kind = _cycle(int(period), bool(stable[first]))
        with np.errstate(divide="ignore"):
            growth = np.log(np.abs(multipliers[first][:EXPONENTS])) / period
        cycles.append(Orbit(kind, float(period), turn, multipliers[first], growth, int(same.sum())))
        left = left[~same]
    return back, cycles


def _cycle(period: int, stable: bool) -> str:
    if period == 1:
        return "fixed point" if stable else "fixed point, unstable"
    return f"limit cycle (period {period})" + ("" if stable else ", unstable")


def _largest(values: np.ndarray) -> float:
    return float(np.abs(values).max()) if len(values) else np.nan


def _first(true: np.ndarray) -> np.ndarray:
    return np.argmax(true, axis=1)


@eqx.filter_jit
def _turns(motion: Any, points: Array, longest: int) -> Array:
    """So many steps from each point on."""
    return jax.vmap(lambda h: jax.lax.scan(lambda h, _: (motion(h), h), h, None, length=longest)[1])(points)


def _aperiodic(visited: np.ndarray, exponents: np.ndarray, zero: float) -> list[Orbit]:
    """What does not come back, sorted by its exponents; orbits on the same set are one."""
    kinds = np.array([_kind(*each, zero) for each in zip(exponents, visited, strict=True)], object)
    times = _spread(0, visited.shape[1])
    orbits, left = [], np.arange(len(visited))
    while len(left):
        first = left[0]
        points = visited[first].astype(np.float64)
        apart = _distances(visited[left][:, times].astype(np.float64), points).min(axis=2).mean(axis=1)
        same = (kinds[left] == kinds[first]) & (apart <= _reach(points))
        same[0] = True
        turning = kinds[first] in (CURVE, "quasi-periodic")
        period = 2 * np.pi / abs(rotation(points)) if turning else np.nan
        none = np.zeros(0, complex)
        orbits.append(Orbit(str(kinds[first]), period, visited[first], none, exponents[first], int(same.sum())))
        left = left[~same]
    return orbits


def _spread(begin: int, end: int) -> np.ndarray:
    """A few times of an orbit."""
    return np.linspace(begin, end - 1, SAMPLE).astype(int)


def _reach(points: Float[np.ndarray, "point size"]) -> float:
    """How near a state must come to be on the set that these points lie on: twice as far as they are apart."""
    times = _spread(0, len(points))
    others = np.abs(times[:, None] - np.arange(len(points))) > 1
    own = np.where(others, _distances(points[times][None], points)[0], np.inf).min(axis=1).mean()
    return max(2 * own, SAME * float(np.linalg.norm(points.std(axis=0))), float(np.finfo(np.float32).eps))


def _recurs(visited: Float[np.ndarray, "step size"]) -> bool:
    """Whether late states come near to early ones again, which those on their way to rest do not."""
    points = visited.astype(np.float64)
    early, late = points[: len(points) // 2], points[_spread(3 * len(points) // 4, len(points))]
    return bool(_distances(late[None], early)[0].min(axis=1).mean() <= _reach(early))


def _distances(samples: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Distances (start, sample, point) of samples of each start to the points of one."""
    squares = (samples**2).sum(axis=2)[..., None] + (points**2).sum(axis=1) - 2 * samples @ points.T
    return np.sqrt(np.maximum(squares, 0.0))


def _kind(exponents: np.ndarray, visited: np.ndarray, zero: float) -> str:
    if exponents[0] > zero:
        return "chaos"
    turns = visited.shape[1] > 1 and _recurs(visited)  # one number cannot turn
    if exponents[0] < -zero or not turns:
        return "unsettled"
    return CURVE if (np.abs(exponents) <= zero).sum() == 1 else "quasi-periodic"


def rotation(points: Float[np.ndarray, "step size"]) -> float:
    """The mean angle of a step about the centre, in the plane of the first two principal components.

    Angles are taken near their circular mean and weighted by a smooth bump, with which averages along quasi-periodic
    orbits converge fast (Das et al. 2017).
    """
    plane = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2][:2]
    along = (points - points.mean(axis=0)) @ plane.T
    turns = np.angle(np.exp(1j * np.diff(np.arctan2(along[:, 1], along[:, 0]))))
    middle = np.angle(np.exp(1j * turns).mean())
    turns = middle + np.angle(np.exp(1j * (turns - middle)))
    time = (np.arange(len(turns)) + 0.5) / len(turns)
    weights = np.exp(-1 / (time * (1 - time)))
    return float((weights * turns).sum() / weights.sum())
