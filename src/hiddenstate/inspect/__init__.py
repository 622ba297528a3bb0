"""Tools that show what a hidden state knows: of any model, by its contract alone."""

from hiddenstate.inspect import beliefs, dynamics, gradients
from hiddenstate.inspect.computations import Computation, computation, computation_of
from hiddenstate.inspect.costs import Cost, CostSizes, Exponent, cost, depth, fit_exponent
from hiddenstate.inspect.diversity import Diversity, particles
from hiddenstate.inspect.duality import GaussianClasses, Layer, SymbolClasses, log_linear
from hiddenstate.inspect.graphs import example_graph, graph
from hiddenstate.inspect.homomorphisms import Homomorphism, Residual, homomorphism
from hiddenstate.inspect.independence import Independence, Statement, independences, independent
from hiddenstate.inspect.joint import Joint, Marginal, log_joint, marginal, sample_joint
from hiddenstate.inspect.posteriors import (
    MeanField,
    OnePass,
    PosteriorComparison,
    compare_posteriors,
    mean_field,
    one_pass,
)
from hiddenstate.inspect.probes import LayerProbe, Probe, probe
from hiddenstate.inspect.switching import Explicit, Switching, as_switching
from hiddenstate.inspect.switching_study import SwitchingStudy, switch_information, switching_study
from hiddenstate.inspect.variational import VariationalPosterior, variational_update

__all__ = [
    "Computation",
    "Cost",
    "CostSizes",
    "Diversity",
    "Explicit",
    "Exponent",
    "GaussianClasses",
    "Homomorphism",
    "Independence",
    "Joint",
    "Layer",
    "LayerProbe",
    "Marginal",
    "MeanField",
    "OnePass",
    "PosteriorComparison",
    "Probe",
    "Residual",
    "Statement",
    "Switching",
    "SwitchingStudy",
    "SymbolClasses",
    "VariationalPosterior",
    "as_switching",
    "beliefs",
    "compare_posteriors",
    "computation",
    "computation_of",
    "cost",
    "depth",
    "dynamics",
    "example_graph",
    "fit_exponent",
    "gradients",
    "graph",
    "homomorphism",
    "independences",
    "independent",
    "log_joint",
    "log_linear",
    "marginal",
    "mean_field",
    "one_pass",
    "particles",
    "probe",
    "sample_joint",
    "switch_information",
    "switching_study",
    "variational_update",
]
