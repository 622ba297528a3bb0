"""Several particles under the dynamics of one recurrent network, and their mixture as the prediction."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from numpyro.distributions import CategoricalLogits, Distribution

from hiddenstate._types import Array, Element, Float, Num, PRNGKeyArray, Shaped, State
from hiddenstate.cells import Cell
from hiddenstate.cells.checks import number, one_of, whole
from hiddenstate.core import (
    HiddenStateError,
    Recurrence,
    SequenceModel,
    Sequences,
    Steps,
    dtype_of,
    kernel_of,
    recipe,
    recipe_named,
    register,
)
from hiddenstate.distributions import MixtureDistribution
from hiddenstate.inference.batches import rebatch
from hiddenstate.networks.build import CELLS
from hiddenstate.networks.rnn import RNN, refuse_noise
from hiddenstate.strategies import Strategy, over_time

Weighting = Literal["step", "trajectory"]
Mixing = Literal["uniform", "learned"]


class Copies(Recurrence):
    """Several states under the dynamics of one cell: all arrays of the state have a leading axis of particles.

    Where `shared`, all of them read the same element; otherwise each has its own.
    """

    cell: Cell
    count: int = eqx.field(static=True)
    shared: bool = eqx.field(static=True)

    def initial(self) -> State:
        """The cell's initial state, for every particle."""
        return self._for_all(self.cell.initial())

    def prepare(self, x: Float[Array, " input"], u: Num[Array, " inputs"] | None = None) -> Element:
        """The cell's element, for every particle where each has its own."""
        element = self.cell.prepare(x, u)
        return element if self.shared else self._for_all(element)

    def step(self, state: State, element: Element) -> State:
        """The cell's step for all particles at once."""
        return jax.vmap(self.cell.step, (0, None if self.shared else 0))(state, element)

    @property
    def combine(self) -> Callable[[Element, Element], Element]:
        """The cell's `combine`, where it has one."""
        join = self.cell.combine  # pyright: ignore[reportAttributeAccessIssue]
        return join if self.shared else jax.vmap(join)

    @property
    def widen(self) -> Callable[[Element], Element]:
        """The cell's `widen`, where it has one."""
        one = self.cell.widen  # pyright: ignore[reportAttributeAccessIssue]
        return one if self.shared else jax.vmap(one)

    @property
    def state_after(self) -> Callable[[Element], State]:
        """The cell's `state_after`, where it has one."""
        after = self.cell.state_after  # pyright: ignore[reportAttributeAccessIssue]
        return (lambda element: self._for_all(after(element))) if self.shared else jax.vmap(after)

    @property
    def run_natively(self) -> Callable[..., tuple[State, State]]:
        """The cell's kernel, mapped over particles: they are more sequences to it."""
        return jax.vmap(kernel_of(self.cell), (0, None if self.shared else 1, None), (1, 0))

    def _for_all(self, tree: Any) -> Any:
        return jax.tree.map(lambda a: jnp.broadcast_to(a, (self.count, *a.shape)), tree)


