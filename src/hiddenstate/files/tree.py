"""A model as JSON and named arrays, and back.

Plain values stand for themselves in the JSON; everything else is an object with one tag:

    {"class": name, "fields": {...}}                      a registered module, frozen dataclass or named tuple;
                                                          a field that has a default may be left out
    {"array": name, "dtype": ..., "shape": [...]}         a tensor of the file, to be a JAX array
    {"numpy": name, "dtype": ..., "shape": [...]}         the same, to be a NumPy array
    {"key": name, ..., "impl": ...}                       the same, the raw numbers of a random key
    {"float": "0x1.8p+1"}                                 every bit of a number, also "inf" and "nan"
    {"tuple": [...]}  {"list": [...]}  {"dict": [[key, value], ...]}
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import equinox as eqx
import jax
import numpy as np

from hiddenstate.core import (
    Column,
    FileError,
    Frozen,
    RegistryError,
    Schema,
    register,
    registered_class,
    registered_name,
)
from hiddenstate.core.storage import DTYPES

for _name, _class in {"frozen": Frozen, "schema": Schema, "column": Column}.items():
    register(_name)(_class)

_DEEP = 100
"""No model is nested deeper than this; a file that is was not written by us."""


# -- writing -------------------------------------------------------------------------------------------------


def encode(value: Any, arrays: dict[str, np.ndarray], path: tuple[str, ...] = ()) -> Any:
    """`value` as JSON; its arrays are put into `arrays` under the names of their places."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        if type(value) not in (type(None), bool, int, str):
            raise _unstorable(value, path)
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, jax.Array | np.ndarray):
        return _encode_array(value, arrays, path)
    if _is_record(type(value)):
        fields = {name: encode(getattr(value, name), arrays, (*path, name)) for name in _fields(type(value))}
        try:
            return {"class": registered_name(type(value)), "fields": fields}
        except RegistryError as error:
            raise FileError(f"{_place(path)} cannot be saved: {error}") from None
    if type(value) in (tuple, list):
        return {type(value).__name__: [encode(v, arrays, (*path, str(i))) for i, v in enumerate(value)]}
    if type(value) is dict and all(type(key) is str for key in value):
        return {"dict": [[k, encode(v, arrays, (*path, quote(k, safe="")))] for k, v in value.items()]}
    raise _unstorable(value, path)


def _encode_array(value: Any, arrays: dict[str, np.ndarray], path: tuple[str, ...]) -> dict[str, Any]:
    name = "/".join(path)
    tag, extra = "numpy" if isinstance(value, np.ndarray) else "array", {}
    if tag == "array" and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        tag, extra = "key", {"impl": str(jax.random.key_impl(value))}
        value = jax.random.key_data(value)
    array = np.asarray(value)
    if array.dtype.name not in DTYPES:
        raise FileError(f"{_place(path)} is an array of {array.dtype}; a model file holds {', '.join(sorted(DTYPES))}.")
    arrays[name] = array
    return {tag: name, "dtype": array.dtype.name, "shape": list(array.shape), **extra}


def _unstorable(value: Any, path: tuple[str, ...]) -> FileError:
    said = repr(value)
    return FileError(
        f"{_place(path)} is {said if len(said) < 80 else said[:77] + '...'} of type {type(value).__name__}, "
        "which a model file cannot hold. It holds arrays, numbers, text, None, tuples, lists, dicts with "
        "text as keys, and registered classes; keep the name of a function in place of the function."
    )


def _place(path: tuple[str, ...]) -> str:
    return f"the field {'.'.join(path)!r} of the model" if path else "the model"


# -- reading -------------------------------------------------------------------------------------------------


