r"""Which variables of a graphical model are independent given others, and whether the arrows alone say so.

Two sets of variables are independent given a third, whatever the conditionals are, if the third d-separates them (Pearl
1988). Where some nodes are functions of their parents, more holds: a node that the given ones determine is as good as
given. Geiger, Verma and Pearl (1990) call this D-separation. In a recurrent network it makes all the difference: given
H_t and X_t, H_{t+1} is independent of what comes later (proposition 4 of Choe, Shin and Spencer 2017) only since it is
computed from them, while X_t is independent of the past given H_t by the arrows alone.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import networkx as nx

from hiddenstate.core import HiddenStateError
from hiddenstate.inspect.graphs import check_graph


@dataclass(frozen=True)
class Independence:
    """Whether variables `a` are independent of `b` given others, and why.

    `because` is "structure" where the arrows alone say so, "determinism" where it also takes that some variables are
    functions of others, None where the graph does not say it. Then `trail` is a way along which the one tells of the
    other. It is about all models with this graph: one whose conditionals happen to cancel may be independent still.
    """

    a: tuple[str, ...]
    b: tuple[str, ...]
    given: tuple[str, ...]
    because: Literal["structure", "determinism"] | None
    trail: str | None

    @property
    def holds(self) -> bool:
        """Whether they are independent."""
        return self.because is not None

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        behind = f" given {_listed(self.given)}" if self.given else ""
        if self.because == "structure":
            return f"{_listed(self.a)} independent of {_listed(self.b)}{behind}: by the structure of the graph."
        if self.because == "determinism":
            return (
                f"{_listed(self.a)} independent of {_listed(self.b)}{behind}: not by structure, only since "
                "some variables are functions of others."
            )
        return f"{_listed(self.a)} not independent of {_listed(self.b)}{behind}: {self.trail} is open."


@dataclass(frozen=True)
class Statement:
    """A sentence about all steps, and what the graph says of it at each of them."""

    sentence: str
    cases: tuple[Independence, ...]

    @property
    def because(self) -> Literal["structure", "determinism"] | None:
        """The weakest reason of all steps; None where it does not hold at one."""
        found = {case.because for case in self.cases}
        if None in found:
            return None
        return "determinism" if "determinism" in found else "structure"

    @property
    def holds(self) -> bool:
        """Whether it holds at all steps."""
        return self.because is not None

    def __str__(self) -> str:
        verdicts = {
            "structure": "holds by structure",
            "determinism": "holds only by determinism",
            None: "does not hold",
        }
        return f"{self.sentence}: {verdicts[self.because]}"


def independent(
    graph: nx.DiGraph, a: str | Iterable[str], b: str | Iterable[str], given: str | Iterable[str] = ()
) -> Independence:
    """Whether the variables `a` are independent of `b` given others, in every model with this graph.

    Each is the name of a node or several: ``independent(graph, "X3", ["X1", "X2"], given="H3")``. Inputs are always
    given. Of a variable that is given, or determined by those that are, everything is independent.
    """
    asked = _nodes(graph, a, "a"), _nodes(graph, b, "b"), _nodes(graph, given, "given")
    for name, nodes in zip(("a", "b"), asked, strict=False):
        if not nodes:
            raise HiddenStateError(f"{name} is empty; it must name at least one variable.")
    inputs = {node for node, kind in graph.nodes(data="kind") if kind == "input"}
    fixed = {*asked[2], *inputs}
    if _separated(graph, asked[0], asked[1], fixed):
        return Independence(*asked, "structure", None)
    known = determined(graph, fixed)
    if _separated(graph, asked[0], asked[1], known):
        return Independence(*asked, "determinism", None)
    return Independence(*asked, None, _open_trail(graph, asked[0], asked[1], fixed, known))


def determined(graph: nx.DiGraph, given: Iterable[str]) -> set[str]:
    """The given variables, and all that are functions of them."""
    known = set(given)
    for node in nx.topological_sort(graph):
        if graph.nodes[node]["conditional"] == "delta" and known.issuperset(graph.predecessors(node)):
            known.add(node)
    return known


def independences(graph: nx.DiGraph) -> list[Statement]:
    """What is said of recurrent networks and state space models, checked at every step of this graph.

    With H the state of the graph, whatever its letter: two statements that follow from the arrows of a network
    (section 3.1 of Choe, Shin and Spencer 2017), two that only follow from determinism (their proposition 4, and the
    same with the past), that the observations determine the state, and two that hold for few models.
    """
    check_graph(graph)
    steps, state = graph.graph["steps"], graph.graph["pattern"].state
    observed = {time: _at(graph, "X", time) for time in range(1, steps + 1)}
    hidden = {time: _at(graph, state, time) for time in range(1, steps + 1)}

    def seen(start: int, stop: int) -> list[str]:
        return [node for time in range(max(start, 1), min(stop, steps + 1)) for node in observed[time]]

    def stated(sentence: str, cases: Iterable[tuple[list[str], list[str], list[str]]]) -> Statement:
        return Statement(
            sentence.replace("H", state), tuple(independent(graph, *case) for case in cases if case[0] and case[1])
        )

    later = range(1, steps)
    now = {t: [*hidden[t], *observed[t]] for t in observed}
    past, future = {t: seen(1, t) for t in observed}, {t: seen(t + 1, steps + 1) for t in observed}
    return [
        stated("X_t from X_<t given H_t", ((observed[t], past[t], hidden[t]) for t in observed)),
        stated("H_t+1 from X_<t given H_t, X_t", ((hidden[t + 1], past[t], now[t]) for t in later)),
        stated("H_t+1 from X_>t given H_t, X_t", ((hidden[t + 1], future[t], now[t]) for t in later)),
        stated(
            "H_t+1 from X_<t and X_>t given H_t, X_t",
            ((hidden[t + 1], past[t] + future[t], now[t]) for t in later if past[t]),
        ),
        stated("H_t from X_>=t given X_<t", ((hidden[t], seen(t, steps + 1), past[t]) for t in observed)),
        stated(
            "X_t from X_<t-1 given X_t-1", ((observed[t], seen(1, t - 1), observed[t - 1]) for t in observed if t > 2)
        ),
        stated("X_t from X_<t", ((observed[t], past[t], []) for t in observed)),
    ]


def _at(graph: nx.DiGraph, letter: str, time: int) -> list[str]:
    return [n for n, data in graph.nodes(data=True) if (data["variable"], data["time"]) == (letter, time)]


def _separated(graph: nx.DiGraph, a: Iterable[str], b: Iterable[str], known: set[str]) -> bool:
    """d-separation, with what is known left out of both sides."""
    a, b = set(a) - known, set(b) - known
    if not a or not b:
        return True
    return not a & b and nx.is_d_separator(graph, a, b, known)


def _open_trail(graph: nx.DiGraph, a: Iterable[str], b: Iterable[str], given: set[str], known: set[str]) -> str:
    """The shortest trail along which `a` tells of `b`, with its arrows.

    A node where two arrows meet lets through what is given or has a given descendant; any other what is not known.
    """
    ends = set(b) - known
    opened = given.union(*(nx.ancestors(graph, node) for node in given))
    starts = sorted(set(a) - known)
    queue = deque((node, False, node) for node in starts)
    reached = {(node, False) for node in starts}
    while queue:
        node, into, trail = queue.popleft()
        if node in ends:
            return trail
        through = node not in known
        ways = [(child, True, f"{trail} → {child}") for child in graph.successors(node) if through]
        if node in opened if into else through:
            ways += [(parent, False, f"{trail} ← {parent}") for parent in graph.predecessors(node)]
        for way in ways:
            if way[:2] not in reached:
                reached.add(way[:2])
                queue.append(way)
    raise AssertionError("there is a trail wherever there is no separation")


def _nodes(graph: nx.DiGraph, given: str | Iterable[str], name: str) -> tuple[str, ...]:
    check_graph(graph)
    if not isinstance(given, Iterable):
        raise HiddenStateError(f"{name} is {given!r}; it must be the name of a variable, or several.")
    nodes = (given,) if isinstance(given, str) else tuple(dict.fromkeys(given))
    for node in nodes:
        if node not in graph:
            known = list(graph)
            shown = ", ".join(known[:6]) + (f", ..., {known[-1]}" if len(known) > 6 else "")
            raise HiddenStateError(f"{name} names {node!r}, which is no variable of this graph; it has {shown}.")
    return nodes


def _listed(nodes: tuple[str, ...]) -> str:
    return ", ".join(nodes)
