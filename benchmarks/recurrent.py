"""Speed of recurrent cells against torch.nn, side by side in one process: forward, and forward with backward.

Torch is no requirement of the project; without it only our own times are shown.
"""

import equinox as eqx
import jax
import jax.random as jr

import hiddenstate as hs

SHAPES = [(64, 512, 64), (1, 4096, 64), (16, 128, 256)]
CELLS = {"vanilla": "RNN", "gru": "GRU", "lstm": "LSTM"}


def ours(name, batch, time_, units):
    cell = {"vanilla": hs.cells.Vanilla, "gru": hs.cells.GRU, "lstm": hs.cells.LSTM, "mingru": hs.cells.MinGRU}[name](
        units, units, key=jr.key(0)
    )
    xs = jr.normal(jr.key(1), (batch, time_, units))

    def outputs(cell, xs):
        states = jax.vmap(lambda x: hs.unroll(cell, x).states)(xs)
        return jax.vmap(jax.vmap(cell.output))(states)

    forward = eqx.filter_jit(lambda c, x: outputs(c, x).sum())
    backward = eqx.filter_jit(eqx.filter_value_and_grad(lambda c, x: (outputs(c, x) ** 2).sum()))
    return lambda: jax.block_until_ready(forward(cell, xs)), lambda: jax.block_until_ready(backward(cell, xs))


def theirs(name, batch, time_, units):
    import torch

    layer = getattr(torch.nn, CELLS[name])(units, units, batch_first=True)
    xs = torch.randn(batch, time_, units)

    def forward():
        with torch.no_grad():
            layer(xs)[0].sum()

    def backward():
        layer.zero_grad()
        (layer(xs)[0] ** 2).sum().backward()

    return forward, backward


def cases():
    """What there is to time: a label, and functions by what they do and whose they are."""
    try:
        import torch  # noqa: F401

        peer = True
    except ImportError:
        peer = False
    for name in ("vanilla", "gru", "lstm", "mingru"):
        for shape in SHAPES:
            mine, other = ours(name, *shape), theirs(name, *shape) if peer and name in CELLS else None
            phases = "forward", "forward + backward"
            yield (
                "{}, batch {}, {} steps, {} units".format(name, *shape),
                {phase: {"ours": mine[i], **({"torch": other[i]} if other else {})} for i, phase in enumerate(phases)},
            )
