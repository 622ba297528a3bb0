r"""The graphical model behind a sequence model: which variable depends on which, over so many steps.

A recurrent network is a Bayesian network over observations and hidden states (Choe, Shin and Spencer 2017, section 3.1
and figure 3) in which the states have point masses for conditionals:

.. math::

    p(x_{1:T}, h_{1:T}) = \delta(h_1 = h_{\text{initial}}) \prod_t p(x_t \mid h_t)\,
    \prod_t \delta(h_{t+1} = f(h_t, x_t))

Here the state at t has seen :math:`x_1 \ldots x_{t-1}` and predicts :math:`x_t`; the paper's :math:`H_t` has seen
:math:`x_t` and is :math:`H_{t+1}` here. The paper leaves the distribution of :math:`X_1` open (remark 1); here it is
that of the first read-out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import networkx as nx
from numpyro.distributions import Delta

from hiddenstate.core import HiddenStateError, SequenceModel, dtype_of, has, name_of
from hiddenstate.inference.observations import prototype, refuse_conditional
from hiddenstate.inference.simulate import check_counts

Kind = Literal["observed", "hidden", "input"]
Conditional = Literal["random", "delta", "given"]
View = Literal["generative", "recurrence"]

EXAMPLES = ("rnn", "hmm", "particle-filter", "switching")
"""The graphs that `example_graph` knows."""

SHOWN_PARTICLES = 3


@dataclass(frozen=True)
class Variable:
    """A variable that is there at every step: what it is called and how it comes about, given its parents.

    There may be several `copies` of it at a step. One that is only a stage on the way to the next step has
    ``between=True``: it is missing at the last step. `first` says how it comes about at the first step, where that
    differs.
    """

    letter: str
    kind: Kind
    conditional: Conditional
    copies: int = 1
    between: bool = False
    first: Conditional | None = None


@dataclass(frozen=True)
class Arrow:
    """An arrow that is there at every step, from a variable to one `lag` steps later.

    Between variables with several copies it goes from each to its own counterpart only, or with ``crossing=True`` to
    all. What it stands for is its `role`.
    """

    source: str
    target: str
    lag: int
    role: str
    crossing: bool = True


@dataclass(frozen=True)
class Pattern:
    """What repeats itself at every step of a graph; `state` is the variable from which observations are predicted."""

    name: str
    state: str
    variables: tuple[Variable, ...]
    arrows: tuple[Arrow, ...]


def graph(model: Any, steps: int, *, view: View = "generative", particles: int = SHOWN_PARTICLES) -> nx.DiGraph:
    """The graphical model of `steps` steps: one node for every variable, one arrow for every dependence.

    Observations are X1, X2, ...; the states of a network H1, H2, ..., those of a latent model Z1, Z2, ...; inputs U1,
    U2, .... The state is all that the next step needs: of an LSTM both vectors, of a stack all layers. Nodes have the
    attributes `variable` (the letter), `time`, `kind` (observed, hidden or input) and `conditional`: "random", "delta"
    where the node is a function of its parents, "given" for inputs. Arrows have a `role`, for example "update" or
    "readout". The graph keeps the model, so that `sample_joint`, `log_joint` and `marginal` know the conditionals.

    For a particle filter it shows the particles as what stands for the hidden state (Choe, Shin and Spencer 2017,
    figure 4), at most so many as `particles` says: H1(2) is the second particle that predicts X1, and R1(2) the second
    that was chosen after X1 was seen. With ``view="recurrence"`` a latent model or a particle filter is shown as the
    network that it is in this library: its belief, or its particles with their seed, is a state H with point masses
    for conditionals.
    """
    check_counts(steps=steps, particles=particles)
    if view not in ("generative", "recurrence"):
        raise HiddenStateError(f"view is {view!r}; it must be 'generative' or 'recurrence'.")
    pattern = pattern_of(model, view, particles)
    return unfold(pattern, steps, model)


def example_graph(name: str, steps: int) -> nx.DiGraph:
    """The graph of a textbook model, without numbers: "rnn", "hmm", "particle-filter" or "switching".

    The last is the switching model behind minGRU: a gate Z_t says whether the state S_t is copied from the one before
    or drawn anew, and X_t comes from S_t.
    """
    check_counts(steps=steps)
    return unfold(example_pattern(name), steps, None)


def example_pattern(name: str) -> Pattern:
    """What repeats itself in the example of that name."""
    patterns = {
        "rnn": _recurrence_pattern("rnn", feedback=True, inputs=False),
        "hmm": _latent_pattern("hmm", inputs=False),
        "particle-filter": _particle_pattern("particle-filter", SHOWN_PARTICLES, inputs=False, looking=False),
        "switching": _SWITCHING,
    }
    if name not in patterns:
        raise HiddenStateError(f"name is {name!r}; it must be one of {', '.join(EXAMPLES)}.")
    return patterns[name]


def pattern_of(model: Any, view: View = "generative", particles: int = SHOWN_PARTICLES) -> Pattern:
    """What repeats itself at every step of the graph of a model, found from its capabilities."""
    refuse_conditional(model)
    hidden, cloud = getattr(model, "model", None), getattr(model, "particles", None)
    if view == "generative" and isinstance(cloud, int) and (has(hidden, "latent_next") or has(hidden, "latent_update")):
        shown = min(particles, cloud)
        looking = has(hidden, "latent_update") or not getattr(getattr(model, "scheme", None), "holds_next", True)
        return _particle_pattern(name_of(model), shown, inputs=bool(model.inputs), looking=looking)
    if view == "generative" and (has(model, "latent_next") or has(model, "smooth")):
        emission = getattr(model, "emission", None)
        history, memory = getattr(emission, "history", 0), getattr(emission, "memory", 0)
        return _latent_pattern(name_of(model), inputs=bool(model.inputs), history=history, memory=memory)
    if not isinstance(model, SequenceModel):
        known = repr(model) if isinstance(model, str | int | float | None) else f"of the class {name_of(model)}"
        raise HiddenStateError(
            f"model is {known}; it must be a model of sequences, such as hs.RNN, hs.HMM or hs.ParticleFilter."
        )
    return _recurrence_pattern(
        name_of(model),
        feedback=not has(model, "state_after"),
        inputs=bool(model.inputs),
        noisy=view == "generative" and is_noisy_update(model),
    )


def is_noisy_update(model: Any) -> bool:
    """Whether the next state of a network is drawn around what its cell computes, rather than computed."""
    if not has(model, "latent_update"):
        return False

    def update(model):
        x, u = jnp.zeros(event.event_shape, kind), jnp.zeros(model.inputs) if model.inputs else None
        first: Any = model.latent_initial().mean
        return model.latent_update(first, model.prepare(x, u))

    event = prototype(model)
    kind = jnp.int32 if event.is_discrete else dtype_of(model)
    return not isinstance(eqx.filter_eval_shape(update, model), Delta)


def check_graph(graph: Any) -> None:
    """Raise HiddenStateError if it is not a graph that `graph` or `example_graph` made."""
    if not isinstance(graph, nx.DiGraph) or "pattern" not in graph.graph:
        raise HiddenStateError(
            f"graph is {type(graph).__name__}; it must be what hs.inspect.graph(model, steps) gives."
        )


def unfold(pattern: Pattern, steps: int, model: Any) -> nx.DiGraph:
    """The pattern, repeated over so many steps."""
    made = nx.DiGraph(model=model, pattern=pattern, steps=steps)
    for time in range(1, steps + 1):
        for variable in pattern.variables:
            for name in _names(variable, time, steps):
                made.add_node(
                    name,
                    variable=variable.letter,
                    time=time,
                    kind=variable.kind,
                    conditional=(time == 1 and variable.first) or variable.conditional,
                )
    variables = {variable.letter: variable for variable in pattern.variables}
    for arrow in pattern.arrows:
        for time in range(1, steps + 1 - arrow.lag):
            sources = _names(variables[arrow.source], time, steps)
            targets = _names(variables[arrow.target], time + arrow.lag, steps)
            made.add_edges_from(_pairs(sources, targets, arrow.crossing), role=arrow.role)
    return made


def _pairs(sources: list[str], targets: list[str], crossing: bool) -> Iterator[tuple[str, str]]:
    if not crossing:
        return iter(list(zip(sources, targets, strict=False)))
    return ((source, target) for source in sources for target in targets)


def _names(variable: Variable, time: int, steps: int) -> list[str]:
    if variable.between and time == steps:
        return []
    if variable.copies == 1:
        return [f"{variable.letter}{time}"]
    return [f"{variable.letter}{time}({copy})" for copy in range(1, variable.copies + 1)]


# -- the patterns --------------------------------------------------------------------------------------------

_OBSERVED = Variable("X", "observed", "random")
_INPUT = Variable("U", "input", "given")


def _recurrence_pattern(name: str, *, feedback: bool, inputs: bool, noisy: bool = False) -> Pattern:
    """Figure 3: an update from state and observation, a read-out. Without feedback the state forgets the one before."""
    arrows = [Arrow("H", "X", 0, "readout"), Arrow("X", "H", 1, "update")]
    if feedback:
        arrows.append(Arrow("H", "H", 1, "update"))
    if inputs:
        arrows += [Arrow("U", "H", 1, "update"), Arrow("U", "X", 0, "readout")]
    state = Variable("H", "hidden", "random", first="delta") if noisy else Variable("H", "hidden", "delta")
    variables = (state, _OBSERVED)
    return Pattern(name, "H", variables + ((_INPUT,) if inputs else ()), tuple(arrows))


def _latent_pattern(name: str, *, inputs: bool, history: int = 0, memory: int = 0) -> Pattern:
    """Figure 2: a Markov chain of hidden variables, an emission from each.

    The emission may depend on the last `history` observations too, and on the `memory` hidden variables before.
    """
    arrows = [Arrow("Z", "X", 0, "emission"), Arrow("Z", "Z", 1, "transition")]
    arrows += [Arrow("X", "X", lag, "emission") for lag in range(1, history + 1)]
    arrows += [Arrow("Z", "X", lag, "emission") for lag in range(1, memory + 1)]
    if inputs:
        arrows += [Arrow("U", "Z", 1, "transition"), Arrow("U", "X", 0, "emission")]
    variables = (Variable("Z", "hidden", "random"), _OBSERVED)
    return Pattern(name, "Z", variables + ((_INPUT,) if inputs else ()), tuple(arrows))


def _particle_pattern(name: str, particles: int, *, inputs: bool, looking: bool) -> Pattern:
    """Figure 4, in the order of this library: simulate the observation, choose who survives it, move these on.

    A proposal that looks at the observation also moves them by it.
    """
    arrows = [
        Arrow("H", "X", 0, "forward simulation"),
        Arrow("H", "R", 0, "resampling"),
        Arrow("X", "R", 0, "resampling"),
        Arrow("R", "H", 1, "propagation", crossing=False),
    ]
    if looking:
        arrows.append(Arrow("X", "H", 1, "propagation"))
    if inputs:
        arrows += [
            Arrow("U", "X", 0, "forward simulation"),
            Arrow("U", "R", 0, "resampling"),
            Arrow("U", "H", 1, "propagation"),
        ]
    variables = (
        Variable("H", "hidden", "random", particles),
        Variable("R", "hidden", "random", particles, between=True),
        _OBSERVED,
    )
    return Pattern(name, "H", variables + ((_INPUT,) if inputs else ()), tuple(arrows))


_SWITCHING = Pattern(
    "switching",
    "S",
    (Variable("Z", "hidden", "random"), Variable("S", "hidden", "random"), _OBSERVED),
    (Arrow("Z", "S", 0, "switch"), Arrow("S", "S", 1, "copy"), Arrow("S", "X", 0, "emission")),
)
