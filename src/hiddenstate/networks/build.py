"""Recipes: a network by the name of its cell, with sizes and head taken from the data."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import jax.random as jr
import numpy as np

from hiddenstate import cells, heads
from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import DataError, HiddenStateError, Pairs, Sequences, recipe
from hiddenstate.heads.head import family_of
from hiddenstate.networks.bidirectional import Bidirectional, refuse_bidirectional
from hiddenstate.networks.reading import Body
from hiddenstate.networks.rnn import RNN, Embedding
from hiddenstate.networks.stack import Stack
from hiddenstate.networks.summary import Summary
from hiddenstate.networks.transducer import Transducer

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
    "turning": cells.Turning,
}
"""The cells that `hs.build` and the command line know by name."""

HEAD_OPTIONS = {"components": int, "covariance": str, "dispersion": str, "units": int, "most": int}
"""What a head may be told beside its family, and of which type each is."""

BETWEEN = {"residual": bool, "norm": bool, "dropout": float, "softmax": bool}
"""What may be between the layers of a stack, and of which type each is."""

STACKED = {**BETWEEN, "feedforward": int}
"""The same, and what may be behind every layer, the only one too."""

Shape: TypeAlias = Literal["rnn", "transducer", "summary"]


class Layer(NamedTuple):
    """How one layer is made: ``cell(width, hidden, key=key)``, in one direction or in both."""

    cell: Callable[..., cells.Cell]
    hidden: int
    bidirectional: bool = False


def _recurrent(name: str, cell: type[cells.Cell]) -> None:
    @recipe(name, takes=("sequences", "pairs"))
    def make(
        data: Sequences | Pairs,
        *,
        key: PRNGKeyArray,
        hidden: int = 32,
        layers: int = 1,
        bidirectional: bool = False,
        pooling: Literal["last", "mean", "attention"] | None = None,
        head: str | None = None,
        initial: Literal["zero", "learned"] | None = None,
        embedding: int | None = None,
        input_dropout: float = 0.0,
        output_dropout: float = 0.0,
        **options: Any,
    ) -> RNN | Transducer | Summary:
        """A network of this cell with `hidden` units, a head inferred from the data (or named), and its options."""
        cell_key, head_key, reader_key = jr.split(key, 3)
        head_options = {k: options.pop(k) for k in HEAD_OPTIONS if k in options}
        between = {k: options.pop(k) for k in STACKED if k in options}
        _check_options(name, cell, options)
        if "time_constants" in inspect.signature(cell.__init__).parameters:
            options.setdefault("time_constants", time_constants_for(_sources(data)))
        alike = layers_alike(layers, Layer(partial(cell, **options), hidden, bidirectional))
        return network_for(
            data,
            lambda width: body_of(alike, width, between, key=cell_key),
            head_key=head_key,
            reader_key=reader_key,
            pooling=pooling,
            initial=initial,
            embedding=embedding,
            head=head,
            input_dropout=input_dropout,
            output_dropout=output_dropout,
            **head_options,
        )


def layers_alike(count: int, layer: Layer) -> list[Layer]:
    """So many layers that are all made in the same way."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise HiddenStateError(f"layers is {count!r}; it must be a whole number of at least 1.")
    return [layer] * count


def body_of(layers: Sequence[Layer], width: int, between: dict[str, Any], *, key: PRNGKeyArray) -> Body:
    """What reads vectors of `width` numbers: one layer, or a stack of several with something between or behind them."""
    cells_key, feed_key = jr.split(key) if between.get("feedforward") else (key, None)
    if len(layers) == 1:
        for option, value in between.items():
            if value and option in BETWEEN:
                raise HiddenStateError(f"{option} is {value}, but it acts between layers, and there is only one.")
        if feed_key is None:
            return _made(layers[0], width, key=key)
    made: list[Body] = []
    for layer, layer_key in zip(layers, jr.split(cells_key, len(layers)), strict=True):
        made.append(_made(layer, made[-1].output_size if made else width, key=layer_key))
    return Stack(made, **between, key=feed_key)


def _made(layer: Layer, width: int, *, key: PRNGKeyArray) -> Body:
    if not layer.bidirectional:
        return layer.cell(width, layer.hidden, key=key)
    forward, backward = (layer.cell(width, layer.hidden, key=k) for k in jr.split(key))
    return Bidirectional(forward, backward)


