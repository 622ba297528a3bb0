"""Recipes: a network by the name of its cell, with sizes and head taken from the data."""

import inspect
from typing import Any

import jax.random as jr
import numpy as np

from hiddenstate import cells, heads
from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import HiddenStateError, Sequences, recipe
from hiddenstate.networks.rnn import RNN, Embedding

CELLS: dict[str, type[cells.Cell]] = {
    "vanilla": cells.Vanilla,
    "leaky": cells.Leaky,
    "skip": cells.SkipInTime,
    "gated-leaky": cells.GatedLeaky,
    "output-feedback": cells.OutputFeedback,
    "gru": cells.GRU,
    "lstm": cells.LSTM,
    "mingru": cells.MinGRU,
    "minlstm": cells.MinLSTM,
    "linear": cells.DiagonalLinear,
}
"""The cells that `hs.build` and the command line know by name."""

_HEAD_OPTIONS = ("components", "covariance", "dispersion")


def _recurrent(name: str, cell: type[cells.Cell]) -> None:
    @recipe(name)
    def make(
        data: Sequences,
        *,
        key: PRNGKeyArray,
        hidden: int = 32,
        head: str | None = None,
        initial: str = "learned",
        embedding: int | None = None,
        **options: Any,
    ) -> RNN:
        """A network of this cell with `hidden` units, a head inferred from the data (or named), and its options."""
        inputs = 0 if data.inputs is None else data.inputs.shape[2]
        cell_key, head_key, embedding_key = jr.split(key, 3)
        head_options = {k: options.pop(k) for k in _HEAD_OPTIONS if k in options}
        _check_options(name, cell, options)
        if "time_constants" in inspect.signature(cell.__init__).parameters:
            options.setdefault("time_constants", _time_constants(data))
        shown = heads.head_for(data, 1, key=head_key, head=head, **head_options)
        encoder = None
        if embedding is not None:
            if not isinstance(shown, heads.Categorical):
                raise HiddenStateError(f"embedding is {embedding}, but only symbols can be embedded.")
            encoder = Embedding(shown.symbols, embedding, key=embedding_key)
        width = (shown if encoder is None else encoder).encoded_size + inputs
        body = cell(width, hidden, key=cell_key, **options)  # pyright: ignore[reportCallIssue]
        top = heads.head_for(data, body.output_size + inputs, key=head_key, head=head, **head_options)
        return RNN(body, top, encoder=encoder, initial=initial, inputs=inputs, schema=data.schema)  # pyright: ignore[reportArgumentType]


def _time_constants(data: Sequences) -> tuple[float, float]:
    """Memories from one step to a tenth of a sequence: a unit much slower than that tells only where in it one is."""
    return 1.0, float(np.clip(data.length / 10, 2.0, 100.0))


def _check_options(name: str, cell: type, options: dict[str, Any]) -> None:
    known = [
        p for p in inspect.signature(cell.__init__).parameters if p not in ("self", "input_size", "hidden_size", "key")
    ]
    known += ["hidden", "head", "initial", "embedding", *_HEAD_OPTIONS]
    for option in options:
        if option not in known:
            raise HiddenStateError(f"{name!r} has no option {option!r}; it takes {', '.join(known)}.")


for _name, _cell in CELLS.items():
    _recurrent(_name, _cell)
