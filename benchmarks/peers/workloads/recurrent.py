"""Recurrent layers with their input product: all states out, and gradients of weights and inputs."""

from functools import partial
from typing import Any

import numpy as np

from peers.case import FUNCTION, Agreement, Case, Run, Scale, Size, Work
from peers.workloads.hmm import waiting

SIZES = {
    "full": ((512, 64, 64), (100, 32, 32), (4_096, 8, 128), (512, 64, 256)),
    "quick": ((128, 32, 64), (100, 32, 32)),
    "tiny": ((6, 3, 5),),
}
LARGE = 256
GATES = {"vanilla": 1, "GRU": 3, "LSTM": 4}
FUNCTIONS = {"vanilla": 1, "GRU": 3, "LSTM": 5}
"""Calls of tanh and sigmoid for each unit."""

TORCH = {"vanilla": "RNN", "GRU": "GRU", "LSTM": "LSTM"}
GOALS = {("LSTM", False): 1.5, ("LSTM", True): 2.0, ("GRU", False): 2.5, ("GRU", True): 4.0}
GOALS |= {("vanilla", False): 2.0, ("vanilla", True): 3.0}


def weights(cell: str, units: int) -> dict[str, np.ndarray]:
    """Those of a layer, under torch's names."""
    random = np.random.default_rng(units)
    rows, bound = GATES[cell] * units, 1 / np.sqrt(units)
    shapes = {
        "weight_ih_l0": (rows, units),
        "weight_hh_l0": (rows, units),
        "bias_ih_l0": (rows,),
        "bias_hh_l0": (rows,),
    }
    return {name: random.uniform(-bound, bound, shape).astype(np.float32) for name, shape in shapes.items()}


def data(size: Size) -> tuple[np.ndarray, np.ndarray]:
    """Inputs, and what the gradient of the outputs is: (sequence, time, unit)."""
    random = np.random.default_rng(1)
    shape = (size["sequences"], size["steps"], size["units"])
    return tuple(random.normal(size=shape).astype(np.float32) for _ in range(2))  # pyright: ignore[reportReturnType]


def later(states: Any, final: Any) -> np.ndarray:
    """What torch calls outputs: the states behind every step, of which the last stands by itself here."""
    return np.concatenate([np.asarray(states)[:, 1:], np.asarray(final)[:, None]], 1)


def earlier(cotangent: np.ndarray) -> Any:
    """The other way round, for gradients: those of the states before every step, and of the last."""
    import jax.numpy as jnp

    before = np.concatenate([np.zeros_like(cotangent[:, :1]), cotangent[:, :-1]], 1)
    return jnp.asarray(before), jnp.asarray(cotangent[:, -1])


def ours(size: Size, cell: str, backward: bool, strategy: str = "Auto") -> Run:
    import jax
    import jax.numpy as jnp

    import hiddenstate as hs

    layer: Any = hs.from_torch(weights(cell, size["units"]))
    xs, cotangent = data(size)
    xs, cotangent = jnp.asarray(xs), earlier(cotangent)
    how = getattr(hs, strategy)()

    def outputs(layer, xs):
        found = jax.vmap(lambda one: hs.unroll(layer, one, how))(xs)
        return tuple(part.h if cell == "LSTM" else part for part in found)

    if not backward:
        return waiting(partial(jax.jit(outputs), layer, xs), lambda out: {"outputs": later(*out)})

    @jax.jit
    def both(layer, xs, cotangent):
        found, pull = jax.vjp(outputs, layer, xs)
        return found, pull(cotangent)

    def compare(out):
        found, (weights, inputs) = out
        return {"outputs": later(*found), "weights": weights.recurrent_weight, "inputs": inputs}

    return waiting(partial(both, layer, xs, cotangent), compare)


def torch_layer(size: Size, cell: str, backward: bool) -> Run:
    import torch

    layer = getattr(torch.nn, TORCH[cell])(size["units"], size["units"])  # time first, which it likes best
    layer.load_state_dict({name: torch.from_numpy(value) for name, value in weights(cell, size["units"]).items()})
    layer.flatten_parameters()
    xs, cotangent = (torch.from_numpy(np.ascontiguousarray(a.swapaxes(0, 1))) for a in data(size))

    def forward():
        with torch.no_grad():
            return layer(xs)[0]

    if not backward:
        return Run(forward, lambda: {"outputs": forward().numpy().swapaxes(0, 1)})
    xs.requires_grad_()
    learned = [layer.weight_hh_l0, xs, layer.weight_ih_l0, layer.bias_ih_l0, layer.bias_hh_l0]

    def both():
        found = layer(xs)[0]
        return found, torch.autograd.grad(found, learned, cotangent)

    def result():
        found, (weights, inputs, *_) = both()
        outputs, inputs = (a.detach().numpy().swapaxes(0, 1) for a in (found, inputs))
        return {"outputs": outputs, "weights": weights.numpy(), "inputs": inputs}

    return Run(both, result)


def work(size: Size, cell: str, backward: bool) -> Work:
    """Forward: products with inputs and states; backward twice as much again. States and inputs are moved once each."""
    count, units = size["steps"] * size["sequences"], size["units"]
    products, rest = 2 * GATES[cell] * units**2, units * (FUNCTION * FUNCTIONS[cell] + 4)
    moved = 2 * units * 4
    if backward:
        return Work(count * (3 * products + 2 * rest), count * 3 * moved)
    return Work(count * (products + rest), count * moved)


def case(cell: str, backward: bool, size: Size, **more: Any) -> Case:
    """One of the cases, or a point of a scaling plot."""
    return Case(
        workload=cell.lower(),
        title=f"{cell} {'forward + backward' if backward else 'forward'}",
        size=size,
        makers={
            "hiddenstate": partial(ours, cell=cell, backward=backward),
            "hiddenstate Sequential": partial(ours, cell=cell, backward=backward, strategy="Sequential"),
            "torch": partial(torch_layer, cell=cell, backward=backward),
        },
        # Outputs lie between -1 and 1; gradients of weights are sums over all steps and sequences.
        agreement={"outputs": Agreement(1e-3, 1e-4), "weights": Agreement(1e-2, 0.1), "inputs": Agreement(1e-2, 1e-3)},
        work=work(size, cell, backward),
        **more,
    )


def cases(scale: Scale) -> list[Case]:
    """Three cells, forward and with the gradient."""
    found = []
    for cell in ("LSTM", "GRU", "vanilla"):
        for steps, sequences, units in SIZES[scale]:
            size = {"steps": steps, "sequences": sequences, "units": units}
            for backward in (False, True):
                goal = 1.1 if (cell, units) == ("LSTM", LARGE) else GOALS[cell, backward]
                memory = cell == "LSTM" and backward and (steps, sequences, units) == SIZES[scale][0]
                found.append(case(cell, backward, size, goal=goal, memory=memory))
    return found
