"""Arrays and a JSON header in one safetensors file, written whole or not at all, read without running anything."""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from hiddenstate.core.errors import FileError

_HEADER = "hiddenstate"
_COMPLEX = "#complex"


def write_tensors(path: str | Path, arrays: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    """Write arrays and header to `path` atomically: a reader sees the old file or the new one, never a part.

    The same arrays and header give the same bytes.
    """
    tensors = {}
    for name, array in arrays.items():
        array = np.asarray(array)
        if np.iscomplexobj(array):
            name, array = name + _COMPLEX, np.stack([array.real, array.imag], axis=-1)
        tensors[name] = np.ascontiguousarray(array)
    metadata = {_HEADER: json.dumps(header, sort_keys=True, ensure_ascii=True)}
    write_bytes(path, to_bytes(tensors, metadata))


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file atomically: into a neighbour first, flushed to the disk, then renamed over `path`."""
    path = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent or ".")
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
        raise FileError(f"cannot write {path}: {error.strerror}.") from None
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_tensors(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the header that `write_tensors` wrote."""
    path = Path(path)
    if not path.exists():
        raise FileError(f"there is no file {path}.")
    if path.is_dir():
        raise FileError(f"{path} is a folder, not a file.")
    arrays = {}
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            for name in file.keys():  # noqa: SIM118 (safe_open is no mapping)
                arrays[name] = file.get_tensor(name)
    except (SafetensorError, OSError, ValueError) as error:
        raise FileError(f"{path} is no readable safetensors file, or is truncated: {error}.") from None
    if _HEADER not in metadata:
        raise FileError(f"{path} is a safetensors file, but not one of hiddenstate's.")
    try:
        header = json.loads(metadata[_HEADER])
    except json.JSONDecodeError as error:
        raise FileError(f"the header of {path} is damaged: {error}.") from None
    if not isinstance(header, dict):
        raise FileError(f"the header of {path} is damaged: it is no JSON object.")
    for name in [n for n in arrays if n.endswith(_COMPLEX)]:
        pair = arrays.pop(name)
        arrays[name.removesuffix(_COMPLEX)] = pair[..., 0] + 1j * pair[..., 1]
    return arrays, header


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
