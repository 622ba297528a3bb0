"""A run on disk: written as it goes, so that it can be taken up again after any interruption."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import FileError, Pairs, Sequences
from hiddenstate.core.storage import VERSION, read_tensors, remove_leftovers, write_tensors
from hiddenstate.learn.digest import digest_of, is_key, plain
from hiddenstate.learn.history import History
from hiddenstate.learn.minibatches import Place
from hiddenstate.learn.standing import Standing, Verdict
from hiddenstate.learn.stopping import Stopping
from hiddenstate.learn.updates import Leaves

FORMAT = 1
_FLOATS = ("best", "reference")
_LEAVES = ("learned", "measured", "best", "optimiser")


class Checkpoint:
    """The file of one run; without a path it does nothing.

    `identity` says which run it is: digests of the model, data and key, and the settings. A file of another
    run is refused, never overwritten.
    """

    def __init__(self, path: Path | None, identity: Mapping[str, str], every: float):
        self.path, self.identity, self.every = path, dict(identity), every
        self._saved = time.monotonic()

    def restore(self, start: Standing, state: Leaves) -> tuple[Standing, History] | None:
        """Where the run was; None if it has not begun.

        `start` and the leaves of the `state` of one sequence say what to expect.
        """
        if self.path is None:
            return None
        remove_leftovers(self.path)
        if not self.path.exists():
            return None
        try:
            arrays, header = read_tensors(self.path)
        except FileError as error:
            raise FileError(f"{error} It cannot be continued: delete it to start the run again.") from None
        self._check(header)
        try:
            return _unpack(arrays, header["standing"], start, state)
        except (FileError, KeyError, TypeError, ValueError) as error:
            raise FileError(
                f"the checkpoint {self.path} is damaged ({error}); delete it to start the run again."
            ) from None

    def save(self, standing: Standing, history: History) -> None:
        """Write where the run is, whole or not at all."""
        if self.path is None:
            return
        arrays, described = _pack(standing, history)
        header = {"format": FORMAT, "library": VERSION, "kind": "checkpoint"}
        write_tensors(self.path, arrays, {**header, "identity": self.identity, "standing": described})
        self._saved = time.monotonic()

    def save_if_due(self, standing: Standing, history: History) -> None:
        """Write it if the last time was long enough ago."""
        if self.path is not None and time.monotonic() - self._saved >= self.every:
            self.save(standing, history)

    def _check(self, header: Mapping[str, Any]) -> None:
        if header.get("kind") != "checkpoint":
            raise FileError(f"{self.path} holds no checkpoint; give another path.")
        if header.get("format") != FORMAT:
            raise FileError(
                f"the checkpoint {self.path} has format {header.get('format')}; this version reads {FORMAT}. "
                "Continue with the version that wrote it, or delete it to start the run again."
            )
        then = header.get("identity")
        then = then if isinstance(then, dict) else {}
        differences = [_difference(n, then.get(n), now) for n, now in self.identity.items() if then.get(n) != now]
        if differences:
            raise FileError(
                f"{self.path} is the checkpoint of another run: {'; '.join(differences)}. Give the same "
                "arguments to continue it, or another path to start anew."
            )


def identity_of(
    model: Any,
    data: Sequences | Pairs,
    validation: Sequences | Pairs | None,
    key: PRNGKeyArray,
    settings: Mapping[str, str],
) -> dict[str, str]:
    """What makes a run this run and no other."""
    return {
        "the model": _model_digest(model),
        "the data": _data_digest(data),
        "the validation data": "none" if validation is None else _data_digest(validation),
        "the key": digest_of([key]),
        **settings,
    }


def _model_digest(model: Any) -> str:
    leaves, structure = jax.tree.flatten(model)
    return digest_of([*leaves, str(structure)])


def _data_digest(data: Sequences | Pairs) -> str:
    both = (data.sources, data.targets) if isinstance(data, Pairs) else (data,)
    return digest_of([part for d in both for part in (d.values, d.lengths, d.inputs, d.observed, d.context)])


def _difference(name: str, then: str | None, now: str) -> str:
    if name.startswith("the ") or str(then).startswith("sha256:") or now.startswith("sha256:"):
        return f"{name} {'differ' if name.endswith('data') else 'differs'}"
    return f"{name} was {then} and is {now}"


# -- a standing as arrays and JSON ---------------------------------------------------------------------------


def _pack(standing: Standing, history: History) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    arrays: dict[str, np.ndarray] = {}
    for name in (*_LEAVES, "carried"):
        for i, leaf in enumerate(getattr(standing, name) or ()):
            arrays[f"{name}/{i:05d}"] = plain(leaf)
    kept = history.arrays(standing.step, standing.stopping.evaluated)
    arrays.update({f"history/{name}": array for name, array in kept.items()})
    stopping = {name: v.hex() if name in _FLOATS else v for name, v in asdict(standing.stopping).items()}
    described = {
        "done": list(standing.done),
        "step": standing.step,
        "carries": standing.carried is not None,
        "window": [standing.window[0].hex(), standing.window[1]],
        "stopping": stopping,
        "verdict": None if standing.verdict is None else asdict(standing.verdict),
    }
    return arrays, described


def _unpack(
    arrays: Mapping[str, np.ndarray], described: Mapping[str, Any], start: Standing, state: Leaves
) -> tuple[Standing, History]:
    leaves = {name: _restored(arrays, name, getattr(start, name), lambda like: like.shape) for name in _LEAVES}
    carried = _restored(arrays, "carried", state, None) if described["carries"] else None
    stopping: dict[str, Any] = {n: float.fromhex(v) if n in _FLOATS else v for n, v in described["stopping"].items()}
    verdict = described["verdict"]
    total, steps = described["window"]
    kept = {name.removeprefix("history/"): a for name, a in arrays.items() if name.startswith("history/")}
    history = History.restore(kept, described["step"])
    standing = Standing(
        **leaves,
        carried=carried,
        done=Place(*described["done"]),
        step=described["step"],
        window=(float.fromhex(total), steps),
        stopping=Stopping(**stopping),
        verdict=None if verdict is None else Verdict(**verdict),
    )
    return standing, history


def _restored(
    arrays: Mapping[str, np.ndarray], name: str, like: Leaves, shape: Callable[[Any], tuple[int, ...]] | None
) -> Leaves:
    """The leaves of that name, of the types (and shapes) of those in `like`."""
    stored = [arrays[key] for key in sorted(arrays) if key.startswith(f"{name}/")]
    if len(stored) != len(like):
        raise FileError(f"it holds {len(stored)} arrays of {name}, not {len(like)}.")
    for array, leaf in zip(stored, like, strict=True):
        expected = plain(leaf)
        if array.dtype != expected.dtype or (shape is not None and array.shape != expected.shape):
            raise FileError(
                f"an array of {name} is {array.dtype} {array.shape}, not {expected.dtype} {expected.shape}."
            )
    return [_alive(array, leaf) for array, leaf in zip(stored, like, strict=True)]


def _alive(array: np.ndarray, like: Any) -> Any:
    if is_key(like):
        return jax.random.wrap_key_data(jnp.asarray(array), impl=jax.random.key_impl(like))
    return jnp.asarray(array)
