"""One answer to a whole sequence."""

from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Float, Num, PRNGKeyArray, State
from hiddenstate.core import HiddenStateError, Schema, Steps, checked_key, register
from hiddenstate.heads import Head
from hiddenstate.networks.pooling import AttentionPooling, LastPooling, MeanPooling, Pooling
from hiddenstate.networks.reading import Answering, Body, Reader, answer_log_prob, check_body, check_head, weightless
from hiddenstate.strategies import Auto, Strategy


class Gathered(NamedTuple):
    """The body's state, and what the pooling has gathered so far."""

    body: State
    pooling: State


@register("summary")
class Summary(Answering):
    r"""One answer to a whole sequence: a class, or a number.

    .. math::

        y \sim p(\,\cdot \mid \mathrm{head}(v)), \qquad v = \mathrm{pooling}(h_1, \ldots, h_T)

    :math:`h_t` is what the `body` shows after :math:`x_t`, read as in a `Transducer`. With ``pooling="last"``
    :math:`v = h_T`, the last real one (for a `Bidirectional` the forward cell's at the end and the backward cell's at
    the start, so that both have read everything); with ``"mean"`` it is the mean over all real steps; with
    ``"attention"`` a mean with weights :math:`\mathrm{softmax}_t(q \cdot h_t)`, whose query :math:`q` is learned and
    starts from `key`.
    """

    target_length: ClassVar = "one"

    body: Body
    head: Head
    reader: Reader
    pooling: Pooling

    def __init__(
        self,
        body: Body,
        head: Head,
        *,
        pooling: Literal["last", "mean", "attention"] = "last",
        reader: Reader = None,
        inputs: int = 0,
        schema: Schema | None = None,
        target_schema: Schema | None = None,
        key: PRNGKeyArray | None = None,
    ):
        check_body(body, reader, inputs)
        check_head(head, body.output_size)
        self.body = body
        self.head = head
        self.reader = weightless(reader)
        self.pooling = _pooling(pooling, body.output_size, key)
        self.inputs = inputs
        self.schema = schema
        self.target_schema = target_schema

    def answers(self, source: Steps, strategy: Strategy = Auto()) -> Distribution:
        """The distribution of the answer to one source."""
        read = self.read(source, strategy)
        return self.head(self.pooling.whole(read.outputs, self.body.output(read.final), source.valid))

    def answer_log_probs(self, source: Steps, target: Steps, strategy: Strategy = Auto()) -> Float[Array, " time"]:
        """The log-probability of the target, which is one step."""
        answer = self.answers(source, strategy)
        return jax.vmap(lambda y, seen: answer_log_prob(answer, y, seen))(target.values, target.observed)

    def begin(self) -> Gathered:
        """The body's initial state, and nothing gathered."""
        state = self.first_state()
        return Gathered(state, self.pooling.start(jnp.zeros_like(self.body.output(state))))

    def read_one(self, state: Gathered, x: Num[Array, "..."], u: Num[Array, " inputs"] | None = None) -> Gathered:
        """The state after one more step, and what was gathered with it."""
        new = self.next_state(state.body, x, u)
        return Gathered(new, self.pooling.add(state.pooling, self.body.output(new)))

    def _answer(self, state: Gathered) -> Distribution:
        return self.head(self.pooling.pooled(state.pooling))


def _pooling(name: str, size: int, key: PRNGKeyArray | None) -> Pooling:
    if name == "last":
        return LastPooling()
    if name == "mean":
        return MeanPooling()
    if name != "attention":
        raise HiddenStateError(f"pooling is {name!r}; it must be 'last', 'mean' or 'attention'.")
    if key is None:
        raise HiddenStateError("pooling is 'attention', whose learned query needs a key: give key=jax.random.key(0).")
    return AttentionPooling(size, key=checked_key(key))