def network_for(
    data: Sequences | Pairs,
    body: Callable[[int], Body],
    *,
    head_key: PRNGKeyArray,
    reader_key: PRNGKeyArray,
    shape: Shape | None = None,
    pooling: Literal["last", "mean", "attention"] | None = None,
    initial: Literal["zero", "learned"] | None = None,
    embedding: int | None = None,
    head: str | None = None,
    input_dropout: float = 0.0,
    output_dropout: float = 0.0,
    **head_options: Any,
) -> RNN | Transducer | Summary:
    """A network around `body`, which is given the number of entries that it reads; the data decide all the rest.

    From sequences it is an `RNN`; from pairs a `Summary` where there is one target for a source, a `Transducer` where
    there is one for every step. `shape` names one of them where the data leave a choice.
    """
    if isinstance(data, Pairs):
        if input_dropout or output_dropout:
            raise DataError(
                "input_dropout and output_dropout are for models of sequences; dropout acts between layers."
            )
        whole = _check_pairs(data, shape, pooling, initial)
        top = partial(heads.head_for, data.targets, key=head_key, head=head, **head_options)
        embedding_key, pooling_key = jr.split(reader_key)
        reader = reader_for(data.sources, embedding, key=embedding_key)
        inputs = _inputs(data.sources)
        read = body(reader.encoded_size + inputs)
        known: dict[str, Any] = {"schema": data.sources.schema, "target_schema": data.targets.schema}
        if whole:
            known |= {"pooling": pooling or "last", "key": pooling_key}
        model = Summary if whole else Transducer
        return model(read, top(read.output_size), reader=reader, inputs=inputs, **known)
    _check_sequences(shape, pooling)
    top = partial(heads.head_for, data, key=head_key, head=head, **head_options)
    inputs = _inputs(data)
    shown = top(1)
    encoder = None if embedding is None else _embedding(shown, embedding, reader_key)
    cell: Any = body((shown if encoder is None else encoder).encoded_size + inputs)
    refuse_bidirectional(cell, "an autoregressive model")
    start = "learned" if initial is None else initial
    above = top(cell.output_size + inputs)
    return RNN(
        cell,
        above,
        encoder=encoder,
        initial=start,
        inputs=inputs,
        input_dropout=input_dropout,
        output_dropout=output_dropout,
        schema=data.schema,
    )


def _check_sequences(shape: Shape | None, pooling: str | None) -> None:
    if shape not in (None, "rnn"):
        raise DataError(f"a {shape} answers, so it is built from pairs; give hs.Pairs.of(sources, targets).")
    if pooling is not None:
        raise HiddenStateError(f"pooling is {pooling!r}, but the data are sequences: only answers to pairs pool.")


def _check_pairs(pairs: Pairs, shape: Shape | None, pooling: str | None, initial: str | None) -> bool:
    """Whether a `Summary` is due, not a `Transducer`; or the sentence that says why neither will do."""
    if shape == "rnn":
        raise DataError("an rnn is a model of sequences, but the data are Pairs; give it pairs.sources.")
    if shape == "summary" and not pairs.single:
        raise DataError("a summary has one target for each source, but some of these have more; take a transducer.")
    if shape == "transducer" and not pairs.aligned:
        raise DataError("a transducer has a target for every step of a source, but some of these have fewer or more.")
    whole = answers_whole(pairs, pooling) if shape is None else shape == "summary"
    if pooling is not None and not whole:
        raise HiddenStateError(f"pooling is {pooling!r}, but the targets answer every step: nothing is pooled.")
    if initial not in (None, "zero"):
        raise HiddenStateError(f"initial is {initial!r}, but a network that answers begins at zero.")
    return whole


def answers_whole(pairs: Pairs, pooling: str | None = None) -> bool:
    """Whether targets answer whole sources, not every step of them.

    Where every source has one step, so that both could be, the schema of the targets decides; without a word there, a
    `pooling` means whole sources, and none every step.
    """
    if not pairs.single and not pairs.aligned:
        raise DataError(
            "the targets have neither one step each nor as many as their sources; build an encoder-decoder from these."
        )
    if not (pairs.single and pairs.aligned):
        return pairs.single
    said = pairs.targets.schema.outputs
    return said == "sequence" if said else pooling is not None


def reader_for(sources: Sequences, embedding: int | None = None, *, key: PRNGKeyArray) -> heads.Head | Embedding:
    """How these sources become vectors: as a head of their kind encodes them, or symbols by an embedding."""
    shown = heads.head_for(sources, 1, key=key)
    return family_of(shown) if embedding is None else _embedding(shown, embedding, key)


def _embedding(shown: heads.Head, size: int, key: PRNGKeyArray) -> Embedding:
    if not isinstance(shown, heads.Categorical):
        raise HiddenStateError(f"embedding is {size}, but only symbols can be embedded.")
    return Embedding(shown.symbols, size, key=key)


def _sources(data: Sequences | Pairs) -> Sequences:
    return data.sources if isinstance(data, Pairs) else data


def _inputs(sources: Sequences) -> int:
    return 0 if sources.inputs is None else sources.inputs.shape[2]


def time_constants_for(data: Sequences) -> tuple[float, float]:
    """Memories from one step to a tenth of a sequence: a unit much slower than that tells only where in it one is."""
    return 1.0, float(np.clip(data.length / 10, 2.0, 100.0))


def _check_options(name: str, cell: type, options: dict[str, Any]) -> None:
    known = [
        p for p in inspect.signature(cell.__init__).parameters if p not in ("self", "input_size", "hidden_size", "key")
    ]
    known += ["hidden", "layers", *STACKED, "bidirectional", "pooling", "head", "initial", "embedding"]
    known += ["input_dropout", "output_dropout", *HEAD_OPTIONS]
    for option in options:
        if option not in known:
            raise HiddenStateError(f"{name!r} has no option {option!r}; it takes {', '.join(known)}.")


for _name, _cell in CELLS.items():
    _recurrent(_name, _cell)
