"""A cell whose state is disturbed at every step."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to, constraints

from hiddenstate._types import Array, Element, Float, Num, State
from hiddenstate.cells.cell import Cell
from hiddenstate.cells.checks import one_of
from hiddenstate.core import Frozen, HiddenStateError, dtype_of, register
from hiddenstate.distributions.perturbed import NOISES, PerturbedDistribution
from hiddenstate.ops.vectors import as_vector, entries

_POSITIVE: Any = biject_to(constraints.positive)


@register("noisy")
class Noisy(Cell):
    r"""Any cell with noise added to its new state (Sohl-Dickstein and Kingma 2015, section 2.3).

    .. math::

        h_{t+1} = f(h_t, x_t) + \sigma \odot \epsilon_t

    The noise is independent from step to step and from entry to entry, of a location-scale `family`: "normal",
    "laplace", "logistic" or "student-t", the last with so many `degrees` of freedom. `scale` is :math:`\sigma`, one
    number or one for each entry of the state: a vector of them, or a tree of the state's form (such as a pair for an
    `LSTM`). Of complex states the real parts come first. It is learned, or with ``learn=False`` fixed; only a fixed
    one may be zero. Where all of it is fixed at zero the cell is the one inside.

    An `hs.RNN` of a noisy cell has no likelihood that could be computed exactly, and says so where one is needed.
    `hs.ParticleFilter` makes a model of it that can do everything; `hs.objectives` has bounds.
    """

    cell: Cell
    unconstrained_scale: Float[Array, " ..."] | Frozen
    family: str = eqx.field(static=True)
    degrees: float = eqx.field(static=True)
    silent: bool = eqx.field(static=True)

    def __init__(
        self, cell: Cell, scale: Any = 0.1, *, family: str = "normal", degrees: float = 4.0, learn: bool = True
    ):
        if not isinstance(cell, Cell) or isinstance(cell, Noisy):
            raise HiddenStateError(f"cell is {type(cell).__name__}; it must be a cell without noise of its own.")
        if getattr(cell, "log_space", False):
            raise HiddenStateError(
                "cell has log_space=True: its states are never negative, and noise would make them so. Take the same "
                "cell with log_space=False."
            )
        if isinstance(degrees, bool) or not isinstance(degrees, int | float) or not degrees > 0:
            raise HiddenStateError(f"degrees is {degrees!r}; it must be a positive number.")
        given = _checked_scale(cell, scale, learn)
        array = jnp.asarray(given, dtype_of(cell))
        self.cell = cell
        self.unconstrained_scale = _POSITIVE.inv(array) if learn else Frozen(array)
        self.family = one_of("family", family, tuple(NOISES))
        self.degrees = float(degrees)
        self.silent = not learn and not given.any()

    @property
    def scale(self) -> Float[Array, " ..."]:
        """The scale of the noise: one number, or one for each entry of the state as a vector."""
        kept = self.unconstrained_scale
        return kept.value if isinstance(kept, Frozen) else _POSITIVE(kept)

    @property
    def input_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the cell inside."""
        return self.cell.input_size

    @property
    def hidden_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the cell inside."""
        return self.cell.hidden_size

    @property
    def output_size(self) -> int:
        """That of the cell inside."""
        return self.cell.output_size

    def initial(self) -> State:
        """That of the cell inside, for certain: noise comes with the first step."""
        return self.cell.initial()

    def prepare(self, x: Float[Array, " input"], u: Num[Array, " inputs"] | None = None) -> Element:
        """What the input alone decides, in the cell inside."""
        return self.cell.prepare(x, u)

    def output(self, state: State) -> Float[Array, " output"]:
        """What the cell inside shows."""
        return self.cell.output(state)

    def step_distribution(self, state: State, element: Element) -> PerturbedDistribution:
        """The distribution of the next state, as a vector of all its entries."""
        return PerturbedDistribution(as_vector(self.cell.step(state, element)), self.scale, self.family, self.degrees)

    def step(self, state: State, element: Element) -> State:
        """The step of the cell inside, where the noise is fixed at zero; otherwise there is no one next state."""
        if self.silent:
            return self.cell.step(state, element)
        raise HiddenStateError(
            "the cell is Noisy: its next state is random, so that there is no exact likelihood and no one state to go "
            "on from. Take hs.ParticleFilter(rnn, particles, key=key), which is a model for all purposes; or "
            "hs.objectives.elbo, iwae or fivo for a bound, and hs.SGD(objective=hs.objectives.Bound(), "
            "validate='objective') to learn; or rnn.cell.cell, which is the cell without noise. Of layers, make "
            "the whole stack noisy: Noisy(hs.Stack(...), scale)."
        )


def _checked_scale(cell: Cell, scale: Any, learn: bool) -> np.ndarray:
    """One number, or as many as the state has entries."""
    state = jax.eval_shape(cell.initial)
    size = entries(state)
    takes = f"one number, or one for each of the {size} entries of the state"
    try:
        tree = jax.tree.map(lambda leaf: np.asarray(leaf, float), scale)
        parted = jax.tree.structure(tree) == jax.tree.structure(state) and jax.tree.structure(tree).num_nodes > 1
        given = np.concatenate([leaf.ravel() for leaf in jax.tree.leaves(tree)]) if parted else np.asarray(scale, float)
    except (TypeError, ValueError):
        raise HiddenStateError(f"scale is {scale!r}; it must be {takes}.") from None
    if given.shape not in ((), (size,)):
        raise HiddenStateError(f"scale has shape {given.shape}; it must be {takes}.")
    if not np.isfinite(given).all() or (given < 0).any() or (learn and (given == 0).any()):
        due = "positive (zero only with learn=False)" if learn else "zero or more"
        raise HiddenStateError(f"scale is {scale!r}; it must be {due}, and finite.")
    return given
