"""Descriptions of models as people write them: in YAML, in TOML or as a dict. Every key and every value is checked."""

import inspect
import math
import tomllib
import types
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

import yaml

from hiddenstate.core.errors import FileError, HiddenStateError

Described: TypeAlias = Mapping[str, Any] | str | PathLike[str]
"""A description, or the path of a file that holds one."""

SUFFIXES = (".yaml", ".yml", ".toml")
"""How the names of files end that hold a description."""

_YAML_TYPES = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}


class Description(NamedTuple):
    """What was written, and where it stands, for messages."""

    content: dict[str, Any]
    place: str


def is_description(given: Any) -> bool:
    """Whether this is a description or the path of one, not the name of a recipe."""
    return isinstance(given, Mapping | PathLike) or (isinstance(given, str) and Path(given).suffix in SUFFIXES)


def read_description(given: Described) -> Description:
    """A description from a mapping or from a YAML or TOML file."""
    if isinstance(given, Mapping):
        return Description(_mapping(dict(given), "the description"), "the description")
    path = Path(given)
    if path.suffix not in SUFFIXES:
        raise FileError(f"{path} is no description of a model: its name must end in {', '.join(SUFFIXES)}.")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise FileError(f"cannot read {path}: {reason}.") from None
    try:
        content = tomllib.loads(text) if path.suffix == ".toml" else yaml.load(text, _Strict)
    except (tomllib.TOMLDecodeError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise FileError(f"{path} cannot be read as {path.suffix[1:]}: {' '.join(str(error).split())}.") from None
    return Description(_mapping(content, str(path)), str(path))


class _Strict(yaml.SafeLoader):
    """Plain values only, and no key twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for number, (key, (written, _)) in enumerate(zip(keys, node.value, strict=True)):
            if key in keys[:number]:
                raise yaml.YAMLError(
                    f"the key {key!r} stands twice, the second time in line {written.start_mark.line + 1}"
                )
        return super().construct_mapping(node, deep)


def _mapping(content: Any, place: str) -> dict[str, Any]:
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise HiddenStateError(f"{place} holds {_short(content)}; it must be made of keys and values, as layers: 2 is.")
    return content


def checked(content: Any, known: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The values under known keys, each of the type that `known` has for it; anything else is an error."""
    for key in _mapping(content, place):
        if key not in known:
            raise HiddenStateError(f"{place} has the key {key!r}, which is unknown there; known are {_listed(known)}.")
    return {key: fitted(value, known[key], f"{key} of {place}") for key, value in content.items()}


def fitted(value: Any, annotation: Any, name: str) -> Any:
    """The value as the annotation has it, such as a number for text that YAML did not take for one."""
    ways = [way for way in _ways(annotation) if _words(way) is not None]
    for way in ways:
        found = _as(value, way)
        if found is not _UNFIT:
            return found
    if not ways:
        return value
    due = " or ".join(dict.fromkeys(word for word in map(_words, ways) if word))
    raise HiddenStateError(f"{name} is {_short(value)}; it must be {due}.")


def options_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The keyword options of a function or constructor that can be written down, with their annotations."""
    taken = inspect.signature(function).parameters.values()
    return {p.name: p.annotation for p in taken if p.kind is p.KEYWORD_ONLY and can_be_written(p.annotation)}


def can_be_written(annotation: Any) -> bool:
    """Whether some value of this type can stand in a description."""
    return annotation is inspect.Parameter.empty or any(_words(way) for way in _ways(annotation))


_UNFIT = object()


def _ways(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(way for inner in get_args(annotation) for way in _ways(inner))
    return (annotation,)


def _words(way: Any) -> str | None:
    """What a value of this type is called, None where it cannot be written."""
    if way is types.NoneType:
        return ""
    if get_origin(way) is Literal:
        return f"one of {_listed(map(str, get_args(way)))}"
    if get_origin(way) in (tuple, list, Sequence):
        return f"a list of {_YAML_TYPES.get(get_args(way)[0], 'a value').removeprefix('a ')}s"
    if get_origin(way) in (dict, Mapping) or way is dict:
        return "keys and values"
    return _YAML_TYPES.get(way)


def _as(value: Any, way: Any) -> Any:
    """The value as one of that type, or `_UNFIT`."""
    origin = get_origin(way)
    if origin is Literal:
        return value if any(type(value) is type(choice) and value == choice for choice in get_args(way)) else _UNFIT
    if origin in (tuple, list, Sequence):
        return _as_list(value, way)
    if origin in (dict, Mapping) or way is dict:
        return value if isinstance(value, dict) else _UNFIT
    if way is float:
        return _as_number(value)
    if way is Any:
        return value
    return value if type(value) is way else _UNFIT


def _as_list(value: Any, way: Any) -> Any:
    """A list, or a tuple of as many values as the type asks for."""
    inner = get_args(way)
    pair = get_origin(way) is tuple and ... not in inner
    if not isinstance(value, list | tuple) or (pair and len(value) != len(inner)):
        return _UNFIT
    items = [_as(item, inner[0]) for item in value]
    if any(item is _UNFIT for item in items):
        return _UNFIT
    return tuple(items) if get_origin(way) is tuple else items


def _as_number(value: Any) -> Any:
    """A finite number; 1e-3 without a point is text to YAML."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return _UNFIT
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return _UNFIT
    return number if math.isfinite(number) else _UNFIT


def _listed(names: Any) -> str:
    return ", ".join(names)


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) < 60 else said[:57] + "..."
