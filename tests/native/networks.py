"""What the tests of recurrent networks' kernels share: the loop over a cell's own step, and comparisons with it."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import hiddenstate as hs
from native.kernels import assert_close, assert_threads_agree

PRECISIONS = ("float32", "float64")

Run = Callable[..., Any]


def natively(cell: Any, start: Any, elements: Any, valid: Any) -> Any:
    """All states of one sequence and the last, by the kernel."""
    return tuple(cell.run_natively(start, elements, valid))


def from_inputs(cell: Any, start: Any, inputs: Any, valid: Any) -> Any:
    """The same from what the cell reads, by the kernel that multiplies it by the weights."""
    return tuple(cell.read_natively(start, inputs, None, valid))


def loop_from_inputs(cell: Any, start: Any, inputs: Any, valid: Any) -> Any:
    """The same, by the cell's own elements and steps."""
    return loop(cell, start, jax.vmap(cell.prepare)(inputs), valid)


def loop(cell: Any, start: Any, elements: Any, valid: Any) -> Any:
    """The same, step by step."""

    def step(state, given):
        element, inside = given
        new = jax.tree.map(lambda a, b: jnp.where(inside, a, b), cell.step(state, element), state)
        return new, state

    final, states = jax.lax.scan(step, start, (elements, jnp.asarray(valid)))
    return states, final


def shaken(cell: Any, random: np.random.Generator) -> Any:
    """The cell with all parameters moved, so that none is zero; with many units by less, so that it is not chaotic."""

    def moved(a):
        size = 0.5 * min(1.0, (8 / a.shape[-1]) ** 0.5) if a.ndim > 1 else 0.5
        return a + size * random.normal(size=a.shape)

    return jax.tree.map(lambda a: moved(a) if eqx.is_inexact_array(a) else a, cell)


def cast(tree: Any, precision: str) -> Any:
    """All numbers of the tree in that precision."""
    return jax.tree.map(lambda a: jnp.asarray(a, precision) if eqx.is_inexact_array(a) else a, tree)


def batch_of(cell: Any, lengths: list[int], random: np.random.Generator) -> tuple[Any, Any, Any]:
    """Random first states and elements for so many sequences, and the mask of their steps."""
    count, time = len(lengths), max(lengths)
    draw = lambda *lead: lambda a: jnp.asarray(random.normal(size=(*lead, *a.shape)))  # noqa: E731
    start = jax.tree.map(draw(count), jax.eval_shape(cell.initial))
    element = jax.eval_shape(cell.prepare, jax.ShapeDtypeStruct((cell.input_size,), jnp.float64))
    return start, draw(count, time)(element), np.arange(time) < np.array(lengths)[:, None]


def slopes_of(one: Run, seed: int) -> Run:
    """A compiled function: the states of a batch, and the gradient of their weighted sum in everything."""

    @eqx.filter_jit
    def run(cell, start, elements, valid):
        parameters, rest = eqx.partition(cell, eqx.is_inexact_array)

        def total(parameters, start, elements):
            whole = eqx.combine(parameters, rest)
            out = jax.vmap(lambda *x: one(whole, *x))(start, elements, valid)
            random = np.random.default_rng(seed)
            leaves = jax.tree.leaves(out)
            return sum((jnp.asarray(random.normal(size=a.shape), a.dtype) * a).sum() for a in leaves), out

        (_, out), slopes = jax.value_and_grad(total, (0, 1, 2), has_aux=True)(parameters, start, elements)
        return out, slopes

    return run


def inputs_of(cell: Any, lengths: list[int], random: np.random.Generator) -> tuple[Any, Any, Any]:
    """Random first states and inputs for so many sequences, and the mask of their steps."""
    count, time = len(lengths), max(lengths)
    start = jax.tree.map(lambda a: jnp.asarray(random.normal(size=(count, *a.shape))), jax.eval_shape(cell.initial))
    inputs = jnp.asarray(random.normal(size=(count, time, cell.input_size)))
    return start, inputs, np.arange(time) < np.array(lengths)[:, None]


