"""Networks from a description, layer by layer, and the description of a network."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, get_args

import jax.random as jr

from hiddenstate._types import PRNGKeyArray
from hiddenstate.cells import Cell
from hiddenstate.core import (
    DataError,
    HiddenStateError,
    Pairs,
    RegistryError,
    Sequences,
    name_of,
    registered_class,
    registered_name,
)
from hiddenstate.core.description import checked, fitted, options_of
from hiddenstate.heads import NADE, Columns, Head, Mixture, Subset
from hiddenstate.networks.bidirectional import Bidirectional
from hiddenstate.networks.build import (
    CELLS,
    HEAD_OPTIONS,
    STACKED,
    Layer,
    Shape,
    body_of,
    network_for,
    time_constants_for,
)
from hiddenstate.networks.encoder_decoder import Context
from hiddenstate.networks.reading import Body
from hiddenstate.networks.rnn import Embedding
from hiddenstate.networks.stack import Stack
from hiddenstate.networks.translation import encoder_decoder_for

TRANSLATOR = "encoder-decoder"
SHAPES = (*get_args(Shape), TRANSLATOR)
"""What a network that is described layer by layer can be; which one follows from the data where nothing is said."""

_LAYER: dict[str, Any] = {"cell": str, "hidden": int, "bidirectional": bool}
_HEAD: dict[str, Any] = {"family": str, **HEAD_OPTIONS}
_BODY: dict[str, Any] = {**_LAYER, "layers": int | list[Any], **STACKED}
_ALL: dict[str, Any] = {
    "model": str | None,
    **_BODY,
    "head": str | dict[str, Any],
    "embedding": int,
    "training": dict[str, Any],
}
_ENDS = {"input_dropout": float, "output_dropout": float}
_NETWORK = {**_ALL, **_ENDS, "initial": Literal["zero", "learned"], "pooling": Literal["last", "mean", "attention"]}
_TRANSLATOR = {**_ALL, "encoder": dict[str, Any], "decoder": dict[str, Any], "context": Context, "stop": bool}
_HIDDEN = 32
_TRANSLATOR_HIDDEN = 64


# -- from a description --------------------------------------------------------------------------------------


def by_layers(content: Mapping[str, Any]) -> bool:
    """Whether a description tells of a network layer by layer, and not of a recipe with its options."""
    name = content.get("model")
    if name in CELLS or name == TRANSLATOR:
        return isinstance(content.get("layers"), list | tuple) or "encoder" in content or "decoder" in content
    return name is None or name in SHAPES


def network(content: Mapping[str, Any], place: str, data: Sequences | Pairs, *, key: PRNGKeyArray) -> Any:
    """The network that a description tells of, with sizes and head taken from the data."""
    if content.get("model") in CELLS:
        content = {"cell": content["model"], **{name: value for name, value in content.items() if name != "model"}}
    shape = content.get("model") or _shape_for(data)
    if shape == TRANSLATOR:
        return _translator(content, place, data, key=key)
    said = checked(content, _NETWORK, place)
    body = _body(said, data.sources if isinstance(data, Pairs) else data, place)
    cell_key, head_key, embedding_key = jr.split(key, 3)
    return network_for(
        data,
        lambda width: body(width, key=cell_key),
        shape=shape,  # pyright: ignore[reportArgumentType]
        head_key=head_key,
        reader_key=embedding_key,
        pooling=said.get("pooling"),
        initial=said.get("initial"),
        embedding=said.get("embedding"),
        **{name: said[name] for name in _ENDS if name in said},
        **head_options(said.get("head"), place),
    )


def _shape_for(data: Sequences | Pairs) -> str | None:
    """What data of this kind make where a description does not say it; None is for `network_for` to decide."""
    return TRANSLATOR if isinstance(data, Pairs) and not (data.aligned or data.single) else None


def _translator(content: Mapping[str, Any], place: str, data: Sequences | Pairs, *, key: PRNGKeyArray) -> Any:
    """An encoder and a decoder; what the description says of both holds where neither says otherwise."""
    said = checked(content, _TRANSLATOR, place)
    if not isinstance(data, Pairs):
        raise DataError(
            f"model of {place} is {TRANSLATOR!r}, which is built from pairs; give hs.Pairs.of(sources, targets)."
        )
    common = {"hidden": _TRANSLATOR_HIDDEN, **{name: said[name] for name in _BODY if name in said}}
    encoder, decoder = (
        checked({**common, **said.get(part, {})}, _BODY, f"{part} of {place}") for part in ("encoder", "decoder")
    )
    if "bidirectional" not in said.get("decoder", {}):
        decoder.pop("bidirectional", None)
    return encoder_decoder_for(
        data,
        _body(encoder, data.sources, f"encoder of {place}"),
        _body(decoder, data.sources, f"decoder of {place}"),
        context=said.get("context", "both"),
        embedding=said.get("embedding"),
        stop=said.get("stop"),
        key=key,
        **head_options(said.get("head"), place),
    )


def recipe_options(make: Callable[..., Any], name: str, content: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The options of a recipe that a description gives, each of its type; the head's may stand under `head`."""
    given = {option: value for option, value in content.items() if option not in ("model", "head", "training")}
    head = head_options(content.get("head"), place)
    known = {option: annotation for option, annotation in options_of(make).items() if option != "key"}
    if name in CELLS:
        known |= {**STACKED, **HEAD_OPTIONS, **cell_options(CELLS[name])}
    elif any(p.kind is p.VAR_KEYWORD for p in inspect.signature(make).parameters.values()):
        known |= {option: Any for option in given if option not in known}
    for option in head:
        if option not in known:
            raise HiddenStateError(
                f"{place} has {option!r} of a head, but {name!r} has none; it takes {', '.join(known)}."
            )
    return {**checked(given, known, place), **head}


