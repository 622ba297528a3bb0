"""Cells one above the other."""

from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax

from hiddenstate._types import Array, Element, Float, Num, PRNGKeyArray, Shaped, State
from hiddenstate.cells import Cell, Read
from hiddenstate.core import HiddenStateError, own, register
from hiddenstate.native.streaming import StreamedLayer
from hiddenstate.networks.bidirectional import Bidirectional, refuse_bidirectional
from hiddenstate.networks.dropout import Dropout
from hiddenstate.networks.feed_forward import FeedForward
from hiddenstate.strategies import Auto, Strategy

register("layer-norm")(eqx.nn.LayerNorm)


@register("stack")
class Stack(Cell):
    r"""A deep recurrent network: what one layer shows is the input of the next.

    .. math::

        h^1_{t+1} = f^1(h^1_t, x_t), \qquad h^l_{t+1} = f^l(h^l_t, s(y^{l-1}_{t+1})), \qquad
        y^l_t = \mathrm{output}(h^l_t) + [\,y^{l-1}_t\,]

    A stack is a cell: its state is the tuple of its layers' states and it shows what its last layer shows. Over time
    it runs layer by layer, each of them over all steps at once, so that the input products of every layer are one
    large product and associative cells run in parallel; one observation at a time it goes through all layers.

    Between layers, :math:`s` is, in this order, what is switched on of: `norm`, layer normalisation (Ba et al. 2016);
    `softmax`, which makes a distribution of what a layer shows, so that the states below stay readable as
    log-probabilities; `dropout`, the rate of entries left out while learning, one choice for a
    whole sequence. With `residual` every layer from the second on adds what it shows to what it read. With
    `feedforward` what every layer shows, the last one too, goes through a `FeedForward` of so many times its width,
    drawn with `key`: cells whose gates see the input only need it most (Feng et al. 2024 put one behind each).

    A layer may also be a `Bidirectional`; the stack then reads whole sequences only.
    """

    cells: tuple[Cell | Bidirectional, ...]
    norms: tuple[eqx.nn.LayerNorm, ...] | None
    drop: Dropout | None
    residual: bool = eqx.field(static=True)
    softmax: bool = eqx.field(static=True)
    feeds: tuple[FeedForward, ...] | None = None

    def __init__(
        self,
        layers: Sequence[Cell | Bidirectional],
        *,
        residual: bool = False,
        norm: bool = False,
        dropout: float = 0.0,
        softmax: bool = False,
        feedforward: int = 0,
        key: PRNGKeyArray | None = None,
    ):
        layers = tuple(layers)
        _check(layers, residual)
        self.cells = layers
        self.norms = tuple(eqx.nn.LayerNorm(layer.output_size) for layer in layers[:-1]) if norm else None
        self.drop = Dropout(dropout) if dropout else None
        self.residual = residual
        self.softmax = softmax
        self.feeds = _feeds(layers, feedforward, key)

    @property
    def input_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the first layer."""
        return self.cells[0].input_size

    @property
    def hidden_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What the last layer shows."""
        return self.cells[-1].output_size

    def initial(self) -> State:
        """The initial state of every layer."""
        return tuple(layer.initial() for layer in self.layers())

    @property
    def feedforward(self) -> int:
        """How many times as wide as a layer the feed-forward part behind it is; 0 where there is none."""
        if self.feeds is None:
            return 0
        size, units = self.feeds[0].out_weight.shape[-2:]
        return units // size

    @property
    def streamed(self) -> tuple[StreamedLayer, ...]:
        """What a compiled stream takes of its layers, where nothing stands between them."""
        dropping = self.drop is not None and self.drop.key is not None
        if self.norms is not None or self.residual or self.softmax or self.feeds is not None or dropping:
            raise AttributeError("a stack with more between its layers than their outputs has no compiled stream.")
        return tuple(layer for cell in self.cells for layer in own(cell, "streamed"))

    def prepare(self, x: Float[Array, " input"], u: Num[Array, " inputs"] | None = None) -> Element:
        """The first layer's element."""
        return self.layers()[0].prepare(x, u)

    def step(self, state: State, element: Element) -> State:
        """One step of every layer, from the first to the last."""
        new: tuple[State, ...] = ()
        for number, (layer, old) in enumerate(zip(self.layers(), state, strict=True)):
            new += (layer.step(old, element if number == 0 else self.between(number, new)),)
        return new

    def output(self, state: State) -> Float[Array, " output"]:
        """What the last layer shows, with what those below show where there are residual connections."""
        if not self.residual:
            return self._feed(len(state) - 1, self.cells[-1].output(state[-1]))
        shown = self._feed(0, self.cells[0].output(state[0]))
        for number, (layer, h) in enumerate(zip(self.cells[1:], state[1:], strict=False), 1):
            shown = self._feed(number, shown + layer.output(h))
        return shown

    def layers(self) -> tuple[Cell, ...]:
        """The cells, from the first to the last."""
        refuse_bidirectional(self.cells, "run one step at a time")
        return self.cells  # pyright: ignore[reportReturnType]

    def between(self, number: int, states: tuple[State, ...]) -> Element:
        """The element of layer `number`, from the new states of all layers below."""
        below = eqx.tree_at(lambda s: s.cells, self, self.cells[:number]).output(states[:number])
        return self.layers()[number].prepare(self._enter(number, below))

    def read(
        self, xs: Float[Array, "time input"], valid: Shaped[Array, " time"] | None = None, strategy: Strategy = Auto()
    ) -> Read:
        """What the last layer shows at every step of one sequence, and the last state of each layer."""
        shown, finals = xs, []
        for number, layer in enumerate(self.cells):
            inputs = shown if number == 0 else jax.vmap(lambda y, n=number: self._enter(n, y))(shown)
            outputs, final = layer.read(inputs, valid, strategy)
            shown = shown + outputs if self.residual and number else outputs
            if self.feeds is not None:
                shown = jax.vmap(self.feeds[number])(shown)
            finals.append(final)
        return Read(shown, tuple(finals))

    def _feed(self, number: int, shown: Float[Array, " size"]) -> Float[Array, " size"]:
        """What the feed-forward part behind layer `number` makes of what is shown."""
        return shown if self.feeds is None else self.feeds[number](shown)

    def _enter(self, number: int, below: Float[Array, " size"]) -> Float[Array, " size"]:
        """What layer `number` reads of what those below show."""
        if self.norms is not None:
            below = self.norms[number - 1](below)
        if self.softmax:
            below = jax.nn.softmax(below)
        return below if self.drop is None else _apart(self.drop, number)(below)


