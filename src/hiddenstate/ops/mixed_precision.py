"""Matrix products in bfloat16 with sums in float32, in a function that knows nothing of it."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal


def with_bfloat16_products(function: Callable) -> Callable:
    """The same function with the operands of every product of float32 arrays rounded to bfloat16, also inside loops.

    Products are summed in float32, and all else stays as it is. It is the traced program that is changed, so that a
    gradient has its own products rounded too: give this function the differentiated one.
    """

    def run(*arguments: Any) -> Any:
        traced, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        out = _evaluate(traced, jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shapes), out)

    return run


def _evaluate(traced: ClosedJaxpr, arguments: list) -> list:
    """The results of a traced program, product by product."""
    program = traced.jaxpr
    known: dict[Any, Any] = dict(zip(program.constvars, traced.consts, strict=True))
    known.update(zip(program.invars, arguments, strict=True))

    def value(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else known[atom]

    for equation in program.eqns:
        inputs = [value(atom) for atom in equation.invars]
        if equation.primitive.name == "dot_general":
            results = [_product(*inputs, **equation.params)]
        elif isinstance(called := equation.params.get("call_jaxpr"), ClosedJaxpr):
            results = _evaluate(called, inputs)  # it is differentiated already: rules of its own have had their turn
        else:
            parameters = {name: _changed(parameter) for name, parameter in equation.params.items()}
            found = equation.primitive.bind(*inputs, **parameters)
            results = found if equation.primitive.multiple_results else [found]
        known.update(zip(equation.outvars, results, strict=True))
    return [value(atom) for atom in program.outvars]


def _product(left: Any, right: Any, **parameters: Any) -> Any:
    if left.dtype == right.dtype == jnp.float32:
        left, right = left.astype(jnp.bfloat16), right.astype(jnp.bfloat16)
        parameters = {**parameters, "preferred_element_type": jnp.float32}
    names = {"dimension_numbers", "precision", "preferred_element_type", "out_sharding"}
    return jax.lax.dot_general(left, right, **{n: p for n, p in parameters.items() if n in names})


def _changed(parameter: Any) -> Any:
    """A parameter of an operation, with the products inside rounded where it is a program or holds some."""
    if isinstance(parameter, ClosedJaxpr):
        return _rounded(parameter)
    if isinstance(parameter, Jaxpr):
        return _rounded(ClosedJaxpr(parameter, [])).jaxpr if not parameter.constvars else parameter
    if isinstance(parameter, tuple) and any(isinstance(part, ClosedJaxpr | Jaxpr) for part in parameter):
        return tuple(_changed(part) for part in parameter)
    return parameter


def _rounded(traced: ClosedJaxpr) -> ClosedJaxpr:
    shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in traced.jaxpr.invars]
    return jax.make_jaxpr(lambda *arguments: _evaluate(traced, list(arguments)))(*shapes)