@register("particles")
class Particles(Recurrence):
    r"""The dynamics of `count` particles under one network, without a word on how much each counts.

    .. math::

        h_l^{t+1} = f(h_l^t, [\mathrm{encode}(x^t), u^t] + b_l), \qquad
        x^t \sim p(\,\cdot \mid \mathrm{head}([h_l^t, u^t] + c_l))

    The starts :math:`h_l^1` are learned, and so are the biases :math:`b_l` and :math:`c_l` where there are any.
    """

    rnn: RNN
    starts: State
    input_biases: Float[Array, "particle input"] | None
    output_biases: Float[Array, "particle hidden"] | None
    count: int = eqx.field(static=True)

    @property
    def cell(self) -> Cell:
        """The cell whose dynamics all particles follow."""
        return self.rnn.cell

    def initial(self) -> State:
        """The learned starts, with a leading axis of particles as all that is made of them."""
        return self.starts

    def prepare(self, x: Num[Array, "..."], u: Num[Array, " inputs"] | None = None) -> Element:
        """The cell's element: one for all particles, or with biases one for each."""
        if self.input_biases is None:
            return self.rnn.prepare(x, u)
        return jax.vmap(self.cell.prepare)(self.rnn.cell_input(x, u) + self.input_biases)

    def step(self, state: State, element: Element) -> State:
        """The cell's step for all particles at once."""
        return self._copies(self.cell).step(state, element)

    @property
    def combine(self) -> Callable[[Element, Element], Element]:
        """The cell's `combine`, where it has one."""
        return self._copies(self.cell).combine

    @property
    def widen(self) -> Callable[[Element], Element]:
        """The cell's `widen`, where it has one."""
        return self._copies(self.cell).widen

    @property
    def state_after(self) -> Callable[[Element], State]:
        """The cell's `state_after`, where it has one."""
        return self._copies(self.cell).state_after

    @property
    def run_natively(self) -> Callable[..., tuple[State, State]]:
        """The cell's `run_natively`, where a compiled kernel runs it."""
        return self._copies(self.cell).run_natively

    @property
    def layers(self) -> Callable[[], tuple[Copies, ...]]:
        """The cell's `layers`, where it is a stack: each with a state for every particle."""
        parts: Any = self.cell.layers  # pyright: ignore[reportAttributeAccessIssue]
        return lambda: tuple(self._copies(layer, number) for number, layer in enumerate(parts()))

    @property
    def between(self) -> Callable[[int, tuple[State, ...]], Element]:
        """The cell's `between`, where it is a stack."""
        single: Any = self.cell.between  # pyright: ignore[reportAttributeAccessIssue]
        return lambda number, states: jax.vmap(partial(single, number))(states)

    def readouts(self, state: State, u: Num[Array, " inputs"] | None = None) -> Distribution:
        """What each particle predicts: one distribution, with a batch axis of particles."""
        vectors = jax.vmap(lambda h: self.rnn.head_input(h, u))(state)
        if self.output_biases is not None:
            vectors = vectors + self.output_biases
        return rebatch(jax.vmap(self.rnn.head)(vectors), (self.count,))

    def log_probs(
        self, state: State, x: Num[Array, "..."], u: Num[Array, " inputs"] | None = None
    ) -> Float[Array, " particle"]:
        """The log-probability of the next observation `x` under each particle."""
        return self.readouts(state, u).log_prob(x)  # pyright: ignore[reportReturnType]

    def _copies(self, cell: Cell, layer: int = 0) -> Copies:
        return Copies(cell, self.count, shared=layer == 0 and self.input_biases is None)


class WeightedParticles(NamedTuple):
    """The state of a mixture of trajectories: the particles, and the logarithm of how much each of them counts."""

    particles: State
    log_weights: Float[Array, " particle"]


class Seen(NamedTuple):
    """The element of a mixture of trajectories: that of the cell, and what the particles are weighed by."""

    element: Element
    x: Num[Array, "..."]
    u: Num[Array, " inputs"] | None