def head_options(head: Any, place: str) -> dict[str, Any]:
    """The family of a head and its options, of which a description may give the family alone."""
    if not isinstance(head, Mapping):
        return {} if head is None else {"head": fitted(head, str, f"head of {place}")}
    said = checked(dict(head), _HEAD, f"head of {place}")
    return {"head" if name == "family" else name: value for name, value in said.items()}


def _body(said: Mapping[str, Any], sources: Sequences, place: str) -> Callable[..., Body]:
    """What makes the layers, from how many numbers the first one reads and a key."""
    layers = _layers(said, sources, place)
    return partial(body_of, layers, between={name: said[name] for name in STACKED if name in said})


def _layers(said: Mapping[str, Any], sources: Sequences, place: str) -> list[Layer]:
    """The layers from the first to the last; what the description says for all of them holds where one does not."""
    written = said.get("layers", 1)
    if isinstance(written, int):
        written = [{}] * written
    if not written:
        raise HiddenStateError(f"layers of {place} is {said['layers']}; there must be at least one.")
    common = {name: said[name] for name in _LAYER if name in said}
    layers = []
    for number, layer in enumerate(written, 1):
        where = f"layer {number} of {place}"
        own = {"cell": layer} if isinstance(layer, str) else fitted(layer, str | dict[str, Any], where)
        layers.append(_layer({**common, **own}, sources, where))
    return layers


def _layer(written: dict[str, Any], sources: Sequences, place: str) -> Layer:
    if "cell" not in written:
        raise HiddenStateError(f"{place} has no cell; it must be one of {', '.join(CELLS)}.")
    cell = _cell_named(written["cell"], place)
    options = cell_options(cell)
    said = checked(written, {**_LAYER, **options}, place)
    given = {name: value for name, value in said.items() if name in options}
    if "time_constants" in options:
        given.setdefault("time_constants", time_constants_for(sources))
    return Layer(partial(cell, **given), said.get("hidden", _HIDDEN), said.get("bidirectional", False))


def cell_options(cell: type[Cell]) -> dict[str, Any]:
    """The options of a cell that can be written down, with their annotations."""
    return {name: annotation for name, annotation in options_of(cell.__init__).items() if name != "key"}


def _cell_named(name: Any, place: str) -> type[Cell]:
    """The class of that name: a cell of the library, or one that was registered."""
    try:
        cell = CELLS.get(name) or registered_class(fitted(name, str, f"cell of {place}"))
    except RegistryError:
        cell = None
    if cell is None or not issubclass(cell, Cell) or not _has_sizes(cell):
        raise HiddenStateError(
            f"cell of {place} is {name!r}; it must be one of {', '.join(CELLS)}, or the name that a cell of "
            "your own is registered under."
        )
    return cell


def _has_sizes(cell: type[Cell]) -> bool:
    """Whether it is made from an input size, a hidden size and a key, as a layer is."""
    return {"input_size", "hidden_size", "key"} <= set(inspect.signature(cell.__init__).parameters)


# -- to a description ----------------------------------------------------------------------------------------


def describe(model: Any) -> dict[str, Any]:
    """The description that builds a network of the same form again: ``hs.build(hs.describe(model), data, key=key)``.

    It tells of the layers and how they are joined, the head, the initial state, the embedding and the pooling. It says
    nothing of weights, nor of what they started from, and nothing that follows from the data, such as sizes of
    observations and their units. A network that no description builds is an error that says why.
    """
    shape = _shape(model)
    if shape == TRANSLATOR:
        return _translator_told(model)
    body = model.cell if shape == "rnn" else model.body
    reader = model.encoder if shape == "rnn" else model.reader
    described = {"model": shape, **_body_told(body), "head": _head_told(model.head)}
    if shape == "rnn":
        described["initial"] = "zero" if model.start is None else "learned"
        for name, drop in (("input_dropout", model.drop_input), ("output_dropout", model.drop_output)):
            described |= {name: drop.rate} if drop is not None else {}
    if shape == "summary":
        described["pooling"] = registered_name(type(model.pooling)).removesuffix("-pooling")
    if isinstance(reader, Embedding):
        described["embedding"] = reader.encoded_size
    elif reader is None and shape != "rnn":
        raise _undescribed(
            model, "it has no reader: it takes numbers as they are, where a description standardises them"
        )
    return described