def _feeds(layers: tuple, factor: int, key: PRNGKeyArray | None) -> tuple[FeedForward, ...] | None:
    """One for every layer, `factor` times as wide inside as what the layer shows."""
    if isinstance(factor, bool) or not isinstance(factor, int) or factor < 0:
        raise HiddenStateError(f"feedforward is {factor!r}; it must be a whole number of at least 0.")
    if factor == 0:
        return None
    if key is None:
        raise HiddenStateError(f"feedforward is {factor}, so the stack draws weights of its own; give it a key.")
    keys = jax.random.split(key, len(layers))
    return tuple(
        FeedForward(layer.output_size, factor * layer.output_size, key=k) for layer, k in zip(layers, keys, strict=True)
    )


def _apart(drop: Dropout, number: int) -> Dropout:
    """The dropout of one layer: the same rate, a mask of its own."""
    return drop if drop.key is None else drop.with_key(jax.random.fold_in(drop.key, number))


def _check(layers: tuple, residual: bool) -> None:
    if not layers:
        raise HiddenStateError("a stack needs at least one layer.")
    for number, layer in enumerate(layers):
        if not isinstance(layer, Cell | Bidirectional):
            raise HiddenStateError(
                f"layer {number} is a {type(layer).__name__}; it must be a cell, such as hs.cells.GRU, or an "
                "hs.Bidirectional."
            )
    for number, (below, above) in enumerate(pairwise(layers), 1):
        if above.input_size != below.output_size:
            raise HiddenStateError(
                f"layer {number} has input_size {above.input_size}, but layer {number - 1} shows {below.output_size} "
                "numbers; they must be equal."
            )
        if residual and above.output_size != below.output_size:
            raise HiddenStateError(
                f"layer {number} shows {above.output_size} numbers and layer {number - 1} {below.output_size}; "
                "residual connections add them, so all must be equal."
            )
