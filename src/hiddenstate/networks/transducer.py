"""An answer at every step."""

from typing import ClassVar

import jax
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Float, Num, State
from hiddenstate.core import Schema, Steps, register
from hiddenstate.heads import Head
from hiddenstate.networks.reading import Answering, Body, Reader, answer_log_prob, check_body, check_head, weightless
from hiddenstate.strategies import Auto, Strategy


@register("transducer")
class Transducer(Answering):
    r"""An answer at every step of what is read.

    .. math::

        y_t \sim p(\,\cdot \mid \mathrm{head}(h_t)), \qquad h_t = f(h_{t-1}, [\mathrm{encode}(x_t), u_t])

    Unlike the state of a sequence model, :math:`h_t` has seen :math:`x_t`: with a `body` that reads forwards (a cell or
    a `Stack`) an answer is :math:`p(y_t \mid x_{1:t})` and comes while the sequence arrives, with a `Bidirectional` it
    is :math:`p(y_t \mid x_{1:T})`. Answers are independent of each other given what was read.

    The `reader` says how :math:`x_t` becomes a vector: a head of the sources' kind encodes what it would predict
    (symbols one-hot, numbers in their units), an `Embedding` learns a vector for each symbol, and None takes the
    numbers as they are. `inputs` known beforehand are put behind it.
    """

    target_length: ClassVar = "source"

    body: Body
    head: Head
    reader: Reader

    def __init__(
        self,
        body: Body,
        head: Head,
        *,
        reader: Reader = None,
        inputs: int = 0,
        schema: Schema | None = None,
        target_schema: Schema | None = None,
    ):
        check_body(body, reader, inputs)
        check_head(head, body.output_size)
        self.body = body
        self.head = head
        self.reader = weightless(reader)
        self.inputs = inputs
        self.schema = schema
        self.target_schema = target_schema

    def answers(self, source: Steps, strategy: Strategy = Auto()) -> Distribution:
        """The distribution of the answer at every step of one source."""
        return jax.vmap(self.head)(self.read(source, strategy).outputs)

    def answer_log_probs(self, source: Steps, target: Steps, strategy: Strategy = Auto()) -> Float[Array, " time"]:
        """The log-probability of the target at every step."""
        outputs = self.read(source, strategy).outputs
        return jax.vmap(lambda h, y, seen: answer_log_prob(self.head(h), y, seen))(
            outputs, target.values, target.observed
        )

    def begin(self) -> State:
        """The body's initial state."""
        return self.first_state()

    def read_one(self, state: State, x: Num[Array, "..."], u: Num[Array, " inputs"] | None = None) -> State:
        """The body's state after one more step."""
        return self.next_state(state, x, u)

    def _answer(self, state: State) -> Distribution:
        return self.head(self.body.output(state))