def _translator_told(model: Any) -> dict[str, Any]:
    encoder, decoder = model.reader, model.decoder.encoder
    sizes = {part.encoded_size for part in (encoder, decoder) if isinstance(part, Embedding)}
    if encoder is None or len(sizes) > 1 or model.decoder.start is not None:
        raise _undescribed(
            model, "its reader, its embeddings or its decoder's start are not as a description makes them"
        )
    described = {
        "model": TRANSLATOR,
        "encoder": _body_told(model.encoder),
        "decoder": _body_told(model.decoder.cell),
        "head": _head_told(model.decoder.head),
        "context": model.context,
        "stop": model.stop,
    }
    return {**described, **({"embedding": sizes.pop()} if sizes else {})}


def _shape(model: Any) -> str:
    try:
        name = registered_name(type(model))
    except RegistryError:
        name = ""
    if name not in SHAPES:
        raise _undescribed(model, f"descriptions are of {', '.join(SHAPES)}")
    return name


def _body_told(body: Any) -> dict[str, Any]:
    if not isinstance(body, Stack):
        return {"layers": [_layer_told(body)]}
    switched = {
        "residual": body.residual,
        "norm": body.norms is not None,
        "dropout": 0.0 if body.drop is None else body.drop.rate,
        "softmax": body.softmax,
        "feedforward": body.feedforward,
    }
    layers = [_layer_told(layer) for layer in body.cells]
    return {"layers": layers, **{name: value for name, value in switched.items() if value}}


def _layer_told(layer: Cell | Bidirectional) -> dict[str, Any]:
    if not isinstance(layer, Bidirectional):
        return _cell_told(layer)
    told, other = _cell_told(layer.forward), _cell_told(layer.backward)
    if told != other:
        raise _undescribed(layer, f"its two directions differ: {told} and {other}")
    return {**told, "bidirectional": True}


def _cell_told(cell: Cell) -> dict[str, Any]:
    """The name of a cell, its size, and those of its options that are not as they are by default."""
    kind = type(cell)
    try:
        name = registered_name(kind)
    except RegistryError as error:
        raise _undescribed(cell, str(error).rstrip(".")) from None
    if isinstance(cell, Stack) or not _has_sizes(kind):
        raise _undescribed(cell, "it is not made from an input size and a hidden size alone")
    taken = inspect.signature(kind.__init__).parameters
    told = {option: _plain(value) for option, value in cell.options().items() if value != taken[option].default}
    return {"cell": name, "hidden": cell.hidden_size, **told}


def _plain(value: Any) -> Any:
    """A value as it would be written."""
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _head_told(head: Head) -> str | dict[str, Any]:
    family, options = _family_told(head)
    return {"family": family, **options} if options else family


def _family_told(head: Head) -> tuple[str, dict[str, Any]]:
    if isinstance(head, Mixture):
        family, options = _family_told(head.family)
        return f"mixture-{family}", {"components": head.components, **options}
    if isinstance(head, Columns):
        return "columns", _columns_told(head)
    options = {
        "covariance": getattr(head, "covariance", "diagonal"),
        "dispersion": getattr(head, "dispersion", "constant"),
    }
    usual = {"covariance": "diagonal", "dispersion": "constant"}
    if isinstance(head, NADE):
        options, usual = {"units": head.reading.shape[1]}, {"units": 64}
    if isinstance(head, Subset):
        options = {"units": head.reading.shape[1], "most": head.most}
        usual = {"units": 64, "most": None}
    told = {name: value for name, value in options.items() if value != usual[name]}
    return registered_name(type(head)).removesuffix("-head"), told


def _columns_told(head: Columns) -> dict[str, Any]:
    """What the heads of all columns have in common; those that the data would not give are no description's."""
    told = [_family_told(family) for family in head.families]
    usual = ("categorical", "bernoulli", "negative-binomial", "gaussian")
    dispersions = {vars(family)["dispersion"] for family in head.families if "dispersion" in vars(family)}
    if any(family not in usual or "covariance" in options for family, options in told) or len(dispersions) > 1:
        raise _undescribed(head, "its columns have other heads than the data would give them")
    return {"dispersion": "state"} if "state" in dispersions else {}


def _undescribed(what: Any, reason: str) -> HiddenStateError:
    return HiddenStateError(f"{name_of(what)} cannot be described: {reason}.")
