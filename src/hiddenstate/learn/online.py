"""Learning while data arrive: chunk by chunk, in constant memory."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution

from hiddenstate._types import Element, State
from hiddenstate.core import (
    Arrays,
    DataError,
    Frozen,
    HiddenStateError,
    Prior,
    SequenceModel,
    Sequences,
    dtype_of,
    register,
)
from hiddenstate.inference import refuse_impossible, sequences_for
from hiddenstate.learn import statistics as batch
from hiddenstate.learn.em import variance_floor
from hiddenstate.strategies import Auto, Strategy

DECAY = 0.8
"""Without a rate, step number t replaces the share t ** -DECAY of what is remembered: the memory grows as t ** DECAY,
long enough to settle and short enough to forget what a poor start made of the first steps (Cappé 2011)."""

TAIL = 64
"""So many steps are kept of a chunk, to find the hidden state in which the next one begins."""

_OWN = ("expected_statistics", "variational_statistics", "maximise", "restart", "reseed")
"""What is not passed on: `hs.EM` learns the model inside."""

_MOST = np.iinfo(np.int32).max


@register("online")
class Online(SequenceModel):
    """A model that learns as data arrive, made and moved on by `hs.update`.

    It scores, forecasts, streams and saves like the `model` inside. Beside that it keeps running means of the expected
    statistics (online EM: Cappé 2011), whose size does not depend on how much has been seen, and the last few steps.

    `rate` is the share of what is remembered that one step replaces: 0.001 keeps a memory of about 1000 steps, and so
    follows data that change. Without it the memory grows with what was seen, and the model settles. The parameters stay
    as they are until `wait` steps have been seen. `pseudocount`, `variance_floor` and `only` are those of `hs.EM`.
    """

    model: Any
    memory: tuple[Frozen, ...]
    tail: tuple[Frozen, ...]
    seen: Any
    rate: float | None = eqx.field(static=True)
    wait: int = eqx.field(static=True)
    pseudocount: float = eqx.field(static=True)
    variance_floor: float | None = eqx.field(static=True)
    only: tuple[str, ...] | None = eqx.field(static=True)

    def __init__(
        self,
        model: SequenceModel,
        *,
        rate: float | None = None,
        wait: int = 100,
        pseudocount: float = 0.0,
        variance_floor: float | None = None,
        only: tuple[str, ...] | None = None,
    ):
        if not isinstance(model, SequenceModel):
            raise HiddenStateError(
                f"the model is a {type(model).__name__}; it must be a SequenceModel, such as hs.HMM."
            )
        batch.check_learns_by_em(model, "hs.update")
        if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1):
            raise HiddenStateError(f"rate is {rate!r}; it must be a number above 0 and at most 1, or None.")
        if isinstance(wait, bool) or not isinstance(wait, int) or wait < 0:
            raise HiddenStateError(f"wait is {wait!r}; it must be a whole number of steps from 0 on.")
        self.model = model
        self.memory, self.tail = (), ()
        self.seen = jnp.zeros((), jnp.int32)
        self.rate = None if rate is None else float(rate)
        self.wait, self.pseudocount, self.variance_floor = wait, float(pseudocount), variance_floor
        self.only = (only,) if isinstance(only, str) else None if only is None else tuple(only)
        self.schema, self.inputs = model.schema, model.inputs

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "model" or name in _OWN:
            raise AttributeError(name)
        return getattr(self.model, name)

    def initial(self) -> State:
        """That of the model inside."""
        return self.model.initial()

    def prepare(self, x: Any, u: Any = None) -> Element:
        """That of the model inside."""
        return self.model.prepare(x, u)

    def step(self, state: State, element: Element) -> State:
        """That of the model inside."""
        return self.model.step(state, element)

    def readout(self, state: State, u: Any = None) -> Distribution:
        """That of the model inside."""
        return self.model.readout(state, u)


def update(
    model: SequenceModel, chunk: Any, *, continues: bool = False, strategy: Strategy = Auto(), **settings: Any
) -> Online:
    """The model after it has learned from one more chunk of data, in time and memory that do not grow.

    What comes out is a model that also remembers what it has learned from: give it to `update` with the next chunk.
    ``settings`` are those of `hs.Online`, for the first call.

    >>> model = hs.update(model, first_chunk)  # doctest: +SKIP
    >>> model = hs.update(model, second_chunk)  # doctest: +SKIP
    >>> hs.log_prob(model, data)  # doctest: +SKIP

    A chunk holds whole sequences; with ``continues=True`` it is one sequence that goes on where the last chunk
    ended, so that its hidden states follow from those before it: the last 64 steps are read again for that. Chunks of
    equal length share a compiled program.
    """
    if isinstance(model, Online) and settings:
        raise HiddenStateError(
            f"{', '.join(settings)} can be set in the first update only, or by hs.Online(model, ...)."
        )
    online = model if isinstance(model, Online) else Online(model, **settings)
    inner = online.model
    data = sequences_for(inner, chunk)
    if continues and len(data) != 1:
        raise DataError(f"the chunk holds {len(data)} sequences; with continues=True it must be one.")
    longer = _joined(online, data) if continues and online.tail else data
    stacked = batch.stack([inner])
    found, totals = batch.expect(stacked, longer, strategy)
    if not np.isfinite(totals).all():
        refuse_impossible(inner, longer, strategy)
        raise HiddenStateError(f"the log-probability of the chunk is {totals[0]}; it must be finite.")
    if longer is not data:  # sums over the tail alone were taken before
        before, _ = batch.expect(stacked, longer.window(0, longer.length - data.length), strategy)
        found = jax.tree.map(jnp.subtract, found, before)
    return _learned(online, stacked, found, data)


def _learned(online: Online, stacked: Any, found: Any, data: Sequences) -> Online:
    """The memory blended with new statistics, and the model that is best for it."""
    steps, seen = data.steps, int(online.seen)
    leaves, tree = jax.tree.flatten(found)
    new = jax.tree.unflatten(tree, [leaf / steps for leaf in leaves])
    kept = new
    if online.memory:
        old = jax.tree.unflatten(tree, [frozen.value for frozen in online.memory])
        kept = batch.blend(old, new, _share(online.rate, seen, steps), 1.0)
    total = min(seen + steps, int(_MOST))
    inner = online.model
    if total >= online.wait:
        floor = variance_floor(data) if online.variance_floor is None else online.variance_floor
        dtype = dtype_of(inner)
        prior = Prior(jnp.asarray(online.pseudocount, dtype), jnp.asarray(floor, dtype))
        whole = jax.tree.map(lambda leaf: leaf * total, kept)
        inner = batch.pick(batch.maximise(stacked, whole, prior, online.only), 0)
    memory = tuple(Frozen(leaf) for leaf in jax.tree.leaves(kept))
    after = _replaced(online, model=inner, memory=memory, seen=jnp.asarray(total, jnp.int32))
    return _replaced(after, tail=_tail(data) if len(data) == 1 else ())


def _share(rate: float | None, seen: int, steps: int) -> float:
    """How much of the memory a chunk replaces: what its steps would replace one by one."""
    if rate is not None:
        return 1 - (1 - rate) ** steps
    each = np.arange(seen + 1, seen + steps + 1, dtype=np.float64) ** -DECAY
    return float(1 - np.exp(np.log1p(-np.minimum(each, 1 - 1e-12)).sum()))


def _tail(data: Sequences) -> tuple[Frozen, ...]:
    """The last steps as arrays: values, what of them is observed, and inputs where there are any."""
    arrays: Arrays = data.window(max(0, data.length - TAIL), data.length).arrays()
    observed = np.ones(arrays.values.shape, bool) if arrays.observed is None else arrays.observed
    parts = [arrays.values, observed] + ([] if arrays.inputs is None else [arrays.inputs])
    return tuple(Frozen(jnp.asarray(part[0])) for part in parts)


def _joined(online: Online, data: Sequences) -> Sequences:
    """The chunk with the last steps before it."""
    values, observed, *inputs = (np.asarray(part.value) for part in online.tail)
    seen = np.ones(data.shape, bool) if data.observed is None else data.observed
    missing = ~np.concatenate([observed, seen[0]])
    known = None
    if data.inputs is not None and inputs:
        known = np.concatenate([inputs[0], data.inputs[0]])
    return Sequences.of(
        [np.concatenate([values.astype(data.values.dtype), data[0]])],
        missing=[missing] if missing.any() else None,
        inputs=None if known is None else [known],
        names=data.names,
        schema=data.schema,
    )


def _replaced(online: Online, **parts: Any) -> Online:
    names = list(parts)
    return eqx.tree_at(
        lambda o: [getattr(o, name) for name in names],
        online,
        list(parts.values()),
        is_leaf=lambda node: isinstance(node, tuple) and not node,
    )
