"""What the models that answer share: a source becomes vectors, a body reads them, a head answers."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from numpyro.distributions import Distribution, constraints

from hiddenstate._types import Array, Float, Num, State
from hiddenstate.cells import Cell, Read
from hiddenstate.core import ConditionalModel, Form, HiddenStateError, Steps, dtype_of
from hiddenstate.distributions import partial_log_prob
from hiddenstate.heads import Head
from hiddenstate.heads.head import family_of
from hiddenstate.networks.bidirectional import Bidirectional, is_causal
from hiddenstate.networks.rnn import Embedding
from hiddenstate.strategies import Strategy

Body: TypeAlias = Cell | Bidirectional
"""What reads a source: a cell, a `Stack` (which is a cell) or a `Bidirectional`."""

Reader: TypeAlias = Head | Embedding | None
"""How a step of a source becomes a vector: as a head encodes it, by an `Embedding`, or as the numbers it has."""


class Answering(ConditionalModel):
    """A body that reads the source and a head that answers from what the body shows."""

    body: eqx.AbstractVar[Body]
    head: eqx.AbstractVar[Head]
    reader: eqx.AbstractVar[Reader]

    @property
    def cell(self) -> Body:
        """The body, which messages name the model by."""
        return self.body

    def source_form(self) -> Form:
        """What the reader takes; without one, as many real numbers as the body reads beside the inputs."""
        return reader_form(self.reader, self.body.input_size - self.inputs)

    def target_form(self) -> Form:
        """What the head predicts."""
        return head_form(self.head)

    def read(self, source: Steps, strategy: Strategy) -> Read:
        """What the body makes of one source."""
        return read_source(self.body, self.reader, source, strategy)

    def first_state(self) -> State:
        """The initial state of a body that reads forwards."""
        return self.body.initial()  # pyright: ignore[reportAttributeAccessIssue]

    def next_state(self, state: State, x: Num[Array, "..."], u: Num[Array, " inputs"] | None) -> State:
        """The state of a body that reads forwards, after one more step."""
        cell: Any = self.body
        return cell.step(state, cell.prepare(encoded(cell, self.reader, x, u)))

    @property
    def answer(self) -> Callable[[State], Distribution]:
        """The distribution of the answer to what was read so far; only a body that reads forwards has one."""
        if not is_causal(self.body):
            raise AttributeError("a bidirectional body answers when it has read everything.")
        return self._answer

    @abstractmethod
    def _answer(self, state: State) -> Distribution:
        """What `answer` gives, where the body reads forwards."""


def encoded(body: Body, reader: Reader, x: Any, u: Any = None) -> Float[Array, " input"]:
    """One step of a source as the vector that the body reads: the encoded values, then the inputs."""
    vector = (jnp.ravel(x) if reader is None else reader.encode(x)).astype(dtype_of(body))
    return vector if u is None else jnp.concatenate([vector, u])


def read_source(body: Body, reader: Reader, source: Steps, strategy: Strategy) -> Read:
    """What a body makes of one source: what it shows at every step, and its last state."""
    vectors = jax.vmap(lambda x, u: encoded(body, reader, x, u))(source.values, source.inputs)
    return body.read(vectors, source.valid, strategy)


def answer_log_prob(answer: Distribution, y: Any, observed: Any) -> Float[Array, ""]:
    """The log-probability of one step of a target, of its entries that are not missing."""
    return answer.log_prob(y) if observed is None else partial_log_prob(answer, y, observed)  # pyright: ignore[reportReturnType]


def head_form(head: Head) -> Form:
    """What a head, or the family of one, predicts and encodes."""
    numbers = jax.ShapeDtypeStruct((head.parameter_count,), dtype_of(head))
    return Form(head.event_shape, jax.eval_shape(head.distribution, numbers).support)


def reader_form(reader: Reader, size: int) -> Form:
    """What a reader takes; without one, `size` real numbers."""
    if reader is None:
        return Form((size,), constraints.real_vector, flat=True)
    if isinstance(reader, Embedding):
        return Form((), constraints.integer_interval(0, len(reader.weight) - 1))
    return head_form(reader)


def weightless(reader: Reader) -> Reader:
    """The reader without the linear map of a head, which reading does not use."""
    return family_of(reader) if isinstance(reader, Head) else reader


def check_body(body: Any, reader: Any, inputs: int) -> None:
    """Raise the sentence that says why `body` cannot read what `reader` and the inputs give, if it cannot."""
    if not isinstance(body, Cell | Bidirectional):
        raise HiddenStateError(
            f"the body is a {type(body).__name__}; it must be a cell such as hs.cells.GRU, an hs.Stack or an "
            "hs.Bidirectional."
        )
    if isinstance(inputs, bool) or not isinstance(inputs, int) or inputs < 0:
        raise HiddenStateError(f"inputs is {inputs!r}; it must be a whole number from 0 on.")
    if reader is None:
        if body.input_size <= inputs:
            raise HiddenStateError(
                f"the body has input_size {body.input_size}, of which {inputs} are inputs: nothing is left for the "
                "source."
            )
        return
    if not isinstance(reader, Head | Embedding):
        raise HiddenStateError(
            f"the reader is a {type(reader).__name__}; it must be a head, which encodes what it predicts, an "
            "hs.Embedding, or None for numbers as they are."
        )
    if body.input_size != reader.encoded_size + inputs:
        raise HiddenStateError(
            f"the body has input_size {body.input_size}, but the reader and the inputs give "
            f"{reader.encoded_size + inputs}."
        )


def check_head(head: Any, size: int) -> None:
    """Raise the sentence that says why `head` cannot answer from `size` numbers, if it cannot."""
    if not isinstance(head, Head):
        raise HiddenStateError(f"the head is a {type(head).__name__}; it must be one of hs.heads.")
    if head.hidden_size != size:
        raise HiddenStateError(f"the head has hidden_size {head.hidden_size}, but the body shows {size} numbers.")
