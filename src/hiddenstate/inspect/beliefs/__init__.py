"""Hidden states beside beliefs: on the simplex, along principal components, over training, and step by step."""

from hiddenstate.inspect.beliefs.components import PrincipalComponents, principal
from hiddenstate.inspect.beliefs.geometry import Reachable, SimplexBeliefs, in_triangle, reachable, simplex
from hiddenstate.inspect.beliefs.settling import Synchronisation, synchronisation
from hiddenstate.inspect.beliefs.training import ProbesOverTraining, over_training, snapshots

__all__ = [
    "PrincipalComponents",
    "ProbesOverTraining",
    "Reachable",
    "SimplexBeliefs",
    "Synchronisation",
    "in_triangle",
    "over_training",
    "principal",
    "reachable",
    "simplex",
    "snapshots",
    "synchronisation",
]
