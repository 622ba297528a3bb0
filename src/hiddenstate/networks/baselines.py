"""The trivial models that every other must beat, in the same form: a cell that remembers nothing or one observation."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from hiddenstate import heads
from hiddenstate._types import Array, Float, Num, PRNGKeyArray
from hiddenstate.cells import Cell
from hiddenstate.core import DataError, Frozen, Pairs, Sequences, dtype_of, recipe, register
from hiddenstate.networks.build import answers_whole, reader_for
from hiddenstate.networks.rnn import RNN
from hiddenstate.networks.summary import Summary
from hiddenstate.networks.transducer import Transducer


@register("no-memory")
class NoMemory(Cell):
    """A state of no numbers: whatever was seen, the prediction is the same."""

    input_size: int = eqx.field(static=True)
    nothing: Frozen
    """An array of no numbers, which knows the precision."""

    def __init__(self, input_size: int):
        self.input_size = input_size
        self.nothing = Frozen(jnp.zeros(0))

    @property
    def hidden_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """None."""
        return 0

    def prepare(self, x: Float[Array, " input"], u: Num[Array, " inputs"] | None = None) -> Float[Array, " none"]:
        """Nothing."""
        return self.nothing.value

    def step(self, state: Float[Array, " none"], element: Float[Array, " none"]) -> Float[Array, " none"]:
        """Nothing."""
        return element

    def combine(self, earlier: Float[Array, " none"], later: Float[Array, " none"]) -> Float[Array, " none"]:
        """Nothing."""
        del earlier
        return later

    def state_after(self, element: Float[Array, " none"]) -> Float[Array, " none"]:
        """Nothing."""
        return element


@register("last-value")
class LastValue(Cell):
    """The state is the last observation; the head sees it times a gain."""

    input_size: int = eqx.field(static=True)
    gain: Float[Array, ""] | Frozen

    def __init__(self, input_size: int, gain: Float[Array, ""] | Frozen):
        self.input_size = input_size
        self.gain = gain

    @property
    def hidden_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As many numbers as the encoded observation has."""
        return self.input_size

    def prepare(self, x: Float[Array, " input"], u: Num[Array, " inputs"] | None = None) -> Float[Array, " input"]:
        """The observation itself."""
        return x

    def step(self, state: Float[Array, " input"], element: Float[Array, " input"]) -> Float[Array, " input"]:
        """The observation takes the state's place."""
        return element

    def combine(self, earlier: Float[Array, " input"], later: Float[Array, " input"]) -> Float[Array, " input"]:
        """The later observation takes the earlier one's place."""
        del earlier
        return later

    def state_after(self, element: Float[Array, " input"]) -> Float[Array, " input"]:
        """The observation itself."""
        return element

    def output(self, state: Float[Array, " input"]) -> Float[Array, " input"]:
        """The last observation times the gain."""
        return (self.gain.value if isinstance(self.gain, Frozen) else self.gain) * state


@recipe("unigram")
def unigram(data: Sequences, *, key: PRNGKeyArray, head: str | None = None) -> RNN:
    """Every step alike, whatever came before: the marginal distribution."""
    top = _blank(heads.head_for(data, 0, key=key, head=head))
    return RNN(NoMemory(top.encoded_size), top, schema=data.schema)


@recipe("last")
def last(data: Sequences, *, key: PRNGKeyArray, head: str | None = None) -> RNN:
    """The last value again: for real numbers a random walk with drift; for others a learned preference for staying."""
    width = heads.head_for(data, 0, key=key, head=head).encoded_size
    top = _blank(heads.head_for(data, width, key=key, head=head))
    if data.schema.kind == "mixed":
        raise DataError("the baseline 'last' needs observations of one kind; these are mixed.")
    one = jnp.ones((), dtype_of(top))
    gain = Frozen(one) if data.schema.kind == "real" else one
    same = Frozen(jnp.eye(int(top.driven.sum()), width, dtype=dtype_of(top)))
    top = eqx.tree_at(lambda h: h.weight, top, same)
    return RNN(LastValue(width, gain), top, initial="learned", schema=data.schema)


@recipe("bigram")
def bigram(data: Sequences, *, key: PRNGKeyArray, head: str | None = None) -> RNN:
    """The next symbol given the last one."""
    if data.schema.kind not in ("symbol", "mixed"):
        raise DataError(
            f"the baseline 'bigram' needs symbols, but the data are of kind {data.schema.kind!r}; use 'ar1'."
        )
    return _autoregression(data, key, head)


@recipe("ar1")
def ar1(data: Sequences, *, key: PRNGKeyArray, head: str | None = None) -> RNN:
    """A regression of the next observation on the last one, AR(1) for real numbers."""
    return _autoregression(data, key, head)


@recipe("majority", takes=("pairs",))
def majority(data: Pairs, *, key: PRNGKeyArray, head: str | None = None) -> Transducer | Summary:
    """The same answer whatever was read: the marginal distribution of the targets, which every model must beat."""
    reader = reader_for(data.sources, key=key)
    top = _blank(heads.head_for(data.targets, 0, key=key, head=head))
    body = NoMemory(reader.encoded_size)
    known: Any = {"reader": reader, "schema": data.sources.schema, "target_schema": data.targets.schema}
    return Summary(body, top, **known) if answers_whole(data) else Transducer(body, top, **known)


def _autoregression(data: Sequences, key: PRNGKeyArray, head: str | None) -> RNN:
    width = heads.head_for(data, 0, key=key, head=head).encoded_size
    top = _blank(heads.head_for(data, width, key=key, head=head))
    gain = Frozen(jnp.ones((), dtype_of(top)))
    return RNN(LastValue(width, gain), top, initial="learned", schema=data.schema)


def _blank(head: heads.Head) -> heads.Head:
    """The head with zero weights: its start is the marginal distribution, and learning is deterministic."""
    return eqx.tree_at(lambda h: h.weight, head, jnp.zeros_like(head.linear[0]))
