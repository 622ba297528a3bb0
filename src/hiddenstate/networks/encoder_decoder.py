"""One sequence read, another one written."""

from typing import ClassVar, Literal, get_args

import equinox as eqx
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from numpyro.distributions import constraints

from hiddenstate._types import Array, Float, PRNGKeyArray, State
from hiddenstate.cells import Cell
from hiddenstate.core import (
    ConditionalModel,
    DecoderStart,
    Form,
    HiddenStateError,
    Schema,
    Steps,
    checked_key,
    register,
)
from hiddenstate.networks.ending import Ending, never_first, real_steps, with_stop
from hiddenstate.networks.reading import Body, Reader, check_body, head_form, read_source, reader_form, weightless
from hiddenstate.networks.rnn import RNN
from hiddenstate.ops.initialisers import glorot
from hiddenstate.strategies import Auto, Strategy, over_time

Context = Literal["state", "input", "both"]


@register("state-from-context")
class StateFromContext(eqx.Module):
    r"""The first state of a decoder, from what its encoder has read: :math:`h_1 = \tanh(V C + b)`.

    The map goes to every number of the state, in all its parts and layers. The tanh keeps the start where a cell's own
    states are, whatever the size of C: those of most cells are between -1 and 1, and those that are not (the memory of
    an LSTM, linear cells) grow from there by themselves.
    """

    weight: Float[Array, "state context"]
    bias: Float[Array, " state"]

    def __init__(self, cell: Cell, context_size: int, *, key: PRNGKeyArray):
        size = ravel_pytree(cell.initial())[0].size
        self.weight = glorot(key, (size, context_size))
        self.bias = jnp.zeros(size)

    def __call__(self, cell: Cell, context: Float[Array, " context"]) -> State:
        """The state of `cell`."""
        _, as_state = ravel_pytree(cell.initial())
        return as_state(jnp.tanh(self.weight @ context + self.bias))


