"""Tools that show what a hidden state knows: of any model, by its contract alone."""

from hiddenstate.inspect.graphs import example_graph, graph
from hiddenstate.inspect.independence import Independence, Statement, independences, independent
from hiddenstate.inspect.joint import Joint, Marginal, log_joint, marginal, sample_joint

__all__ = [
    "Independence",
    "Joint",
    "Marginal",
    "Statement",
    "example_graph",
    "graph",
    "independences",
    "independent",
    "log_joint",
    "marginal",
    "sample_joint",
]
