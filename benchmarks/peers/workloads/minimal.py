"""minGRU and minLSTM in log space, with their input product, forward and backward."""

from functools import partial
from typing import Any

import numpy as np

from peers.case import FUNCTION, Agreement, Case, Run, Scale, Size, Work
from peers.workloads.hmm import waiting
from peers.workloads.recurrent import data, earlier, later

SIZES = {
    "full": ((512, 64, 64), (4_096, 8, 128), (65_536, 1, 64)),
    "quick": ((128, 32, 64), (4_096, 1, 64)),
    "tiny": ((6, 3, 5),),
}
PARTS = {"minGRU": 2, "minLSTM": 3}
GOAL = 8.0
LONG = 4_096
ROUNDING = (
    "minGRU-pytorch adds up logarithms along all of time: at 65,536 steps single precision leaves its gradients of the "
    "inputs an error of a third (root mean square). It is timed nevertheless."
)
"""Our kernel and the scan that XLA compiles agree there to seven digits."""


def weights(cell: str, units: int) -> list[np.ndarray]:
    """The candidate's, then those of the gates (forget, input)."""
    random = np.random.default_rng(units)
    shape = (units, units)
    return [(random.normal(size=shape) / np.sqrt(units)).astype(np.float32) for _ in range(PARTS[cell])]


def ours(size: Size, cell: str, strategy: str = "Auto") -> Run:
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import jax.random as jr

    import hiddenstate as hs

    candidate, *gates = weights(cell, size["units"])
    kind = {"minGRU": hs.cells.MinGRU, "minLSTM": hs.cells.MinLSTM}[cell]
    layer = kind(size["units"], size["units"], log_space=True, key=jr.key(0))
    stacked = jnp.concatenate([*map(jnp.asarray, gates), jnp.asarray(candidate)])
    layer = eqx.tree_at(lambda c: (c.input_weight, c.bias), layer, (stacked, jnp.zeros(len(stacked), jnp.float32)))
    xs, cotangent = data(size)
    xs, cotangent = jnp.asarray(xs), earlier(cotangent)
    how = getattr(hs, strategy)()

    def outputs(layer, xs):
        return tuple(jax.vmap(lambda one: hs.unroll(layer, one, how))(xs))

    @jax.jit
    def both(layer, xs, cotangent):
        found, pull = jax.vjp(outputs, layer, xs)
        return found, pull(cotangent)

    def compare(out):
        found, (weights, inputs) = out
        return {"outputs": later(*found), "weights": weights.input_weight[-size["units"] :], "inputs": inputs}

    return waiting(partial(both, layer, xs, cotangent), compare)


def mingru_pytorch(size: Size, cell: str) -> Run:
    import torch
    from minGRU_pytorch import minGRU
    from minGRU_pytorch.minLSTM import minLSTM

    layer = {"minGRU": minGRU, "minLSTM": minLSTM}[cell](size["units"])
    product = layer.to_hidden_and_gate if cell == "minGRU" else layer.to_hidden_and_f_i_gate
    product.weight.data = torch.from_numpy(np.concatenate(weights(cell, size["units"])))
    xs, cotangent = (torch.from_numpy(a) for a in data(size))
    xs.requires_grad_()

    def both():
        found = layer(xs)
        return found, torch.autograd.grad(found, [product.weight, xs], cotangent)

    def result():
        found, (weights, inputs) = both()
        return {
            "outputs": found.detach().numpy(),
            "weights": weights[: size["units"]].numpy(),
            "inputs": inputs.numpy(),
        }

    return Run(both, result)


def work(size: Size, cell: str) -> Work:
    """Products forward, twice as much backward; a few functions a unit; inputs, outputs and their gradients moved."""
    count, units = size["steps"] * size["sequences"], size["units"]
    each = 3 * PARTS[cell] * units**2 + units * (2 * PARTS[cell] * FUNCTION + 8)
    return Work(count * each, count * 6 * units * 4)


def case(cell: str, size: Size, **more: Any) -> Case:
    """One of the cases, or a point of a scaling plot."""
    long = size["steps"] > LONG
    inputs = Agreement(0.5 if long else 5e-2, together=True)
    return Case(
        note=ROUNDING if long else "",
        workload=cell.lower(),
        title=f"{cell} forward + backward",
        size=size,
        makers={
            "hiddenstate": partial(ours, cell=cell),
            "hiddenstate Sequential": partial(ours, cell=cell, strategy="Sequential"),
            "hiddenstate Associative": partial(ours, cell=cell, strategy="Associative"),
            "minGRU-pytorch": partial(mingru_pytorch, cell=cell),
        },
        agreement=dict.fromkeys(("outputs", "weights"), Agreement(5e-2, together=True)) | {"inputs": inputs},
        work=work(size, cell),
        probed=("minGRU-pytorch",),
        **more,
    )


def cases(scale: Scale) -> list[Case]:
    """Two cells, three shapes."""
    found = []
    for cell in PARTS:
        for steps, sequences, units in SIZES[scale]:
            size = {"steps": steps, "sequences": sequences, "units": units}
            found.append(case(cell, size, goal=GOAL, memory=cell == "minGRU" and steps == SIZES[scale][-1][0]))
    return found