class Decoder:
    """Builds values out of a file's JSON and arrays, without calling anything that the file names."""

    def __init__(self, arrays: Mapping[str, np.ndarray], convert: Callable[[str, np.ndarray], jax.Array]):
        self.arrays = arrays
        self.convert = convert
        self.used: set[str] = set()

    def decode(self, node: Any, depth: int = 0) -> Any:
        """The value that `node` describes, or a FileError that says what is wrong with it."""
        if depth > _DEEP:
            raise FileError(f"it is nested more than {_DEEP} deep.")
        if node is None or isinstance(node, bool | int | str):
            return node
        if not isinstance(node, dict):
            raise FileError(f"{_short(node)} has no tag.")
        tags = [tag for tag in ("class", "array", "numpy", "key", "float", "tuple", "list", "dict") if tag in node]
        if len(tags) != 1:
            raise FileError(f"{_short(node)} must have one known tag.")
        return getattr(self, f"_{tags[0]}")(node, depth)

    def _class(self, node: dict[str, Any], depth: int) -> Any:
        name, described = node["class"], node.get("fields")
        if not isinstance(name, str) or not isinstance(described, dict) or len(node) != 2:
            raise FileError(f"{_short(node)} is no description of an object.")
        try:
            cls = registered_class(name)
        except RegistryError:
            raise FileError(
                f"it holds a {name!r}, and no class is registered under that name: import the module that "
                "defines it first, or upgrade hiddenstate."
            ) from None
        if not _is_record(cls):
            raise FileError(f"it holds a {name!r}, which is no class that a file can describe.")
        expected, values = _fields(cls), _defaults(cls)
        if set(described) - set(expected) or set(expected) - set(described) - set(values):
            raise FileError(f"{name!r} has the fields {_listed(expected)}, but the file gives {_listed(described)}.")
        values |= {field: self.decode(described[field], depth + 1) for field in expected if field in described}
        return _assemble(cls, {field: values[field] for field in expected})

    def _tensor(self, node: dict[str, Any], tag: str, size: int = 3) -> tuple[str, np.ndarray]:
        name = node[tag]
        if not isinstance(name, str) or name not in self.arrays or len(node) != size:
            raise FileError(f"{_short(node)} refers to an array that is not there.")
        array = self.arrays[name]
        if node.get("dtype") != array.dtype.name or node.get("shape") != list(array.shape):
            raise FileError(
                f"the array {name!r} should be {node.get('dtype')} of shape {node.get('shape')}, but is "
                f"{array.dtype.name} of shape {list(array.shape)}."
            )
        if name in self.used:
            raise FileError(f"the array {name!r} is used twice.")
        self.used.add(name)
        return name, array

    def _array(self, node: dict[str, Any], depth: int) -> jax.Array:
        return self.convert(*self._tensor(node, "array"))

    def _numpy(self, node: dict[str, Any], depth: int) -> np.ndarray:
        return self._tensor(node, "numpy")[1]

    def _key(self, node: dict[str, Any], depth: int) -> jax.Array:
        name, data = self._tensor(node, "key", 4)
        try:
            return jax.random.wrap_key_data(jax.numpy.asarray(data), impl=node.get("impl"))
        except (TypeError, ValueError) as error:
            raise FileError(f"{name!r} is no random key: {error}.") from None

    def _float(self, node: dict[str, Any], depth: int) -> float:
        try:
            return float.fromhex(node["float"])
        except (TypeError, ValueError, OverflowError):
            raise FileError(f"{_short(node)} is no number.") from None

    def _tuple(self, node: dict[str, Any], depth: int) -> tuple:
        return tuple(self._items(node, "tuple", depth))

    def _list(self, node: dict[str, Any], depth: int) -> list:
        return self._items(node, "list", depth)

    def _dict(self, node: dict[str, Any], depth: int) -> dict[str, Any]:
        pairs = node["dict"]
        if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
            raise FileError(f"{_short(node)} is no dict.")
        return {key: self.decode(value, depth + 1) for key, value in pairs}

    def _items(self, node: dict[str, Any], tag: str, depth: int) -> list:
        if not isinstance(node[tag], list):
            raise FileError(f"{_short(node)} is no {tag}.")
        return [self.decode(item, depth + 1) for item in node[tag]]


def _assemble(cls: type, values: dict[str, Any]) -> Any:
    """An object of `cls` with these fields; none of the class's own code runs."""
    try:
        if issubclass(cls, tuple):
            return tuple.__new__(cls, values.values())
        made = object.__new__(cls)
    except TypeError as error:
        raise FileError(f"{cls.__qualname__} cannot be built: {error}.") from None
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


# -- both ----------------------------------------------------------------------------------------------------


def _is_record(cls: type) -> bool:
    """Whether objects of `cls` are their fields and nothing else: modules, dataclasses and named tuples."""
    if issubclass(cls, tuple):
        return hasattr(cls, "_fields")
    return issubclass(cls, eqx.Module) or dataclasses.is_dataclass(cls)


def _fields(cls: type) -> tuple[str, ...]:
    if issubclass(cls, tuple):
        return cls._fields  # pyright: ignore[reportAttributeAccessIssue]
    return tuple(field.name for field in dataclasses.fields(cls))


def _defaults(cls: type) -> dict[str, Any]:
    """What the fields are that a file leaves out: those that came after it was written have a default."""
    if issubclass(cls, tuple):
        return dict(cls._field_defaults)  # pyright: ignore[reportAttributeAccessIssue]
    fields = dataclasses.fields(cls)
    return {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)


def _listed(names: Any) -> str:
    return ", ".join(sorted(names)) or "none"


def _short(node: Any) -> str:
    said = repr(node)
    return said if len(said) < 60 else said[:57] + "..."
