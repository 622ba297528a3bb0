"""The compiled library: whether it is there, and how it runs."""

import importlib
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import NamedTuple

import jax

OFF, SET, THREADS = "HIDDENSTATE_NATIVE", "HIDDENSTATE_INSTRUCTIONS", "HIDDENSTATE_THREADS"
MEMORY, KEPT = "HIDDENSTATE_MEMORY", 512
"""So many megabytes of freed memory a process keeps for its next calls, unless the variable says another number."""

BUILD = "HIDDENSTATE_KERNELS"
"""The path of another build of the kernels, such as one with sanitizers."""


MOST_DIGITS = 6


class SettingError(ValueError):
    """A variable of the environment that says what kernels cannot do."""


class Availability(NamedTuple):
    """Whether kernels run, as its truth, and the sentence that says why or why not."""

    there: bool
    reason: str

    def __bool__(self) -> bool:
        return self.there


def available() -> Availability:
    """Whether the compiled kernels run in this process, and why not where they do not.

    Set ``HIDDENSTATE_NATIVE=0`` to do without them, ``HIDDENSTATE_INSTRUCTIONS`` to one of `instruction_sets` to run
    another than the best, ``HIDDENSTATE_THREADS`` to use fewer threads than XLA has. With kernels the process keeps up
    to 512 megabytes of memory that was freed, since clearing it for every call takes longer than many a kernel:
    ``HIDDENSTATE_MEMORY`` is another number of megabytes, 0 to leave that to the C library.

    >>> hs.native.available()  # doctest: +SKIP
    Availability(there=True, reason='compiled kernels for avx512.')
    """
    return _loaded()[1]


def instruction_sets() -> list[str]:
    """The instruction sets that kernels were built for and that this machine has, the best last."""
    module = _loaded()[0]
    return [] if module is None else module.instruction_sets()


def instruction_set() -> str | None:
    """The instruction set in use."""
    module = _loaded()[0]
    return None if module is None else module.instruction_set()


@contextmanager
def limited(*, instructions: str | None = None, threads: int | None = None) -> Iterator[None]:
    """Run kernels with another instruction set, or at most so many threads, for a while: for tests and measurements."""
    module = _loaded()[0]
    if module is None:
        raise RuntimeError(available().reason)
    before = module.instruction_set()
    _configure(module, instructions, threads)
    try:
        yield
    finally:
        _configure(module, before, _asked(THREADS, "threads to use") if threads is not None else None)


@cache
def _loaded() -> tuple[ModuleType | None, Availability]:
    wanted = os.environ.get(OFF, "1")
    if wanted not in ("0", "1"):
        raise SettingError(f"{OFF} is {wanted!r}; it must be 0, without compiled kernels, or 1.")
    if wanted == "0":
        return None, Availability(False, f"{OFF}=0 turns compiled kernels off.")
    try:
        _kernels = _imported(os.environ.get(BUILD))
    except ImportError as error:
        reason = (
            f"the compiled kernels are not there ({error}): no C++ compiler was found when hiddenstate was installed."
        )
        return None, Availability(False, reason)
    _configure(_kernels, os.environ.get(SET), _asked(THREADS, "threads to use, 0 for all that XLA has"))
    kept = _asked(MEMORY, "megabytes of freed memory to keep, 0 to leave that to the C library", KEPT)
    if kept:
        _kernels.keep_memory(kept)
    try:
        for name, handler in _kernels.handlers().items():
            jax.ffi.register_ffi_target(f"hiddenstate_{name}", handler, platform="cpu")
    except Exception as error:  # whatever XLA says of kernels that were compiled for another version of it
        words = " ".join(str(error).split())
        reason = f"the compiled kernels do not fit this jaxlib, install hiddenstate anew: {words}"
        return None, Availability(False, reason)
    return _kernels, Availability(True, f"compiled kernels for {_kernels.instruction_set()}.")


def _imported(path: str | None) -> ModuleType:
    if path is None:
        return importlib.import_module("hiddenstate.native._kernels")
    spec = importlib.util.spec_from_file_location("hiddenstate.native._kernels", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no compiled module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _configure(module: ModuleType, instructions: str | None, threads: int | None) -> None:
    if instructions is not None and not module.use_instruction_set(instructions):
        raise SettingError(f"{SET} is {instructions!r}; this machine has {', '.join(module.instruction_sets())}.")
    if threads is not None:
        module.limit_threads(threads)


def _asked(name: str, meaning: str, default: int = 0) -> int:
    asked = os.environ.get(name, str(default))
    if not asked.isdigit() or len(asked) > MOST_DIGITS:
        raise SettingError(f"{name} is {asked!r}; it must be a whole number: {meaning}.")
    return int(asked)
