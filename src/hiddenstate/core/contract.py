r"""The contract that every model obeys: a hidden state, its update, and a read-out.

.. math::

    x_t \sim p(\,\cdot \mid g(h_t)), \qquad h_{t+1} = f(h_t, x_t)

The state at :math:`t` has seen :math:`x_1 \ldots x_{t-1}` and predicts :math:`x_t`, so that
:math:`\log p(x_{1:T}) = \sum_t \log p(x_t \mid g(h_t))` with nothing left out. The update is written in two
halves: ``prepare``, all that can be computed from :math:`x_t` alone and is mapped over all steps at once, and
``step``, what really needs the state.

All methods take one step of one sequence. Batches and time are the business of `hiddenstate.strategies`.
Capabilities are methods that a model either has or has not; ask with `has`. Besides those of latent models
(`hiddenstate.inference.posterior`) the library knows these:

- ``combine(earlier, later)``: the recurrence is associative. Where the form that `prepare` gives is smaller than the
  one that `combine` keeps, ``widen(element)`` turns the first into the second; `step` and `combine` take both.
- ``prepare_partial(x, u, observed)``: like `prepare`, for an observation of which only the entries are known where
  `observed` (of the shape of x) is True: the others are summed out exactly.
- ``evidence(state, element)``: the log-probability of what the element was prepared from. It must agree with
  ``readout(state, u).log_prob(x)``; a model that has `prepare_partial` has it too.
- ``state_after(element)``: the next state, from the element alone: a recurrence that remembers nothing but its last
  observation, so that no step waits for another.
- ``run_natively(state, elements, valid)``: all states of one sequence and the last one, by a compiled kernel, as a
  strategy's `run` gives them.
- ``read_natively(state, xs, us, valid)``: the same from all observations and inputs of the sequence, where the kernel
  makes the elements itself.
- ``particle_moves(steps)``: of a latent model, what the kernel of bootstrap particle filters needs of all steps, from
  `hiddenstate.native.particle`; None where it cannot run over these.
- ``streamer(streams)``: that many independent streams of the model, `hiddenstate.native.streaming.Streams`, whose steps
  are compiled; None for one that has no axis of streams.
- ``layers()`` and ``between(number, states)``: the recurrence is several, one above the other. Its state is the tuple
  of theirs and its element that of the first; ``between(number, states)`` is the element of layer `number` from the
  new states of those below. Each layer is then run over all steps before the next one begins.
- ``score_sequence(state, steps, strategy)``: the log-probability of every step of one sequence and the last state,
  by a faster way than step by step, or with a derivative of its own.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Element, Float, Num, State
from hiddenstate.core.schema import Schema
from hiddenstate.core.sequences import Steps


class Recurrence(eqx.Module):
    """A state that is updated by each observation."""

    @abstractmethod
    def initial(self) -> State:
        """The state before anything was seen."""

    @abstractmethod
    def prepare(self, x: Num[Array, "..."], u: Num[Array, " inputs"] | None = None) -> Element:
        """All that can be computed from the observation `x` (and the input `u`) without the state."""

    @abstractmethod
    def step(self, state: State, element: Element) -> State:
        """The state after the observation that `element` was prepared from."""


class AssociativeRecurrence(Recurrence):
    """A recurrence whose steps can be joined before the state is known, so that it runs as a parallel scan."""

    @abstractmethod
    def combine(self, earlier: Element, later: Element) -> Element:
        """One element for both: ``step(step(h, earlier), later) == step(h, combine(earlier, later))``."""


class SequenceModel(Recurrence):
    """A recurrence with a read-out: from the state, a distribution over the next observation."""

    schema: Schema | None = eqx.field(default=None, kw_only=True, static=True)
    """What the data it was built for look like, so that new files are read the same way."""

    inputs: int = eqx.field(default=0, kw_only=True, static=True)
    """How many inputs `u` it takes at every step."""

    @abstractmethod
    def readout(self, state: State, u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The distribution of the next observation, given the state (and the input at that step)."""


class Form(NamedTuple):
    """What one step of a source or a target looks like: its shape, and the values that it can take."""

    shape: tuple[int, ...]
    support: Any
    flat: bool = False
    """Whether any shape of as many entries will do: a single number for a vector of one."""