def assert_equals_loop(cell: Any, lengths: list[int], seed: int) -> None:
    """Values and gradients are those of a loop: on all instruction sets, in both precisions, any threads."""
    random = np.random.default_rng(seed)
    cell = shaken(cell, random)
    _assert_equal(natively, loop, cell, batch_of(cell, lengths, random), seed)


def assert_reads_inputs(cell: Any, lengths: list[int], seed: int, by: Run = loop_from_inputs) -> None:
    """The same where the kernel multiplies inputs by their weights itself."""
    random = np.random.default_rng(seed)
    cell = shaken(cell, random)
    _assert_equal(from_inputs, by, cell, inputs_of(cell, lengths, random), seed)


def read_together(few: int, *many: int) -> list[Any]:
    """Units and lengths: with few units inputs of 48 steps are read at once, with many units and sequences of fewer."""
    return [(few, [110, 49, 48, 1, 0]), *((units, [14, 13, 12, 7, 1, 0] * 2) for units in many)]


def _assert_equal(kernel: Run, oracle: Run, cell: Any, batch: tuple[Any, Any, Any], seed: int) -> None:
    *arrays, valid = batch
    for precision in PRECISIONS:
        given = cast((cell, *arrays), precision)
        expected = slopes_of(oracle, seed)(*cast(given, "float64"), valid)
        run = slopes_of(kernel, seed)
        for instructions in hs.native.instruction_sets():
            found = assert_threads_agree(lambda: run(*given, valid), instructions)  # noqa: B023
            assert_close(found, expected)


def assert_rows_are_alone(cell: Any) -> None:
    """The bits of a sequence do not depend on those it is run with, nor do those of its gradients."""
    random = np.random.default_rng(0)
    lengths = [3, 1, 2, 3, 3, 2, 1, 3, 3, 3, 2, 3, 3, 1, 3, 3, 3]
    cell = shaken(cell, random)
    for kernel, batch in ((natively, batch_of), (from_inputs, inputs_of)):
        _assert_alone(kernel, cast((cell, *batch(cell, lengths, random)), "float32"))


def _assert_alone(natively: Run, given: tuple[Any, ...]) -> None:

    @eqx.filter_jit
    def run(cell, start, elements, valid):
        def total(start, elements):
            out = jax.vmap(lambda *x: natively(cell, *x))(start, elements, valid)
            return sum((a**2).sum() for a in jax.tree.leaves(out)), out

        return jax.value_and_grad(total, (0, 1), has_aux=True)(start, elements)

    for instructions in hs.native.instruction_sets():
        with hs.native.limited(instructions=instructions, threads=1):
            (_, out), slopes = run(*given)
            for rows in (slice(0, 1), slice(1, 4), slice(4, 11)):
                (_, part), part_slopes = run(given[0], *jax.tree.map(lambda a: a[rows], given[1:]))  # noqa: B023
                some = jax.tree.map(lambda a: a[rows], (out, slopes))  # noqa: B023
                jax.tree.map(np.testing.assert_array_equal, (part, part_slopes), some)


def assert_maps(cells: list[Any]) -> None:
    """Gradients of each sequence, and of several models at once, are those of a loop."""
    random = np.random.default_rng(0)
    cells = [shaken(cell, random) for cell in cells]
    together = jax.tree.map(lambda *a: jnp.stack(a), *(eqx.filter(cell, eqx.is_inexact_array) for cell in cells))
    rest = eqx.filter(cells[0], eqx.is_inexact_array, inverse=True)
    for batch, kernel, oracle in ((batch_of, natively, loop), (inputs_of, from_inputs, loop_from_inputs)):
        _assert_maps(kernel, oracle, together, rest, batch(cells[0], [3, 2], random))


def _assert_maps(kernel: Run, oracle: Run, together: Any, rest: Any, given: tuple[Any, Any, Any]) -> None:
    def each(one):
        def total(parameters, start, elements, valid):
            out = one(eqx.combine(parameters, rest), start, elements, valid)
            return sum((a**2).sum() for a in jax.tree.leaves(out))

        of_sequences = jax.vmap(jax.grad(total, (0, 1, 2)), (None, 0, 0, 0))
        return jax.jit(jax.vmap(of_sequences, (0, None, None, None)))(together, *given)

    assert_close(each(kernel), each(oracle))
