"""The recipe of encoder-decoders: sizes, reader and head taken from pairs."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax.random as jr

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import HiddenStateError, Pairs, Sequences, recipe
from hiddenstate.heads import head_for
from hiddenstate.networks.build import (
    CELLS,
    HEAD_OPTIONS,
    STACKED,
    Layer,
    body_of,
    layers_alike,
    reader_for,
    time_constants_for,
)
from hiddenstate.networks.encoder_decoder import Context, EncoderDecoder
from hiddenstate.networks.reading import Body
from hiddenstate.networks.rnn import RNN, Embedding


@recipe("encoder-decoder", takes=("pairs",))
def build_encoder_decoder(
    data: Pairs,
    *,
    key: PRNGKeyArray,
    cell: str = "gru",
    hidden: int = 64,
    layers: int = 1,
    bidirectional: bool = False,
    context: Context = "both",
    embedding: int | None = None,
    stop: bool | None = None,
    head: str | None = None,
    **options: Any,
) -> EncoderDecoder:
    """An encoder and a decoder of one cell with `hidden` units, each of `layers` layers, with a head for the targets.

    With `bidirectional` the encoder reads from both ends. Symbols are read one-hot, or as vectors of `embedding`
    numbers. `stop` is True by default where targets are single symbols and not all of one length. Other options are
    those of the cell, of the head and of what is between layers, the same in the encoder and in the decoder.
    """
    head_options = {name: options.pop(name) for name in HEAD_OPTIONS if name in options}
    make_body = _bodies(cell, hidden, layers, options, data.sources)
    return encoder_decoder_for(
        data,
        partial(make_body, bidirectional=bidirectional),
        partial(make_body, bidirectional=False),
        context=context,
        embedding=embedding,
        stop=stop,
        key=key,
        head=head,
        **head_options,
    )


def encoder_decoder_for(
    data: Pairs,
    make_encoder: Callable[..., Body],
    make_decoder: Callable[..., Body],
    *,
    context: Context,
    embedding: int | None,
    stop: bool | None,
    key: PRNGKeyArray,
    **head_options: Any,
) -> EncoderDecoder:
    """An encoder-decoder of two bodies, each made as ``make(width, key=key)``; the data decide all the rest."""
    keys = dict(zip(("encoder", "decoder", "head", "reader", "embedding", "state"), jr.split(key, 6), strict=True))
    if embedding is not None and not (_symbolic(data.sources) or _symbolic(data.targets)):
        raise HiddenStateError(f"embedding is {embedding}, but only symbols can be embedded.")
    stop = _symbolic(data.targets) and data.targets.ragged if stop is None else stop
    targets = _with_stop_symbol(data.targets) if stop else data.targets

    inputs = 0 if data.sources.inputs is None else data.sources.inputs.shape[2]
    reader = reader_for(data.sources, embedding if _symbolic(data.sources) else None, key=keys["reader"])
    encoder = make_encoder(reader.encoded_size + inputs, key=keys["encoder"])
    seen = 0 if context == "state" else encoder.output_size

    encode = reader_for(targets, embedding if _symbolic(targets) else None, key=keys["embedding"])
    body: Any = make_decoder(encode.encoded_size + seen, key=keys["decoder"])
    top = head_for(targets, body.output_size + seen, key=keys["head"], **head_options)
    decoder = RNN(body, top, encoder=encode if isinstance(encode, Embedding) else None, inputs=seen)
    return EncoderDecoder(
        encoder,
        decoder,
        context=context,
        stop=stop,
        reader=reader,
        inputs=inputs,
        key=keys["state"],
        schema=data.sources.schema,
        target_schema=data.targets.schema,
    )


def _bodies(name: str, hidden: int, layers: int, options: dict[str, Any], sources: Sequences) -> Callable[..., Body]:
    """What makes the encoder and the decoder, from how many numbers each reads and in which directions."""
    if name not in CELLS:
        raise HiddenStateError(f"cell is {name!r}; it must be one of {', '.join(CELLS)}.")
    between = {option: options.pop(option) for option in STACKED if option in options}
    taken = inspect.signature(CELLS[name].__init__).parameters
    if "time_constants" in taken:
        options.setdefault("time_constants", time_constants_for(sources))
    for option in options:
        if option not in taken or option in ("self", "input_size", "hidden_size", "key"):
            raise HiddenStateError(f"a {name} cell has no option {option!r}, nor has an encoder-decoder.")

    def make(width: int, bidirectional: bool, *, key: PRNGKeyArray) -> Body:
        alike = layers_alike(layers, Layer(partial(CELLS[name], **options), hidden, bidirectional))
        return body_of(alike, width, between, key=key)

    return make


def _symbolic(data: Sequences) -> bool:
    """Whether a step is a single symbol."""
    return data.schema.scalar and data.schema.kind == "symbol"


def _with_stop_symbol(targets: Sequences) -> Sequences:
    """The same targets in an alphabet of one symbol more."""
    if not _symbolic(targets):
        raise HiddenStateError(
            f"stop is True, but targets are {targets!r}; only single symbols can have one more, which ends them."
        )
    (column,) = targets.schema.columns
    schema = replace(targets.schema, columns=(replace(column, size=column.size + 1, symbols=None),))
    return replace(targets, schema=schema)
