"""One observation at a time: the time of one push, with the prediction that comes of it."""

from itertools import count
from typing import Any

import numpy as np

from peers.case import FUNCTION, Agreement, Case, Run, Scale, Size, Work
from peers.workloads.hmm import arrays
from peers.workloads.recurrent import weights

GOAL = 5.0
SIZES = {"full": (64, 32), "quick": (64, 32), "tiny": (4, 3)}
SHOWN = 20
"""After so many observations the states are compared."""


def series(columns: int) -> np.ndarray:
    """Observations to be pushed, again and again."""
    return np.random.default_rng(0).normal(size=(64, columns)).astype(np.float32)


def cell_weights(units: int) -> dict[str, np.ndarray]:
    """Those of an LSTM that reads one number."""
    found = weights("LSTM", units)
    return {**found, "weight_ih_l0": np.ascontiguousarray(found["weight_ih_l0"][:, :1])}


def pushed(push: Any, xs: Any) -> Any:
    """A call pushes the next observation."""
    number = count()
    return lambda: push(xs[next(number) % len(xs)])


def ours_lstm(size: Size) -> Run:
    import jax.random as jr

    import hiddenstate as hs

    cell: Any = hs.from_torch(cell_weights(size["units"]))
    model = hs.RNN(cell, hs.heads.Gaussian(size["units"], None, key=jr.key(0)))
    xs = [float(x) for x in series(1)[:, 0]]

    def result():
        stream = hs.Stream(model)
        for x in xs[:SHOWN]:
            stream.push(x)
        return {"state": np.asarray(stream.state.h)}

    return Run(pushed(hs.Stream(model).push, xs), result)


def torch_lstm(size: Size) -> Run:
    """The cell alone, without a head: less work than ours."""
    import torch

    cell = torch.nn.LSTMCell(1, size["units"])
    named = {name.removesuffix("_l0"): torch.from_numpy(value) for name, value in cell_weights(size["units"]).items()}
    cell.load_state_dict(named)
    xs = list(torch.from_numpy(series(1))[:, None])

    def result():
        state = None
        with torch.no_grad():
            for x in xs[:SHOWN]:
                state = cell(x, state)
        assert state is not None
        return {"state": state[0][0].numpy()}

    kept: list[Any] = [None]

    @torch.no_grad()
    def push(x):
        kept[0] = cell(x, kept[0])

    return Run(pushed(push, xs), result)


def ours_hmm(size: Size) -> Run:
    import jax.numpy as jnp

    import hiddenstate as hs

    found, xs = arrays(size["states"], 1, 64)
    emission = hs.emissions.Gaussian(means=found.means, covariances=found.variances, covariance="diagonal")
    model = hs.cast(hs.HMM(found.initial, found.transition, emission), jnp.float32)

    def result():
        stream = hs.Stream(model)
        for x in xs[0, :SHOWN]:
            stream.push(x)
        return {"belief": np.asarray(stream.state)}

    return Run(pushed(hs.Stream(model).push, list(xs[0])), result)


def numpy_hmm(size: Size) -> Run:
    """The few lines that one would write by hand."""
    found, xs = arrays(size["states"], 1, 64)
    transition, means, variances = (part.astype(np.float32) for part in found[1:])
    constant = np.log(2 * np.pi * variances).sum(1)

    def step(belief, x):
        likelihoods = np.exp(-0.5 * (((x - means) ** 2 / variances).sum(1) + constant))
        joint = belief * likelihoods
        return transition.T @ (joint / joint.sum())

    def result():
        belief = found.initial.astype(np.float32)
        for x in xs[0, :SHOWN]:
            belief = step(belief, x)
        return {"belief": belief}

    kept = [found.initial.astype(np.float32)]

    def push(x):
        kept[0] = step(kept[0], x)

    return Run(pushed(push, list(xs[0])), result)


def torch_beside(size: Size) -> Run:
    """The yardstick of both: one step of torch's LSTMCell of 64 units, which computes something else here."""
    run = torch_lstm({"units": 64})
    return Run(run.call, dict)


def cases(scale: Scale) -> list[Case]:
    """One stream."""
    units, states = SIZES[scale]
    lstm: dict[str, Any] = {"hiddenstate": ours_lstm, "torch": torch_lstm}
    hmm: dict[str, Any] = {"hiddenstate": ours_hmm, "torch": torch_beside, "numpy by hand": numpy_hmm}
    return [
        Case(
            workload="streaming",
            title="LSTM push",
            size={"units": units},
            makers=lstm,
            agreement={"state": Agreement(1e-4, 1e-5)},
            goal=GOAL,
            work=Work(4 * units * (units + 1) + units * 5 * FUNCTION, 0),
            note="torch's LSTMCell without gradient or head; ours checks the observation and predicts the next.",
        ),
        Case(
            workload="streaming",
            title="HMM push",
            size={"states": states},
            makers=hmm,
            agreement={"belief": Agreement(1e-3, 1e-5)},
            goal=GOAL,
            work=Work(states**2 + states * (4 + FUNCTION), 0),
            note="Beside torch's LSTMCell of 64 units, and a filter step of NumPy by hand.",
        ),
    ]
