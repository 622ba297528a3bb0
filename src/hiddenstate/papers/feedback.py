"""Networks that hear of the past through their output only, and networks that run on their own output."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from hiddenstate._types import Array, Float, PRNGKeyArray
from hiddenstate.catalogue import build
from hiddenstate.core import Sequences
from hiddenstate.inference import forecast, log_prob, predictive
from hiddenstate.learn import SGD, fit_seeds, objectives, schedules
from hiddenstate.strategies import Independent, Sequential, unroll

CYCLE = (0, 1, 0, 2)
"""After the first symbol of the alphabet comes one of two others, by turns: which one, only the step before tells."""

FEEDBACK = {"through the output": "output-feedback", "through the state": "vanilla"}
NOISE = 0.02


def cycles(length: int) -> Sequences:
    """The cycle from each of its four places on."""
    places = (np.arange(len(CYCLE))[:, None] + np.arange(length)) % len(CYCLE)
    return Sequences.padded(np.array(CYCLE, np.int32)[places])


def floors(length: int) -> dict[str, float]:
    r"""The fewest nats per step on `cycles`, of a model of order one and of any model.

    Four sequences that are equally probable take :math:`\log 4` nats in all. A model of order one knows how often each
    symbol comes first and which follow it: :math:`\log 2` nats after every symbol 0.
    """
    values = np.asarray(cycles(length).values)
    first = -np.mean(np.log([np.mean(values[:, 0] == symbol) for symbol in values[:, 0]]))
    unsure = (values[:, :-1] == 0).sum(axis=1).mean() * np.log(2)
    return {"through the output": float((first + unsure) / length), "through the state": float(np.log(4) / length)}


def feedback(network: str, length: int, *, steps: int, seeds: int, key: PRNGKeyArray) -> list[dict[str, Any]]:
    """The nats per step that a network reaches on the cycle, from each seed, beside the floor for its kind."""
    data = cycles(length)
    fits = fit_seeds(
        lambda build_key: build(FEEDBACK[network], data, hidden=8, key=build_key),
        data,
        SGD(steps=steps, batch_size=4, learning_rate=3e-2, patience=None),
        key=key,
        seeds=seeds,
        progress=False,
    )
    floor = floors(length)[network]
    return [
        {
            "network": network,
            "seed": seed,
            "nats_per_step": -float(np.mean(np.asarray(log_prob(model, data), np.float64))) / length,
            "floor": floor,
        }
        for seed, model in enumerate(fits.models)
    ]


def side_by_side(length: int, key: PRNGKeyArray) -> list[dict[str, Any]]:
    """Whether all steps can be computed at once under teacher forcing: loops in the program, and the same states."""
    data = cycles(length)
    model = build("output-feedback", data, hidden=8, key=key)
    plain = build("vanilla", data, hidden=8, key=key)
    values = jnp.asarray(data.values[0])
    at_once, in_turn = (unroll(model, values, way).states for way in (Independent(), Sequential()))
    return [
        {
            "difference": float(jnp.abs(at_once - in_turn).max()),
            "loops_at_once": _loops(model, values, Independent()),
            "loops_with_state": _loops(plain, values, Sequential()),
        }
    ]


def _loops(model: Any, values: Any, strategy: Any) -> int:
    program = str(jax.make_jaxpr(lambda xs: unroll(model, xs, strategy).states)(values))
    return program.count("scan[") + program.count("while[")


def pendulums(count: int, seen: int, ahead: int, key: PRNGKeyArray) -> np.ndarray:
    """Angles (pendulum, time) of pendulums that swing up to 0.5 to 2.4 radians, each from a time of its own on.

    The angle a follows a'' = -sin(a), by small steps of a scheme that keeps the energy (Euler and Cromer).
    """
    random = np.random.default_rng(int(jr.randint(key, (), 0, 2**31 - 1)))
    angle, speed = random.uniform(0.5, 2.4, count), np.zeros(count)
    first = random.integers(0, seen, count)
    course = np.zeros((count, 2 * seen + ahead))
    for time in range(course.shape[1]):
        course[:, time] = angle
        for _ in range(10):
            speed = speed - 0.03 * np.sin(angle)
            angle = angle + 0.03 * speed
    return course[np.arange(count)[:, None], first[:, None] + np.arange(seen + ahead)]


def own_past(
    way: str, *, count: int, seen: int, ahead: int, updates: int, seeds: int, key: PRNGKeyArray
) -> list[dict[str, Any]]:
    """How far networks are from the truth at each step ahead, fed the truth and fed what they said, from each seed.

    They are taught by the truth, or by their own draws more and more often, up to a quarter of the time (Bengio et al.
    2015). `forced` is the error of the mean of the next step given the true past, `free` that of single runs on
    its own draws and `on_means` that of a run on its own means.
    """
    data_key, noise_key, fit_key, run_key = jr.split(key, 4)
    held_out = max(4, count // 4)
    swings = pendulums(count + held_out, seen, ahead, data_key)
    noisy = (swings + NOISE * np.asarray(jr.normal(noise_key, swings.shape))).astype(np.float32)
    train, whole = Sequences.padded(noisy[held_out:]).after(seen), Sequences.padded(noisy[:held_out])
    past, truth = jnp.asarray(noisy[:held_out, :seen]), swings[:held_out, seen:]
    objective = (
        objectives.TeacherForcing()
        if way == "teacher forcing"
        else objectives.ScheduledSampling(schedules.linear(max(1, updates // 2), end=0.75))
    )
    fits = fit_seeds(
        lambda build_key: build("gru", train, hidden=16, key=build_key),
        train,
        SGD(steps=updates, objective=objective, decay="cosine", patience=None),
        key=fit_key,
        seeds=seeds,
        progress=False,
    )
    rows = []
    for seed, model in enumerate(fits.models):
        told: Any = predictive(model, whole)
        forced = np.sqrt(((np.asarray(told.mean)[:, seen:] - truth) ** 2).mean(axis=0))
        means = np.sqrt(((np.asarray(run_freely(model, past, ahead)) - truth) ** 2).mean(axis=0))
        paths = np.asarray(forecast(model, noisy[:held_out, :seen], ahead, n=10, key=run_key).samples)
        free = np.sqrt(((paths - truth[:, None]) ** 2).mean(axis=(0, 1)))
        rows += [
            {"way": way, "seed": seed, "ahead": step, "forced": float(a), "free": float(b), "on_means": float(c)}
            for step, (a, b, c) in enumerate(zip(forced, free, means, strict=True), 1)
        ]
    return rows


@eqx.filter_jit
def run_freely(model: Any, past: Float[Array, "sequence time"], ahead: int) -> Float[Array, "sequence ahead"]:
    """What a network says after each past when it is fed what it said: the means of its predictions."""

    def one(xs: Array) -> Array:
        def advance(state: Any, _: None) -> tuple[Any, Array]:
            said = model.readout(state).mean
            return model.step(state, model.prepare(said)), said

        return jax.lax.scan(advance, unroll(model, xs).final, None, length=ahead)[1]

    return jax.vmap(one)(past)
