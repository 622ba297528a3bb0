"""A sequence read from both ends."""

import equinox as eqx
import jax
import jax.numpy as jnp

from hiddenstate._types import Array, Float, Shaped, State
from hiddenstate.cells import Cell, Read
from hiddenstate.core import HiddenStateError, register
from hiddenstate.strategies import Auto, Strategy


@register("bidirectional")
class Bidirectional(eqx.Module):
    r"""Two cells, one that reads a sequence forwards and one that reads it backwards (Schuster and Paliwal 1997).

    .. math::

        y_t = [\,\mathrm{forward}(x_{1:t}),\ \mathrm{backward}(x_{T:t})\,]

    What it shows at a step has seen the whole sequence, so it serves to label its steps (`hs.Transducer`), to sum it up
    (`hs.Summary`) and to read what is to be translated (`hs.EncoderDecoder`). It is no `Recurrence`: a model that is to
    predict :math:`x_t` must not have seen it.

    Sequences of different lengths are each read backwards from their own last step.
    """

    forward: Cell
    backward: Cell

    def __init__(self, forward: Cell, backward: Cell):
        for name, cell in (("forward", forward), ("backward", backward)):
            if not isinstance(cell, Cell):
                raise HiddenStateError(f"{name} is a {type(cell).__name__}; it must be a cell, such as hs.cells.GRU.")
        if forward.input_size != backward.input_size:
            raise HiddenStateError(
                f"the forward cell has input_size {forward.input_size}, the backward cell {backward.input_size}; "
                "they read the same sequence, so both must be equal."
            )
        self.forward = forward
        self.backward = backward

    @property
    def input_size(self) -> int:
        """How many numbers a step of the sequence has."""
        return self.forward.input_size

    @property
    def output_size(self) -> int:
        """Those of both cells together."""
        return self.forward.output_size + self.backward.output_size

    def read(
        self, xs: Float[Array, "time input"], valid: Shaped[Array, " time"] | None = None, strategy: Strategy = Auto()
    ) -> Read:
        """What both cells show at every step of one sequence, and the last state of each."""
        order = _backwards(len(xs), valid)
        forward = self.forward.read(xs, valid, strategy)
        backward = self.backward.read(xs[order], valid, strategy)
        outputs = jnp.concatenate([forward.outputs, backward.outputs[order]], axis=1)
        return Read(outputs, (forward.final, backward.final))

    def output(self, state: State) -> Float[Array, " output"]:
        """What both cells show after all they read: the forward one of the last step, the backward one of the first."""
        forward, backward = state
        return jnp.concatenate([self.forward.output(forward), self.backward.output(backward)])


def is_causal(body: object) -> bool:
    """Whether a network's state at a step has seen nothing that follows."""
    return not any(isinstance(node, Bidirectional) for node in jax.tree.leaves(body, is_leaf=_is_bidirectional))


def refuse_bidirectional(body: object, use: str) -> None:
    """Raise the sentence that says why a network that reads backwards cannot predict what comes next."""
    if not is_causal(body):
        raise HiddenStateError(
            f"a bidirectional network cannot be {use}: it reads the sequence from its end as well, so its state at a "
            "step has already seen the observation that it would have to predict, and its probabilities would not be "
            "those of any model. Use it to answer: hs.Transducer for every step, hs.Summary for a whole sequence, "
            "hs.EncoderDecoder as its encoder."
        )


def _is_bidirectional(node: object) -> bool:
    return isinstance(node, Bidirectional)


def _backwards(time: int, valid: Shaped[Array, " time"] | None) -> Shaped[Array, " time"]:
    """The steps in reverse, each of them from the last real one on; padding stays where it is."""
    steps = jnp.arange(time)
    if valid is None:
        return steps[::-1]
    count = jnp.sum(valid)
    return jnp.where(steps < count, count - 1 - steps, steps)
