"""What repeated gains do: norms that grow or fade, losses with cliffs, and steps that meet one."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.catalogue import build
from hiddenstate.cells import Vanilla
from hiddenstate.core import Sequences, partition
from hiddenstate.inspect.gradients import landscape, step_at
from hiddenstate.strategies import unroll

UNITS = 8

NONLINEARITIES = ("relu", "tanh")
"""One without a limit, as in the slides' own code, and one that saturates."""


def norms(gains: tuple[float, ...], steps: int, key: PRNGKeyArray) -> list[dict[str, Any]]:
    """The norm of a state that nothing drives, step by step: an orthogonal matrix times each gain, linear and tanh."""
    matrix_key, start_key = jr.split(key)
    start = jr.normal(start_key, (UNITS,))
    start = start / jnp.linalg.norm(start)
    rows = []
    for nonlinearity in ("identity", "tanh"):
        cell = Vanilla(1, UNITS, nonlinearity=nonlinearity, recurrent_init="orthogonal", key=matrix_key)
        for gain in gains:
            states = unroll(_scaled(cell, gain), jnp.zeros((steps + 1, 1)), state=start).states
            rows += [
                {"nonlinearity": nonlinearity, "gain": gain, "step": step, "norm": float(norm)}
                for step, norm in enumerate(np.linalg.norm(np.asarray(states, np.float64), axis=1))
            ]
    return rows


def waves(sequences: int, length: int, key: PRNGKeyArray) -> Sequences:
    """Noisy sine waves, each with a phase of its own."""
    phase_key, noise_key = jr.split(key)
    phase = jr.uniform(phase_key, (sequences, 1), maxval=2 * jnp.pi)
    values = jnp.sin(0.5 * jnp.arange(length) + phase) + 0.1 * jr.normal(noise_key, (sequences, length))
    return Sequences.padded(np.asarray(values, np.float32))


def _finite(loss: float) -> float | None:
    """None for a loss that is none any more."""
    return float(loss) if np.isfinite(loss) else None


def _scaled(cell: Any, gain: float) -> Any:
    return eqx.tree_at(lambda c: c.recurrent_weight, cell, gain * cell.recurrent_weight)


def _steep(data: Sequences, gain: float, nonlinearity: str, key: PRNGKeyArray) -> Any:
    """A network whose recurrent weights are `gain` times those of an orthogonal matrix."""
    model = build("vanilla", data, hidden=UNITS, nonlinearity=nonlinearity, key=key)
    return eqx.tree_at(lambda m: m.cell, model, _scaled(model.cell, gain))


def cliffs(networks: int, length: int, rate: float, clip: float, gain: float, key: PRNGKeyArray) -> dict[str, Any]:
    """One step at the steepest place on a line through the parameters of networks with large recurrent weights.

    Each line goes along the gradient at a network whose orthogonal recurrent matrix was multiplied by `gain`. A step of
    gradient descent is taken from its steepest place, plain and with the gradient clipped.
    """
    data_key, *keys = jr.split(key, 1 + networks)
    data = waves(4, length, data_key)
    rows, lines = [], []
    for nonlinearity in NONLINEARITIES:
        for number, one in enumerate(keys):
            model = _steep(data, gain, nonlinearity, one)
            line = landscape(model, data, distances=np.linspace(-1, 1, 101))
            step = step_at(line.model_at(line.cliff), data, learning_rate=rate, clip=clip)
            about = {"nonlinearity": nonlinearity, "network": number}
            rows.append(
                {
                    **about,
                    "gradient_norm": step.gradient_norm,
                    "loss": step.loss,
                    "plain_distance": step.plain.distance,
                    "plain_loss": _finite(step.plain.loss),
                    "clipped_distance": step.clipped.distance,
                    "clipped_loss": _finite(step.clipped.loss),
                }
            )
            if number == 0:
                lines += [
                    {**about, "distance": float(d), "loss": _finite(loss), "cliff": line.cliff}
                    for d, loss in zip(line.distances, line.losses, strict=True)
                ]
    return {"cliffs": rows, "landscape": lines}


def descents(
    networks: int, length: int, updates: int, rate: float, clip: float, gain: float, key: PRNGKeyArray
) -> list[dict[str, Any]]:
    """The loss of networks with large recurrent weights along gradient descent at a fixed rate, plain and clipped."""
    data_key, model_key = jr.split(key)
    data = waves(8, length, data_key)
    values = jnp.asarray(data.values)
    rows = []
    for nonlinearity in NONLINEARITIES:
        models = [_steep(data, gain, nonlinearity, one) for one in jr.split(model_key, networks)]
        rest = partition(models[0])[1]
        stacked = jax.tree.map(lambda *a: jnp.stack(a), *(partition(model)[0] for model in models))
        for way, limit in (("plain", np.inf), ("clipped", clip)):
            losses = np.asarray(_descend(stacked, rest, values, updates, rate, limit), np.float64)
            rows += [
                {"nonlinearity": nonlinearity, "way": way, "network": number, "update": update, "loss": _finite(loss)}
                for number, course in enumerate(losses)
                for update, loss in enumerate(course)
            ]
    return rows


def _descend(stacked: Any, rest: Any, values: Any, updates: int, rate: float, limit: float) -> Any:
    def loss(learned: Any) -> Any:
        model = eqx.combine(learned, rest)

        def one(xs: Any) -> Any:
            states = unroll(model, xs).states
            return -jax.vmap(lambda state, x: model.readout(state).log_prob(x))(states, xs).mean()

        return jax.vmap(one)(values).mean()

    def descend(learned: Any) -> Any:
        def update(learned: Any, _: None) -> Any:
            value, gradient = jax.value_and_grad(loss)(learned)
            norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(gradient)))
            share = jnp.minimum(1.0, limit / norm)
            return jax.tree.map(lambda p, g: p - rate * share * g, learned, gradient), value

        return jax.lax.scan(update, learned, None, length=updates)[1]

    return jax.jit(jax.vmap(descend))(stacked)
