"""How much arithmetic a program asks for, read from the program itself."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax

_MOVING = frozenset(
    (
        *("broadcast_in_dim", "reshape", "transpose", "squeeze", "slice", "dynamic_slice", "dynamic_update_slice"),
        *("concatenate", "pad", "rev", "gather", "split", "copy", "copy_p", "iota", "stop_gradient"),
        *("convert_element_type", "bitcast_convert_type", "device_put"),
    )
)
"""Primitives that move numbers and compute none."""


def operations(function: Callable[..., Any], *arguments: Any) -> int:
    """The number of additions, multiplications and evaluations of functions in a call, without making it.

    A product of matrices (m, k) and (k, n) counts 2 m n k, anything else once for each number; loops count as often as
    they run. Of branches the longest counts. What a compiler leaves out or recomputes is not seen.
    """
    return _of(jax.make_jaxpr(function)(*arguments).jaxpr)


def _of(program: Any) -> int:
    return sum(_equation(equation) for equation in program.eqns)


def _equation(equation: Any) -> int:
    name = equation.primitive.name
    inner = [_of(program) for program in _programs(equation)]
    if name == "scan":
        return equation.params["length"] * sum(inner)
    if name == "cond":
        return max(inner)
    if inner:
        return sum(inner)
    if name in _MOVING:
        return 0
    out = max((math.prod(variable.aval.shape) for variable in equation.outvars), default=0)
    if name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        return 2 * out * math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
    read = (math.prod(getattr(variable.aval, "shape", ())) for variable in equation.invars)
    return max(out, *read) if name.startswith(("reduce", "cum", "arg")) else out


def _programs(equation: Any) -> Iterator[Any]:
    """The programs within an equation: the body of a loop, the branches, what is called."""
    if equation.primitive.name in ("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"):
        found = [equation.params.get("call_jaxpr", equation.params.get("fun_jaxpr"))]  # the rest are derivatives
    else:
        found = [part for value in equation.params.values() for part in (value if _many(value) else (value,))]
    for part in found:
        program = getattr(part, "jaxpr", part)
        if hasattr(program, "eqns"):
            yield program


def _many(value: Any) -> bool:
    return isinstance(value, list | tuple)