@register("encoder-decoder")
class EncoderDecoder(ConditionalModel):
    r"""A network that reads a source to its end and then writes a target of any length (Cho et al. 2014; Sutskever et
    al. 2014; Tripp 2023).

    .. math::

        C = \mathrm{encoder}(x_{1:T}), \qquad
        p(y_{1:S} \mid x_{1:T}) = \prod_{s=1}^{S} p(y_s \mid y_{<s}, C) \cdot p(\mathrm{stop} \mid y_{1:S}, C)

    The context C is what the `encoder` (a cell, a `Stack`, a `Bidirectional`) shows when it has read everything. The
    `decoder` is an `RNN` over the target, of any cell and any head, which is told of C in one of three ways, `context`:

    - ``"state"``: its first state is :math:`\tanh(V C + b)`, with a learned map :math:`V` to every part of the state;
    - ``"input"``: C is its input `u` at every step, read by the cell and by the head, so the decoder has
      ``inputs = encoder.output_size``;
    - ``"both"``.

    With ``stop=True`` targets are symbols and the decoder's head has one symbol more than they have, the last: it ends
    a target and its probability belongs to that of the target. A target has at least one step, so the stop symbol
    cannot come first; the others share its probability there. With ``stop=False`` the length of a target is given and
    any head will do.

    How a step of a source becomes a vector is said by `reader` and `inputs`, as in `Transducer`. `key` is needed where
    the context gives the state. Answers are written by `hs.generate`.
    """

    target_length: ClassVar = "any"

    encoder: Body
    decoder: RNN
    reader: Reader
    first_state: StateFromContext | None
    context: Context = eqx.field(static=True)
    stop: bool = eqx.field(static=True)

    def __init__(
        self,
        encoder: Body,
        decoder: RNN,
        *,
        context: Context = "both",
        stop: bool = True,
        reader: Reader = None,
        inputs: int = 0,
        key: PRNGKeyArray | None = None,
        schema: Schema | None = None,
        target_schema: Schema | None = None,
    ):
        check_body(encoder, reader, inputs)
        _check_decoder(decoder, context, encoder.output_size)
        if stop:
            _check_stop(decoder)
        self.encoder = encoder
        self.decoder = decoder
        self.reader = weightless(reader)
        self.first_state = None
        if context != "input":
            self.first_state = StateFromContext(decoder.cell, encoder.output_size, key=checked_key(key))
        self.context = context
        self.stop = bool(stop)
        self.inputs = inputs
        self.schema = schema
        self.target_schema = target_schema

    @property
    def cell(self) -> Body:
        """The encoder, which messages name the model by."""
        return self.encoder

    @property
    def stop_symbol(self) -> int | None:
        """The symbol that ends a target: the last of the decoder's head; None where the length is given."""
        return _symbols(self.decoder) - 1 if self.stop else None

    def source_form(self) -> Form:
        """What the reader takes; without one, as many real numbers as the encoder reads beside the inputs."""
        return reader_form(self.reader, self.encoder.input_size - self.inputs)

    def target_form(self) -> Form:
        """What the decoder's head predicts, without the stop symbol."""
        if not self.stop:
            return head_form(self.decoder.head)
        return Form((), constraints.integer_interval(0, _symbols(self.decoder) - 2))

    def decoder_start(self, source: Steps, strategy: Strategy = Auto()) -> DecoderStart:
        """The model that writes the answer step by step, its first state given one source, and its inputs."""
        state, inputs = self._begin(source, strategy)
        if not self.stop:
            return DecoderStart(self.decoder, state, inputs)
        ending = Ending(self.decoder, _symbols(self.decoder) - 1)
        return DecoderStart(ending, ending.begin(state), inputs)

    def decoder_steps(self, target: Steps) -> Steps:
        """One target as the decoder sees it: with the stop symbol behind its end, where there is one."""
        return target if self.stop_symbol is None else with_stop(target, self.stop_symbol)

    def answer_log_probs(self, source: Steps, target: Steps, strategy: Strategy = Auto()) -> Float[Array, " time"]:
        """The log-probability of every step of the target; that of the stop symbol is part of the last step's."""
        state, inputs = self._begin(source, strategy)
        steps = self.decoder_steps(target)
        if inputs is not None:
            steps = steps._replace(inputs=jnp.broadcast_to(inputs, (steps.length, *inputs.shape)))
        readout = self.decoder.readout
        out, _ = over_time(self.decoder, strategy, state, steps, lambda h, element, y, u: readout(h, u).log_prob(y))
        if self.stop_symbol is None:
            return out
        first = never_first(readout(state, inputs), self.stop_symbol)
        out = out.at[0].set(first.log_prob(steps.values[0]))
        # Behind the last real step stands the stop symbol: its share is added to that step's.
        ends = jnp.arange(target.length) == real_steps(target) - 1
        return jnp.where(ends, out[:-1] + out[1:], out[:-1])

    def _begin(self, source: Steps, strategy: Strategy) -> tuple[State, Float[Array, " context"] | None]:
        """The decoder's first state and its inputs at every step."""
        context = self.encoder.output(read_source(self.encoder, self.reader, source, strategy).final)
        state = self.decoder.initial() if self.first_state is None else self.first_state(self.decoder.cell, context)
        return state, None if self.context == "state" else context


def _symbols(decoder: RNN) -> int:
    """How many symbols the decoder's head knows, the stop symbol among them."""
    return int(head_form(decoder.head).support.upper_bound) + 1


def _check_decoder(decoder: RNN, context: str, size: int) -> None:
    if not isinstance(decoder, RNN):
        raise HiddenStateError(f"the decoder is a {type(decoder).__name__}; it must be an hs.RNN over the targets.")
    if context not in get_args(Context):
        raise HiddenStateError(f"context is {context!r}; it must be 'state', 'input' or 'both'.")
    due = 0 if context == "state" else size
    if decoder.inputs != due:
        given = "gives the decoder no inputs" if context == "state" else f"is an input of {size} numbers at every step"
        raise HiddenStateError(
            f"the decoder takes {decoder.inputs} inputs, but with context={context!r} what the encoder shows {given}; "
            f"make the RNN with inputs={due}."
        )
    if context != "input" and decoder.start is not None:
        raise HiddenStateError(
            f"the decoder has a learned initial state, but with context={context!r} the context gives it; make the RNN "
            "with initial='zero'."
        )


def _check_stop(decoder: RNN) -> None:
    form = head_form(decoder.head)
    if form.shape != () or not isinstance(form.support, type(constraints.integer_interval(0, 1))):
        raise HiddenStateError(
            f"stop is True, but a {type(decoder.head).__name__} head has no symbols, of which one could end a target; "
            "give stop=False, and the length where answers are generated."
        )
    if _symbols(decoder) < 2:
        raise HiddenStateError(
            "stop is True, but the decoder's head knows a single symbol; it needs one more than the targets have."
        )
