"""A model of the first observation of its own, before a recurrent network."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Element, Float, Num, Shaped, State
from hiddenstate.core import HiddenStateError, Recurrence, SequenceModel, dtype_of, has, kernel_of, name_of, register
from hiddenstate.heads import Head
from hiddenstate.networks.rnn import refuse_noise


class _Begun(Recurrence):
    """A layer that only knows whether there was any step."""

    def initial(self) -> State:
        """There was none."""
        return jnp.asarray(False)

    def prepare(self, x: Any, u: Any = None) -> Element:
        """Nothing but the fact that there was a step."""
        del x, u
        return jnp.asarray(True)

    def step(self, state: State, element: Element) -> State:
        """There was one."""
        return state | element

    def combine(self, earlier: Element, later: Element) -> Element:
        """There was one, or the other."""
        return earlier | later

    def state_after(self, element: Element) -> State:
        """There was one."""
        return element


@register("first-step")
class FirstStep(SequenceModel):
    r"""A network whose first observation has a distribution of its own, with parameters of its own.

    .. math::

        \log p(x_{1:T}) = \log p_1(x_1) + \sum_{t \ge 2} \log p(x_t \mid g(h_t))

    A network that is trained on the likelihood given :math:`x_1` says nothing of :math:`x_1`; a model of the whole
    sequence needs one of the first step as well (remark 1 of Choe, Shin and Spencer 2017). Elsewhere in this library
    that is the read-out of the initial state, :math:`p(x_1) = p(x_1 \mid g(h_1))`. Here it is free of the
    read-out's weights and of the network's: `first` are the numbers of the head's family, learned like all others,
    and :math:`x_2, x_3, \ldots` are predicted by `model` as they were.

    `model` is an `hs.RNN` of any cell and head. As it is built the first step is what the read-out says (with inputs,
    where all of them are zero), so that nothing changes before it learns. It runs as its model does, in sequence or in
    parallel.
    """

    model: Any
    first: Float[Array, " parameter"]

    def __init__(self, model: SequenceModel):
        head = getattr(model, "head", None)
        if not isinstance(head, Head) or not has(model, "head_input"):
            raise HiddenStateError(
                f"model is {name_of(model)}; it must be a network with a head, such as hs.RNN, of whose family the "
                "first step can be."
            )
        refuse_noise(model, "FirstStep")
        u = jnp.zeros(model.inputs, dtype_of(model)) if model.inputs else None
        self.model = model
        self.first = head.parameters(model.head_input(model.initial(), u))  # pyright: ignore[reportAttributeAccessIssue]
        self.inputs = model.inputs
        self.schema = model.schema

    @property
    def head(self) -> Head:
        """The model's head."""
        return self.model.head

    def initial(self) -> State:
        """The model's initial state, before the first step."""
        return self._joined(self.model.initial(), jnp.asarray(False))

    def prepare(self, x: Num[Array, "..."], u: Num[Array, " inputs"] | None = None) -> Element:
        """The model's element."""
        return self.model.prepare(x, u)

    def step(self, state: State, element: Element) -> State:
        """The model's step."""
        inner, _ = self._parted(state)
        return self._joined(self.model.step(inner, element), jnp.asarray(True))

    @property
    def combine(self) -> Callable[[Element, Element], Element]:
        """The model's `combine`, where it has one."""
        return self.model.combine

    @property
    def widen(self) -> Callable[[Element], Element]:
        """The model's `widen`, where it has one."""
        return self.model.widen

    @property
    def state_after(self) -> Callable[[Element], State]:
        """The model's `state_after`, where it has one."""
        inner = self.model.state_after
        return lambda element: self._joined(inner(element), jnp.asarray(True))

    @property
    def run_natively(self) -> Callable[..., tuple[State, State]]:
        """The model's `run_natively`, where a compiled kernel runs it."""
        kernel = kernel_of(self.model)

        def run(state: State, elements: Element, valid: Shaped[Array, " time"] | None) -> tuple[State, State]:
            inner, begun = self._parted(state)
            states, final = kernel(inner, elements, valid)
            flags = begun | (jnp.arange(jax.tree.leaves(elements)[0].shape[0]) > 0)
            return self._joined(states, flags), self._joined(final, jnp.asarray(True))

        return run

    @property
    def layers(self) -> Callable[[], tuple[Recurrence, ...]]:
        """The model's layers where it has some, and above them one that counts."""
        inner = self.model.layers
        return lambda: (*inner(), _Begun())

    @property
    def between(self) -> Callable[[int, tuple[State, ...]], Element]:
        """The model's `between`, where it has layers."""
        inner, count = self.model.between, len(self.model.layers())
        return lambda number, states: jnp.asarray(True) if number == count else inner(number, states)

    def readout(self, state: State, u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The first step's own distribution, and after it the model's."""
        inner, begun = self._parted(state)
        own, later = self.head.distribution(self.first), self.model.readout(inner, u)
        return jax.tree.map(lambda a, b: jnp.where(begun, b, a), own, later)

    def _joined(self, inner: State, begun: Shaped[Array, ""]) -> State:
        """The model's state with whether there was a step: as one layer more, where there are layers."""
        return (*inner, begun) if has(self.model, "layers") else (inner, begun)

    def _parted(self, state: State) -> tuple[State, Shaped[Array, ""]]:
        *inner, begun = state
        return (tuple(inner) if has(self.model, "layers") else inner[0]), begun
