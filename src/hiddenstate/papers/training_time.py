"""What one step of training costs networks on sequences of growing length: seconds, bytes, and the same gradient."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from hiddenstate._types import PRNGKeyArray
from hiddenstate.catalogue import build
from hiddenstate.core import Sequences, partition
from hiddenstate.inference import arrays_for, masked_log_probs
from hiddenstate.inspect.costs import depth
from hiddenstate.inspect.costs.programs import Program, program
from hiddenstate.networks.build import CELLS
from hiddenstate.papers.random_symbols import random_symbols
from hiddenstate.papers.timing import least_seconds
from hiddenstate.strategies import Associative, Sequential, Strategy

STRATEGIES: dict[str, Strategy] = {"in sequence": Sequential(), "in parallel": Associative()}


def gradient_costs(
    contenders: Sequence[tuple[str, str]],
    *,
    length: int,
    batch: int,
    hidden: int,
    symbols: int,
    repeats: int,
    key: PRNGKeyArray,
) -> list[dict[str, Any]]:
    """Seconds and bytes of one gradient of the loss, for each cell and way of running it, at one length.

    The contenders take turns, and the least of several times counts. Bytes are those that the compiled program keeps
    beside its arguments, as the compiler plans them (None where a backend does not say).
    """
    data = random_symbols(symbols=symbols, sequences=batch, length=length, key=key)
    compiled: dict[tuple[str, str], Program] = {}
    models = {cell: build(cell, data, hidden=hidden, key=key) for cell, _ in contenders}
    for cell, way in contenders:
        model = models[cell]
        compiled[cell, way] = program(model, arrays_for(model, data), STRATEGIES[way], "gradient")
    works = {f"{cell} {way}": each.run for (cell, way), each in compiled.items()}
    seconds = least_seconds(works, repeats=repeats)
    return [
        {
            "cell": cell,
            "way": way,
            "length": length,
            "seconds": seconds[f"{cell} {way}"],
            "bytes": None if each.memory is None else each.memory.temporary,
            "depth": depth(models[cell], STRATEGIES[way], length),
        }
        for (cell, way), each in compiled.items()
    ]


def _loss(model: Any, arrays: Any, way: str) -> Any:
    return -masked_log_probs(model, arrays, STRATEGIES[way])[0].sum()


def differences(
    cells: Sequence[str], *, length: int, hidden: int, symbols: int, key: PRNGKeyArray
) -> list[dict[str, Any]]:
    """How far the parallel scan is from the loop over time, in the loss and in its gradient."""
    data = random_symbols(symbols=symbols, sequences=4, length=length, key=key)
    rows = []
    for cell in cells:
        model = build(cell, data, hidden=hidden, key=key)
        found = [_loss_and_gradient(model, data, way) for way in STRATEGIES]
        (loss, gradient), (other_loss, other) = found
        pairs = list(zip(jax.tree.leaves(gradient), jax.tree.leaves(other), strict=True))
        scale = max(float(jnp.abs(one).max()) for one, _ in pairs)
        rows.append(
            {
                "cell": cell,
                "length": length,
                "loss_difference": abs(float(loss - other_loss)) / abs(float(loss)),
                "gradient_difference": max(float(jnp.abs(a - b).max()) for a, b in pairs) / scale,
            }
        )
    return rows


def _loss_and_gradient(model: Any, data: Sequences, way: str) -> tuple[Any, Any]:
    learned, rest = partition(model)
    arrays = arrays_for(model, data)
    return jax.jit(jax.value_and_grad(lambda learned: _loss(eqx.combine(learned, rest), arrays, way)))(learned)


def parameter_shares(width: int, expansions: Sequence[int], *, key: PRNGKeyArray) -> list[dict[str, Any]]:
    """The weights of minimal cells as shares of those of the cells that they come from, by hidden per input size.

    Biases are left out, as in the counts of Feng et al. (2024), which are of order 2 d_h d_x and 3 d_h d_x for the
    minimal cells, 3 d_h (d_x + d_h) and 4 d_h (d_x + d_h) for GRU and LSTM.
    """
    rows = []
    for minimal, whole in (("mingru", "gru"), ("minlstm", "lstm")):
        for expansion in expansions:
            hidden = expansion * width
            small, large = (
                sum(leaf.size for leaf in jax.tree.leaves(_made(name, width, hidden, key)) if leaf.ndim > 1)
                for name in (minimal, whole)
            )
            rows.append(
                {"cell": minimal, "of": whole, "expansion": expansion, "weights": small, "share": small / large}
            )
    return rows


def _made(name: str, width: int, hidden: int, key: PRNGKeyArray) -> Any:
    make: Any = CELLS[name]
    return make(width, hidden, key=key)
