"""A cell and a head make a sequence model."""

from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from numpyro.distributions import Delta, Distribution

from hiddenstate._types import Array, Element, Float, Num, PRNGKeyArray, State
from hiddenstate.cells import Cell
from hiddenstate.core import (
    HiddenStateError,
    Schema,
    SequenceModel,
    dtype_of,
    has,
    kernel_of,
    name_of,
    own,
    reading_kernel_of,
    register,
)
from hiddenstate.heads import Head
from hiddenstate.native import streaming
from hiddenstate.networks.bidirectional import refuse_bidirectional
from hiddenstate.networks.dropout import Dropout, checked_rate
from hiddenstate.ops.vectors import as_vector, from_vector


@register("embedding")
class Embedding(eqx.Module):
    """Symbols as learned vectors, in place of one-hot."""

    weight: Float[Array, "symbol encoded"]

    def __init__(self, symbols: int, size: int, *, key: PRNGKeyArray):
        self.weight = jr.normal(key, (symbols, size))

    @property
    def encoded_size(self) -> int:
        """The length of the vectors."""
        return self.weight.shape[1]

    def encode(self, x: Num[Array, ""]) -> Float[Array, " encoded"]:
        """The vector of the symbol `x`."""
        return self.weight[x]


@register("rnn")
class RNN(SequenceModel):
    r"""A recurrent network as a sequence model: any cell, any head.

    .. math::

        h_{t+1} = f(h_t, [\mathrm{encode}(x_t), u_t]), \qquad x_t \sim p(\,\cdot \mid \mathrm{head}([h_t, u_t]))

    Observations are encoded as the head says (symbols one-hot), or by an `Embedding` given as `encoder`. The initial
    state is zero, or with ``initial="learned"`` a parameter. Inputs `u` known beforehand, `inputs` of them, are read by
    the cell and by the head: the cell then has ``input_size = encoded_size + inputs`` and the head
    ``hidden_size = output_size + inputs``.

    While learning, `input_dropout` leaves out that share of what the cell reads of an observation and
    `output_dropout` that of what the head reads of the cell, one choice for a whole sequence.
    """

    cell: Cell
    head: Head
    encoder: Embedding | None
    start: State
    drop_input: Dropout | None = None
    drop_output: Dropout | None = None

    def __init__(
        self,
        cell: Cell,
        head: Head,
        *,
        encoder: Embedding | None = None,
        initial: Literal["zero", "learned"] = "zero",
        inputs: int = 0,
        input_dropout: float = 0.0,
        output_dropout: float = 0.0,
        schema: Schema | None = None,
    ):
        if initial not in ("zero", "learned"):
            raise HiddenStateError(f"initial is {initial!r}; it must be 'zero' or 'learned'.")
        refuse_bidirectional(cell, "an autoregressive model")
        for name, part, kind, where in (("cell", cell, Cell, "hs.cells"), ("head", head, Head, "hs.heads")):
            if not isinstance(part, kind):
                raise HiddenStateError(f"{name} is {part!r}; it must be one of {where}.")
        encoded = (head if encoder is None else encoder).encoded_size + inputs
        if cell.input_size != encoded:
            raise HiddenStateError(
                f"the cell has input_size {cell.input_size}, but observations and inputs give {encoded}."
            )
        if head.hidden_size != cell.output_size + inputs:
            raise HiddenStateError(
                f"the head has hidden_size {head.hidden_size}, but the cell's output and the inputs give "
                f"{cell.output_size + inputs}."
            )
        self.cell = cell
        self.head = head
        self.encoder = encoder
        self.start = cell.initial() if initial == "learned" else None
        self.drop_input = _dropout("input_dropout", input_dropout)
        self.drop_output = _dropout("output_dropout", output_dropout)
        self.inputs = inputs
        self.schema = schema

    def initial(self) -> State:
        """The cell's own initial state, or the learned one."""
        return self.cell.initial() if self.start is None else self.start

    def prepare(self, x: Num[Array, "..."], u: Num[Array, " inputs"] | None = None) -> Element:
        """The cell's element for the encoded observation and the inputs."""
        return self.cell.prepare(self.cell_input(x, u))

    def step(self, state: State, element: Element) -> State:
        """The cell's step."""
        return self.cell.step(state, element)

    @property
    def combine(self) -> Callable[[Element, Element], Element]:
        """The cell's `combine`; a cell without one raises AttributeError, so that the capability is the cell's."""
        return self.cell.combine  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def widen(self) -> Callable[[Element], Element]:
        """The cell's `widen`, where it has one."""
        return self.cell.widen  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def state_after(self) -> Callable[[Element], State]:
        """The cell's `state_after`, where it has one."""
        return self.cell.state_after  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def run_natively(self) -> Callable[..., tuple[State, State]]:
        """The cell's `run_natively`, where a compiled kernel runs it."""
        return kernel_of(self.cell)

    @property
    def read_natively(self) -> Callable[..., tuple[State, State]]:
        """The cell's `read_natively` for encoded observations, where it has one."""
        kernel = reading_kernel_of(self.cell)
        return lambda state, xs, us, valid: kernel(state, jax.vmap(self.cell_input)(xs, us), None, valid)

    @property
    def streamer(self) -> streaming.Streamer:
        """Compiled streams, where kernels have the cell and the head."""
        if any(drop is not None and drop.key is not None for drop in (self.drop_input, self.drop_output)):
            raise AttributeError("a network that drops entries has no compiled streams.")
        embedding = None if self.encoder is None else self.encoder.weight
        parts = own(self.cell, "streamed"), own(self.head, "streamed")
        return streaming.network(*parts, inputs=self.inputs, dtype=dtype_of(self), embedding=embedding)

    @property
    def layers(self) -> Callable[[], tuple[Cell, ...]]:
        """The cell's `layers`, where it is a stack."""
        return self.cell.layers  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def between(self) -> Callable[[int, tuple[State, ...]], Element]:
        """The cell's `between`, where it is a stack."""
        return self.cell.between  # pyright: ignore[reportAttributeAccessIssue]

    def readout(self, state: State, u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The head's distribution at the cell's output."""
        return self.head(self.head_input(state, u))

    def cell_input(self, x: Num[Array, "..."], u: Num[Array, " inputs"] | None = None) -> Float[Array, " input"]:
        """What the cell reads: the encoded observation, and the inputs."""
        return _with(_thinned((self.head if self.encoder is None else self.encoder).encode(x), self.drop_input), u)

    def head_input(self, state: State, u: Num[Array, " inputs"] | None = None) -> Float[Array, " hidden"]:
        """What the head reads: the cell's output, and the inputs."""
        return _with(_thinned(self.cell.output(state), self.drop_output), u)

    def latent_initial(self) -> Distribution:
        """Where the hidden state starts, as a vector: for certain at the initial state."""
        return Delta(as_vector(self.initial()), event_dim=1)

    def latent_update(self, z: Float[Array, " state"], element: Element) -> Distribution:
        """The next hidden state, given this one and the element of the observation: for certain, or by a noisy cell."""
        state = self._state_of(z)
        if has(self.cell, "step_distribution"):
            return self.cell.step_distribution(state, element)  # pyright: ignore[reportAttributeAccessIssue]
        return Delta(as_vector(self.cell.step(state, element)), event_dim=1)

    def latent_emission(self, z: Float[Array, " state"], u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The read-out of a hidden state that is given as a vector."""
        return self.readout(self._state_of(z), u)

    def _state_of(self, z: Float[Array, " state"]) -> State:
        return from_vector(z, jax.eval_shape(self.initial))


def refuse_noise(model: SequenceModel, owner: str) -> None:
    """Raise HiddenStateError where the state of a network moves at random, so that it is not known from the past."""
    cell = getattr(model, "cell", None)
    if has(cell, "step_distribution") and not getattr(cell, "silent", False):
        raise HiddenStateError(
            f"the state of {name_of(model)} moves at random; {owner} takes a network whose state follows from what was "
            "seen. hs.ParticleFilter runs a noisy one."
        )


def _dropout(name: str, rate: float) -> Dropout | None:
    return Dropout(rate) if checked_rate(name, rate) else None


def _thinned(vector: Float[Array, " size"], drop: Dropout | None) -> Float[Array, " size"]:
    return vector if drop is None else drop(vector)


def _with(vector: Float[Array, " size"], u: Num[Array, " inputs"] | None) -> Float[Array, " longer"]:
    return vector if u is None else jnp.concatenate([vector, u])