class DecoderStart(NamedTuple):
    """Where a model begins to write an answer: the model of its steps, the first state, the inputs at every step."""

    model: SequenceModel
    state: State
    inputs: Num[Array, " inputs"] | None


class ConditionalModel(eqx.Module):
    r"""Answers to what was read: a distribution over a target sequence y given a source sequence x.

    .. math::

        \log p(y_{1:S} \mid x_{1:T}) = \sum_s \log p(y_s \mid y_{<s}, x_{1:T})

    The target is one step, as many steps as the source, or any number: see `Pairs`. A model whose answers do not
    depend on each other has the capability ``answers(source, strategy)``: the distribution of every answer, of batch
    shape (time,), or () where there is one. One that can answer while it reads has ``begin()``, ``read_one(state, x,
    u)`` and ``answer(state)``, the distribution of the answer to what was read so far. ``source_form()`` and
    ``target_form()``, where it has them, say what its data must look like: a `Form` each.

    A model whose answers follow from each other, and can therefore be generated, has ``decoder_start(source,
    strategy)``, a `DecoderStart` whose `model` is the same for all sources; ``decoder_steps(target)``, the steps that
    this model predicts for a target; and ``stop_symbol``, the symbol that ends an answer, None where its length is
    given.
    """

    target_length: ClassVar[Literal["source", "one", "any"]] = "any"
    """How many steps a target has: as many as its source, one, or any number."""

    schema: Schema | None = eqx.field(default=None, kw_only=True, static=True)
    """What the sources look like that it was built for."""

    target_schema: Schema | None = eqx.field(default=None, kw_only=True, static=True)
    """What the answers look like."""

    inputs: int = eqx.field(default=0, kw_only=True, static=True)
    """How many inputs `u` it takes at every step of a source, beside the source itself."""

    @abstractmethod
    def answer_log_probs(self, source: Steps, target: Steps, strategy: Any) -> Float[Array, " time"]:
        """The log-probability of every step of one target; whatever stands at missing steps and behind the end."""


def has(model: Any, capability: str) -> bool:
    """Whether `model` has the capability of that name, for example ``has(model, "combine")``.

    A composed model passes its parts' capabilities on by a property that raises AttributeError where the
    part has none, so that having a capability and being able to use it are the same thing.
    """
    if callable(getattr(type(model), capability, None)):  # a plain method, which need not be bound to find out
        return True
    return callable(getattr(model, capability, None))


def kernel_of(recurrence: Any) -> Callable[..., tuple[State, State]]:
    """Its `run_natively`; AttributeError where a subclass has another `step`, which the kernel does not know."""
    _refuse_other(recurrence, "run_natively", ("step",))
    return recurrence.run_natively


def reading_kernel_of(recurrence: Any) -> Callable[..., tuple[State, State]]:
    """Its `read_natively`; AttributeError where a subclass has another `prepare` or `step`."""
    _refuse_other(recurrence, "read_natively", ("prepare", "step"))
    return recurrence.read_natively


def _refuse_other(recurrence: Any, kernel: str, methods: tuple[str, ...]) -> None:
    ancestors = type(recurrence).__mro__
    place = lambda name: next((i for i, c in enumerate(ancestors) if name in vars(c)), 0)  # noqa: E731
    for method in methods:
        if place(method) < place(kernel):
            raise AttributeError(
                f"{type(recurrence).__name__} has a {method} of its own, and its kernel is that of another."
            )


def own(part: Any, capability: str) -> Any:
    """What its class itself says of a capability; AttributeError where only an ancestor has it.

    For capabilities that repeat in another way all that a class computes: a subclass may compute something else.
    """
    if capability not in vars(type(part)):
        raise AttributeError(f"{type(part).__name__} has no {capability} of its own.")
    return getattr(part, capability)


def name_of(model: object) -> str:
    """What to call a model in a message: its class, with the class of its cell where it has one."""
    inner = getattr(model, "cell", None)
    return type(model).__name__ + (f" of {type(inner).__name__}" if inner is not None else "")
