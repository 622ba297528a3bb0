"""Axis names and aliases, said once.

Axes in annotations: ``time`` steps of one sequence, ``hidden`` units of a state, ``input`` entries of
the vector a cell reads, ``parameter`` entries of the vector a head reads, ``event`` entries of one
observation. A leading ``sequence`` axis is the driver's business and never appears in model code.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from jaxtyping import Array, Float, Inexact, Key, Num, PRNGKeyArray, PyTree, Shaped

__all__ = [
    "Array",
    "Element",
    "Float",
    "Inexact",
    "Initialiser",
    "Key",
    "Num",
    "PRNGKeyArray",
    "PyTree",
    "Shaped",
    "State",
]

State: TypeAlias = PyTree
"""What the next step needs of the past: any tree of arrays of fixed shapes."""

Element: TypeAlias = PyTree
"""All that can be computed from one observation before the state is known."""

Initialiser: TypeAlias = Callable[[PRNGKeyArray, tuple[int, ...]], Any]
"""A key and a shape to an array of initial weights."""
