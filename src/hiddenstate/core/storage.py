"""Arrays and a JSON header in one safetensors file, written whole or not at all, and without code."""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from socket import gethostname
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from hiddenstate.core.errors import FileError

VERSION = version("hiddenstate")
"""The version of the library, for the headers of files."""

_HEADER = "hiddenstate"
_DIGEST = "sha256"
_COMPLEX = "#complex"
_SIZES = {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (16, 32, 64), "complex": (64, 128)}
DTYPES = frozenset(["bool", *(f"{kind}{size}" for kind, sizes in _SIZES.items() for size in sizes)])
"""The types of arrays that a file can hold."""


def write_tensors(path: str | Path, arrays: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    """Write arrays and header to `path` atomically: a reader sees the old file or the new one, never a part.

    The same arrays and header give the same bytes. A digest of both goes with them, so that damage is
    noticed.
    """
    tensors = {}
    for name, array in arrays.items():
        array = np.asarray(array, order="C")
        if array.dtype.name not in DTYPES:
            raise FileError(f"{name} is an array of {array.dtype}; a file holds {', '.join(sorted(DTYPES))}.")
        if np.iscomplexobj(array):
            name, array = name + _COMPLEX, np.stack([np.real(array), np.imag(array)], axis=-1)
        tensors[name] = array
    sealed = {**header, _DIGEST: _digest(tensors, dict(header))}
    write_bytes(path, to_bytes(tensors, {_HEADER: _text(sealed)}))


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file atomically: into a neighbour first, flushed to the disk, then renamed over `path`.

    A process killed in between leaves the neighbour; the next one that writes `path` removes it.
    """
    path = Path(path)
    try:
        remove_leftovers(path)
        prefix = f"{_neighbour(path)}{os.getpid()}."
        handle, temporary = tempfile.mkstemp(prefix=prefix, suffix=".tmp", dir=path.parent)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror}.") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise FileError(f"cannot write {path}: {error.strerror or error}.") from None
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def remove_leftovers(path: str | Path) -> None:
    """Delete the unfinished neighbours of `path` that processes of this machine left when they were killed."""
    path = Path(path)
    unfinished = re.compile(re.escape(_neighbour(path)) + r"(\d+)\.\w+\.tmp")
    for name in os.listdir(path.parent) if path.parent.is_dir() else ():
        writer = unfinished.fullmatch(name)
        if writer is not None and not _is_alive(int(writer[1])):
            (path.parent / name).unlink(missing_ok=True)


def _neighbour(path: Path) -> str:
    """How the names of unfinished files for `path` begin on this machine; the process's number follows."""
    return f".{path.name[:100]}.{re.sub('[^A-Za-z0-9]', '_', gethostname())[:40]}-"


def _is_alive(process: int) -> bool:
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def read_tensors(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the header that `write_tensors` wrote."""
    path = Path(path)
    arrays, metadata = _read(path)
    if _HEADER not in metadata:
        raise FileError(f"{path} is a safetensors file, but not one of hiddenstate's.")
    try:
        header = json.loads(metadata[_HEADER])
    except (ValueError, RecursionError) as error:
        raise FileError(f"the header of {path} is damaged: {error}.") from None
    if not isinstance(header, dict):
        raise FileError(f"the header of {path} is damaged: it is no JSON object.")
    if header.pop(_DIGEST, None) != _digest(arrays, header):
        raise FileError(f"{path} is damaged: its content does not have the digest that was written with it.")
    return {name.removesuffix(_COMPLEX): _joined(name, array, path) for name, array in arrays.items()}, header


def read_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of any safetensors file, whoever wrote it."""
    return _read(Path(path))[0]


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    if path.is_dir():
        raise FileError(f"{path} is a folder, not a file.")
    if not path.exists():
        raise FileError(f"there is no file {path}.")
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
            return arrays, file.metadata() or {}
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise FileError(f"{path} is no readable safetensors file, or is truncated: {error}.") from None


def _joined(name: str, array: np.ndarray, path: Path) -> np.ndarray:
    """A complex array out of its real and imaginary parts; any other array as it is."""
    if not name.endswith(_COMPLEX):
        return array
    if array.dtype not in (np.float32, np.float64) or array.shape[-1:] != (2,):
        raise FileError(f"{path} is damaged: {name} holds no complex numbers.")
    return np.ascontiguousarray(array).view(np.result_type(array.dtype, np.complex64))[..., 0]


def _digest(tensors: Mapping[str, np.ndarray], header: dict[str, Any]) -> str:
    digest = hashlib.sha256(_text(header).encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(_text([name, str(array.dtype), array.shape]).encode())
        digest.update(np.asarray(array, order="C").tobytes())
    return digest.hexdigest()


def _text(content: Any) -> str:
    return json.dumps(content, sort_keys=True, ensure_ascii=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
