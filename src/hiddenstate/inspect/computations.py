"""The graph that automatic differentiation walks back: the operations of a few unrolled steps, and what they read.

Tripp's lecture slides print such a graph of three steps of a small network, from its last state back to its weights and
inputs. Here it is read from the program that JAX traces, of any model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import networkx as nx

from hiddenstate.core import HiddenStateError, SequenceModel, dtype_of, name_of, partition
from hiddenstate.inference import prototype
from hiddenstate.inference.score import step_log_prob

_FOLDED = {
    "broadcast_in_dim",
    "convert_element_type",
    "copy",
    "copy_p",
    "expand_dims",
    "reduce_precision",
    "reshape",
    "squeeze",
}
"""Operations that only change the form of an array: what reads their result is shown to read what they read."""

_PROJECTION = "hiddenstate_project"
"""A matrix times a vector in the form that is one product when it is mapped: shown as the product that it is."""

_INLINED = ("jaxpr", "call_jaxpr", "fun_jaxpr")
_LOOPS = {"scan", "while", "cond"}


@dataclass(frozen=True, eq=False)
class Computation:
    """Operations and what they read, as a directed graph with arrows from what is read to what reads it.

    Every node of `graph` has the attributes `kind` (operation, parameter, observation, input or argument), `label`,
    `shape`, `step` (from 1; None where it belongs to no step) and `name`, which is that of a state or an output such as
    ``"h_2"`` or ``"loss"``, or empty. Only what a gradient passes through is there, and the leaves that it meets:
    constants, such as an initial state that is not learned, are left out, observations stand for all that is computed
    from them alone, and changes of shape are folded. `output` is the
    node that all of it leads to.
    """

    graph: nx.DiGraph
    output: int

    @property
    def operations(self) -> dict[str, int]:
        """How many operations of each kind there are, the most frequent first."""
        labels = [data["label"] for _, data in self.graph.nodes(data=True) if data["kind"] == "operation"]
        counts = {label: labels.count(label) for label in dict.fromkeys(labels)}
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    def tree(self) -> str:
        """The graph as indented text, backward from the output: below each operation stands what it reads.

        An operation that is read more than once is followed only the first time, and marked afterwards.
        """
        lines, seen = [], set()
        waiting = [(self.output, 0)]
        while waiting:
            node, depth = waiting.pop()
            readers = list(self.graph.pred[node])
            again = node in seen and bool(readers)
            lines.append("  " * depth + self.describe(node) + (" (as above)" if again else ""))
            seen.add(node)
            if not again:
                waiting += [(reader, depth + 1) for reader in reversed(readers)]
        return "\n".join(lines)

    def describe(self, node: int) -> str:
        """One node in words: its label, its name where it has one, and its shape where it has axes."""
        data = self.graph.nodes[node]
        shape = "x".join(map(str, data["shape"]))
        named = data["name"] and data["name"] != data["label"]
        return data["label"] + (f" = {data['name']}" if named else "") + (f" [{shape}]" if shape else "")

    def __str__(self) -> str:
        return self.tree()


def computation(model: SequenceModel, steps: int = 3, *, of: Literal["loss", "state"] = "loss") -> Computation:
    r"""The graph of `steps` unrolled steps of a model, back from its loss or from its last state.

    The loss is :math:`-\sum_t \log p(x_t \mid h_t)`; the last state is :math:`h_{T+1}`, which has seen all steps.

    >>> print(hs.inspect.computation(model, 2, of="state").tree())  # doctest: +SKIP
    """
    if not isinstance(model, SequenceModel):
        raise HiddenStateError(
            f"model is a {name_of(model)}; it must be a model of sequences. hs.inspect.computation_of takes a function."
        )
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise HiddenStateError(f"steps is {steps!r}; it must be a whole number, 1 or more.")
    if of not in ("loss", "state"):
        raise HiddenStateError(f"of is {of!r}; it must be 'loss' or 'state'.")
    learned, rest = partition(model)
    event = prototype(model)
    dtype = jnp.int32 if event.is_discrete else dtype_of(model)
    xs = [jax.ShapeDtypeStruct(event.event_shape, dtype)] * steps
    us = [jax.ShapeDtypeStruct((model.inputs,), dtype_of(model))] * (steps if model.inputs else 0)

    def unrolled(learned: Any, xs: list[Any], us: list[Any]) -> Any:
        return _unrolled(eqx.combine(learned, rest), xs, us, of)

    leaves = [
        *(("parameter", jax.tree_util.keystr(path, simple=True, separator="."), None) for path, _ in _paths(learned)),
        *(("observation", f"x_{t + 1}", t + 1) for t in range(steps)),
        *(("input", f"u_{t + 1}", t + 1) for t in range(len(us))),
    ]
    return _graph(unrolled, (learned, xs, us), leaves)


def computation_of(function: Callable[..., Any], *arguments: Any) -> Computation:
    """The graph of a function of arrays, back from its value, which is one array; leaves are its arguments.

    >>> print(hs.inspect.computation_of(lambda w, x: jnp.tanh(w @ x), w, x))  # doctest: +SKIP
    tanh [50]
      dot_general [50]
        argument 1 [50x100]
        argument 2 [100]
    """
    leaves = [
        ("argument", f"argument {number + 1}{jax.tree_util.keystr(path)}", None)
        for number, argument in enumerate(arguments)
        for path, _ in _paths(argument)
    ]
    return _graph(lambda *given: {"": function(*given)}, arguments, leaves)


def _paths(tree: Any) -> list[Any]:
    return jax.tree_util.tree_flatten_with_path(tree)[0]


def _unrolled(model: SequenceModel, xs: list[Any], us: list[Any], of: str) -> dict[str, Any]:
    """The loss and the states of all steps, by name; the operations of each step stand in a scope of its own."""
    state, loss = model.initial(), None
    named = {"h_1": state}
    for t, x in enumerate(xs):
        u = us[t] if us else None
        with jax.named_scope(str(t + 1)):
            element = model.prepare(x, u)
            own = -step_log_prob(model, state, element, x, u)
            loss = own if loss is None else loss + own
            if t + 1 < len(xs) or of == "state":
                state = model.step(state, element)
                named[f"h_{t + 2}"] = state
    return (named | {"loss": loss}) if of == "loss" else named


# -- from a traced program to a graph ------------------------------------------------------------------------


def _graph(function: Callable[..., dict[str, Any]], arguments: tuple, leaves: list[tuple]) -> Computation:
    """The graph of a function that gives named arrays or trees of them, of which the last one counts."""
    traced, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    reader = _Reader()
    inputs = [
        reader.add(kind, label, variable.aval.shape, step)
        for (kind, label, step), variable in zip(leaves, traced.jaxpr.invars, strict=True)
    ]
    outputs = reader.read(traced.jaxpr, inputs, None)
    names = [_name(path) for path, _ in _paths(shapes)]
    reached = {}
    for name, node in zip(names, outputs, strict=True):
        if node is not None:
            reached[name] = node
            reader.graph.nodes[node]["name"] = reader.graph.nodes[node]["name"] or name
    last = [name for name in names if name.split(" ")[0] == _last(shapes)]
    if not any(name in reached for name in last):
        raise HiddenStateError("the value does not depend on anything that has a gradient, so there is no graph.")
    ends = [reached[name] for name in last if name in reached]
    output = ends[0]
    if len(set(ends)) > 1:
        output = reader.add("operation", "state", (), None)
        reader.graph.nodes[output]["name"] = _last(shapes)
        reader.graph.add_edges_from((end, output) for end in ends)
    kept = nx.ancestors(reader.graph, output) | {output}
    reader.graph.remove_nodes_from([node for node in reader.graph if node not in kept])
    return Computation(reader.graph, output)


def _last(shapes: dict[str, Any]) -> str:
    """Of the loss and states the one that was asked for: the loss, or the last state."""
    return "loss" if "loss" in shapes else max(shapes, key=lambda name: int(name.rpartition("_")[2] or 0))


def _name(path: Any) -> str:
    """A name for one array of a named tree: that of the tree, and its place in it."""
    first, *within = path
    place = jax.tree_util.keystr(tuple(within), simple=True, separator=".")
    return first.key + (f" {place}" if place else "")


class _Reader:
    """Reads traced programs into one graph; values that no gradient meets are None."""

    def __init__(self):
        self.graph = nx.DiGraph()

    def add(self, kind: str, label: str, shape: tuple[int, ...], step: int | None) -> int:
        """A new node."""
        node = self.graph.number_of_nodes()
        self.graph.add_node(node, kind=kind, label=label, shape=tuple(shape), step=step, name="")
        return node

    def read(self, jaxpr: Any, inputs: Sequence[int | None], step: int | None) -> Sequence[int | None]:
        """The nodes of the outputs of a program whose inputs are these nodes."""
        known: dict[Any, int | None] = dict(zip(jaxpr.invars, inputs, strict=True))

        def node_of(variable: Any) -> int | None:
            return None if hasattr(variable, "val") else known.get(variable)

        for equation in jaxpr.eqns:
            read = [node_of(variable) for variable in equation.invars]
            scope = str(equation.source_info.name_stack).split("/")[0]
            found = self._equation(equation, read, int(scope) if scope.isdigit() else step)
            known.update(zip(equation.outvars, found, strict=True))
        return [node_of(variable) for variable in jaxpr.outvars]

    def _equation(self, equation: Any, read: Sequence[int | None], step: int | None) -> Sequence[int | None]:
        sources = list(dict.fromkeys(node for node in read if node is not None))
        if not sources:
            return [None] * len(equation.outvars)
        if len(sources) == 1 and self.graph.nodes[sources[0]]["kind"] in ("observation", "input"):
            return sources * len(equation.outvars)  # observations as the model encodes them
        name = equation.primitive.name
        if name == "stop_gradient":
            return [None] * len(equation.outvars)
        inner = _inner(equation)
        if inner is not None:
            return self.read(inner, read[len(read) - len(inner.invars) :], step)
        return [self._operation(name, variable, sources, step) for variable in equation.outvars]

    def _operation(self, name: str, variable: Any, sources: list[int], step: int | None) -> int | None:
        if not jnp.issubdtype(variable.aval.dtype, jnp.inexact):
            return None
        if name in _FOLDED and len(sources) == 1:
            return sources[0]
        shape = variable.aval.shape
        if name == _PROJECTION:
            name, shape, sources = "dot_general", shape[1:], sources[::-1]
        node = self.add("operation", name, shape, step)
        self.graph.add_edges_from((source, node) for source in sources)
        return node


def _inner(equation: Any) -> Any:
    """The program that an operation only wraps, None for one that is an operation of its own or a loop."""
    if equation.primitive.name in _LOOPS:
        return None
    for name in _INLINED:
        if name in equation.params:
            program = equation.params[name]
            return getattr(program, "jaxpr", program)
    return None