@register("multi-particle")
class MultiParticle(SequenceModel):
    r"""A recurrent network with several hidden states in place of one (Sohl-Dickstein and Kingma 2015, section 3.1).

    All `particles` of them follow the dynamics of `rnn`, from starts of their own that are learned. What they predict
    together is a mixture, by one of two weightings that are different models. ``weighting="step"`` mixes anew at every
    step,

    .. math::

        p(x^{1:T}) = \prod_t \sum_l w_l\, p(x^t \mid h_l^t),

    which with :math:`w_l = 1/L` is their equation 17. ``weighting="trajectory"`` mixes whole trajectories,

    .. math::

        p(x^{1:T}) = \sum_l w_l \prod_t p(x^t \mid h_l^t), \qquad
        p(x^t \mid x^{<t}) = \sum_l w_l^t\, p(x^t \mid h_l^t), \quad
        w_l^{t+1} \propto w_l^t\, p(x^t \mid h_l^t), \quad w_l^1 = w_l,

    which is what equation 26 says: the particles are weighed by how well they predicted so far. The appendix goes
    from 26 to 17 as if they were one; but a mean of products is not the product of means, and neither bounds the
    other. Both are normalised: given the past the states are known, so that every factor is a mixture of normalised
    distributions with weights that sum to one.

    The weights are all alike, or with ``mixing="learned"`` learned. With ``bias=True`` every particle has biases of its
    own, added to what its cell reads and to what the head reads of it: without them particles come together as soon
    as the dynamics forget where they started, and the mixture is then one network only.

    The first particle starts where the `rnn` does and has no biases at first, so that one particle is the plain
    network; the others start around it, with a standard deviation of `spread`.
    """

    particles: Particles
    logits: Float[Array, " particle"] | None
    weighting: Weighting = eqx.field(static=True)

    def __init__(
        self,
        rnn: RNN,
        particles: int,
        *,
        weighting: Weighting = "step",
        mixing: Mixing = "uniform",
        bias: bool = False,
        spread: float = 0.1,
        key: PRNGKeyArray,
    ):
        if not isinstance(rnn, RNN):
            raise HiddenStateError(f"rnn is a {type(rnn).__name__}; it must be an hs.RNN.")
        refuse_noise(rnn, "MultiParticle")
        count, dtype = whole("particles", particles), dtype_of(rnn)
        one_of("weighting", weighting, ("step", "trajectory"))
        one_of("mixing", mixing, ("uniform", "learned"))
        if not isinstance(bias, bool):
            raise HiddenStateError(f"bias is {bias!r}; it must be True or False.")
        if number("spread", spread) < 0:
            raise HiddenStateError(f"spread is {spread}; it must not be negative.")
        start_key, input_key, output_key = jr.split(key, 3)
        self.particles = Particles(
            eqx.tree_at(lambda r: r.start, rnn, None, is_leaf=lambda node: node is rnn.start),
            _around(rnn.initial(), count, spread, start_key),
            _around(jnp.zeros(rnn.cell.input_size, dtype), count, spread, input_key) if bias else None,
            _around(jnp.zeros(rnn.head.hidden_size, dtype), count, spread, output_key) if bias else None,
            count,
        )
        self.logits = jnp.zeros(count, dtype) if mixing == "learned" else None
        self.weighting = weighting
        self.schema = rnn.schema
        self.inputs = rnn.inputs

    @property
    def cell(self) -> Cell:
        """The cell whose dynamics all particles follow."""
        return self.particles.cell

    @property
    def log_weights(self) -> Float[Array, " particle"]:
        """The logarithm of how much each particle counts before anything was seen; their exponentials sum to one."""
        count = self.particles.count
        logits = jnp.zeros(count, dtype_of(self)) if self.logits is None else self.logits
        return jax.nn.log_softmax(logits)

    def initial(self) -> State:
        """The starts of the particles; of a mixture of trajectories with their weights."""
        starts = self.particles.initial()
        return WeightedParticles(starts, self.log_weights) if self._weighs else starts

    def prepare(self, x: Num[Array, "..."], u: Num[Array, " inputs"] | None = None) -> Element:
        """The cell's element; of a mixture of trajectories with what the particles are weighed by."""
        element = self.particles.prepare(x, u)
        return Seen(element, x, u) if self._weighs else element

    def step(self, state: State, element: Element) -> State:
        """The cell's step for all particles at once, and their new weights where they are weighed."""
        if not self._weighs:
            return self.particles.step(state, element)
        moved = self.particles.step(state.particles, element.element)
        each = self.particles.log_probs(state.particles, element.x, element.u)
        return WeightedParticles(moved, _weighed(state.log_weights, each)[0])

    def readout(self, state: State, u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The mixture of what the particles predict."""
        mixing = CategoricalLogits(self.log_weights_at(state), validate_args=False)
        return MixtureDistribution(mixing, self.particles.readouts(self.particle_states(state), u))

    @property
    def combine(self) -> Callable[[Element, Element], Element]:
        """The cell's `combine`, where it has one and nothing is weighed by the past."""
        return self._dynamics("combine").combine

    @property
    def widen(self) -> Callable[[Element], Element]:
        """The cell's `widen`, where it has one and nothing is weighed by the past."""
        return self._dynamics("widen").widen

    @property
    def state_after(self) -> Callable[[Element], State]:
        """The cell's `state_after`, where it has one and nothing is weighed by the past."""
        return self._dynamics("state_after").state_after

    @property
    def run_natively(self) -> Callable[..., tuple[State, State]]:
        """The cell's `run_natively`, where it has one; weights by the past are found after all states."""
        kernel = self.particles.run_natively  # AttributeError where there is none
        return self._run_trajectories if self._weighs else kernel

    @property
    def layers(self) -> Callable[[], tuple[Copies, ...]]:
        """The layers of a stack, each with a state for every particle, where nothing is weighed by the past."""
        return self._dynamics("layers").layers

    @property
    def between(self) -> Callable[[int, tuple[State, ...]], Element]:
        """What one layer of a stack reads of those below, where nothing is weighed by the past."""
        return self._dynamics("between").between

    @property
    def score_sequence(self) -> Callable[[State, Steps, Strategy], tuple[Float[Array, " time"], State]]:
        """Of a mixture of trajectories: first all particles over all steps, then their weights."""
        if not self._weighs:
            raise AttributeError("score_sequence")
        return self._score_trajectories

    def particle_states(self, state: State) -> State:
        """The states of the particles, without their weights."""
        return state.particles if self._weighs else state

    def particle_vectors(self, state: State) -> Float[Array, "particle output"]:
        """What the cell shows of each particle."""
        return jax.vmap(self.cell.output)(self.particle_states(state))

    def log_weights_at(self, state: State) -> Float[Array, " particle"]:
        """The logarithm of how much each particle counts in what is predicted from this state."""
        return state.log_weights if self._weighs else self.log_weights

    def responsibilities(
        self, state: State, x: Num[Array, "..."], u: Num[Array, " inputs"] | None = None
    ) -> Float[Array, " particle"]:
        """How much each particle had to do with the observation `x`: its share in the probability of that."""
        each = self.particles.log_probs(self.particle_states(state), x, u)
        return jnp.exp(_weighed(self.log_weights_at(state), each)[0])

    @property
    def _weighs(self) -> bool:
        return self.weighting == "trajectory"

    def _dynamics(self, capability: str) -> Particles:
        """The dynamics, where they are all that there is to a state."""
        if self._weighs:
            raise AttributeError(capability)
        return self.particles

    def _run_trajectories(
        self, state: WeightedParticles, elements: Seen, valid: Shaped[Array, " time"] | None
    ) -> tuple[WeightedParticles, WeightedParticles]:
        states, final = self.particles.run_natively(state.particles, elements.element, valid)
        each = jax.vmap(self.particles.log_probs)(states, elements.x, elements.u)
        each = each if valid is None else jnp.where(valid[:, None], each, 0.0)
        last, log_weights = jax.lax.scan(lambda w, e: (_weighed(w, e)[0], w), state.log_weights, each)
        return WeightedParticles(states, log_weights), WeightedParticles(final, last)

    def _score_trajectories(
        self, state: WeightedParticles, steps: Steps, strategy: Strategy
    ) -> tuple[Float[Array, " time"], WeightedParticles]:
        def every(states: State, element: Element, x: Any, u: Any) -> Array:
            del element
            return self.particles.log_probs(states, x, u)

        each, moved = over_time(self.particles, strategy, state.particles, steps, every)
        if steps.valid is not None:
            each = jnp.where(steps.valid[:, None], each, 0.0)
        log_weights, log_probs = jax.lax.scan(_weighed, state.log_weights, each)
        return log_probs, WeightedParticles(moved, log_weights)


def _weighed(
    log_weights: Float[Array, " particle"], each: Float[Array, " particle"]
) -> tuple[Float[Array, " particle"], Float[Array, ""]]:
    """The weights after an observation that has these log-probabilities, normalised, and the mixture's own.

    An observation that is impossible under every particle says nothing of their weights.
    """
    joint = log_weights + each
    total = jax.nn.logsumexp(joint)
    possible = jnp.isfinite(total)
    return jnp.where(possible, joint - jnp.where(possible, total, 0.0), log_weights), total


def _around(centre: Any, count: int, spread: float, key: PRNGKeyArray) -> Any:
    """`count` copies of a tree of arrays: the first as it is, the others with noise of that standard deviation."""
    leaves, tree = jax.tree.flatten(centre)
    apart = []
    for leaf, own_key in zip(leaves, jr.split(key, max(1, len(leaves))), strict=False):
        noise = jr.normal(own_key, (count, *leaf.shape), leaf.dtype).at[0].set(0.0)
        apart.append(leaf + jnp.asarray(spread, leaf.dtype) * noise)
    return jax.tree.unflatten(tree, apart)


@recipe("multi-particle")
def build_multi_particle(
    data: Sequences,
    *,
    key: PRNGKeyArray,
    cell: str = "gru",
    hidden: int = 32,
    particles: int = 8,
    weighting: Weighting = "step",
    mixing: Mixing = "learned",
    bias: bool = True,
    spread: float = 0.1,
    **options: Any,
) -> MultiParticle:
    """A `MultiParticle` over the network that the recipe of this cell builds, whose options it takes.

    Each particle has `hidden` units. Weights and biases are learned unless it is said otherwise.
    """
    if cell not in CELLS:
        raise HiddenStateError(f"cell is {cell!r}; it must be one of {', '.join(CELLS)}.")
    network_key, particle_key = jr.split(key)
    rnn = recipe_named(cell)(data, key=network_key, hidden=hidden, **options)
    return MultiParticle(rnn, particles, weighting=weighting, mixing=mixing, bias=bias, spread=spread, key=particle_key)
