r"""What models cost: time and memory of evaluation and of the gradient, against the theory.

Linderman's lecture notes ("Computational Cost") say of a recurrent network of K units over T steps that evaluation and
gradient take :math:`O(T)` steps of :math:`O(K^2)` operations, and that the states, which the gradient needs,
take :math:`O(TK)` memory; and that inference in a hidden Markov model costs as much. This measures it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from hiddenstate._types import PRNGKeyArray
from hiddenstate.catalogue import build
from hiddenstate.core import (
    Arrays,
    DataError,
    HiddenStateError,
    SequenceModel,
    Sequences,
    StrategyError,
    checked_key,
    has,
    recipe_named,
)
from hiddenstate.inference.observations import arrays_for, prototype, sequences_for
from hiddenstate.inspect.costs.exponents import fit_exponent
from hiddenstate.inspect.costs.programs import Program, What, least_seconds, on_one_core, program
from hiddenstate.inspect.costs.sizes import FULL, CostSizes, Size, Varied
from hiddenstate.inspect.costs.waiting import depth
from hiddenstate.strategies import Associative, Auto, Sequential, Strategy, resolved

SYMBOLS = 8
MODELS = ("vanilla", "gru", "lstm", "mingru", "hmm")
STRATEGIES: dict[str, Strategy] = {
    "sequential": Sequential(),
    "chunked": Sequential(checkpoint=True),
    "associative": Associative(),
    "auto": Auto(),
}
WHATS: tuple[What, ...] = ("evaluation", "gradient")

MOST_NUMBERS = 2**26
"""Sizes at which a program would keep more numbers than this, a quarter of a gigabyte, are left out."""

Make = Callable[[int], SequenceModel]


@dataclass(frozen=True, eq=False)
class Cost:
    """Measured costs, and the powers of the sizes that they grow with.

    `rows` has one row a program: `model`, `strategy`, `what` (evaluation or gradient), `varied` (steps, units or batch)
    and its `size`, with `steps`, `units` and `batch`; `seconds`, the least of several runs; `compile_seconds`;
    `temporary_bytes` and `output_bytes` as the compiler says, and their sum `bytes` (null where a backend does not
    say); `operations`, counted in the program; `depth`, how many steps of the evaluation must wait for each other.

    `fits` has one row for each of these and each `measure` (seconds, bytes): the `exponent` with its standard `error`;
    the `theory`, a power of the size (null where there is none); `counted`, the exponent of the counted operations
    over the same sizes (for seconds); `overhead`, what a call costs whatever its size, where that fits better than a
    straight line.
    """

    rows: pl.DataFrame
    fits: pl.DataFrame

    def __str__(self) -> str:
        head = f"{'':32}{'':12}" + "".join(f"{_LETTERS[v]:>22}" for v in _LETTERS)
        lines = ["exponents, and in brackets the theory", head]
        for keys, part in self.fits.group_by("model", "strategy", "what", "measure", maintain_order=True):
            by_varied = {row["varied"]: row for row in part.iter_rows(named=True)}
            said = "".join(f"{_said(by_varied.get(varied)):>22}" for varied in _LETTERS)
            lines.append(f"{f'{keys[0]}, {keys[1]}':20}{keys[2]:12}{keys[3]:12}{said}")
        return "\n".join([*lines, *self._depths()])

    def _depths(self) -> list[str]:
        """Of each strategy, how many steps wait for each other in the longest sequences."""
        longest = self.rows.filter(pl.col("steps") == self.rows["steps"].max())
        found = longest.unique(["strategy", "depth"], maintain_order=True)
        return [
            f"{row['strategy']}: {row['depth']} of {row['steps']} steps wait for each other"
            for row in found.iter_rows(named=True)
        ]


_LETTERS: dict[Varied, str] = {"steps": "T, steps", "units": "K, units", "batch": "batch"}


def cost(
    models: Sequence[str] | Mapping[str, Make] = MODELS,
    *,
    key: PRNGKeyArray,
    sizes: CostSizes = FULL,
    strategies: Mapping[str, Strategy] | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> Cost:
    """Time and memory of `hs.log_prob` and of its gradient against the sizes, as exponents beside the theory.

    `models` are names as `hs.build` knows them, of which K is the number of units or hidden states; or functions of K
    that make a model, by the names they shall have. They read random symbols (real numbers, where a model takes no
    symbols), and their own parameters are random too, made with `key`. `strategies` are by default one step after the
    other, the same in chunks that the backward pass recomputes, the parallel scan, and `Auto`: a model is measured
    with those that it can follow, and at sizes at which it keeps no more than 2**26 numbers: a parallel scan over a
    hidden Markov model keeps a matrix at every step. `announce` is called with a sentence before each measurement.

    Times are those of one core (on Linux) and need a quiet machine; memory is what the compiler says, and exact. The
    theory of a time is the leading power of the operations in the program, that of memory the number of states, or of
    elements where a parallel scan keeps them, that the gradient needs.

    >>> print(hs.inspect.cost(("gru", "hmm"), key=jr.key(0)))  # doctest: +SKIP
    """
    makes = _makes(models, checked_key(key))
    rows: list[dict[str, Any]] = []
    fits: list[dict[str, Any]] = []
    for name, make in makes.items():
        made = _Made(make, checked_key(key))
        for strategy_name, strategy in (STRATEGIES if strategies is None else strategies).items():
            if not _follows(made.model(sizes.at_units), strategy, strategy_name, sizes.at_steps, strategies is None):
                continue
            for what in WHATS:
                said = {"model": name, "strategy": strategy_name, "what": what}
                compiled: dict[Size, Program] = {}
                for varied in _LETTERS:
                    ladder = [size for size in sizes.ladder(varied) if made.bearable(strategy, size)]
                    if len(ladder) < 2:
                        continue
                    announce(f"{name}, {strategy_name}, {what} against {varied}")
                    found = _measured(made, strategy, what, ladder, compiled, sizes.repeats)
                    rows += [said | {"varied": varied, "size": getattr(s, varied)} | row for s, row in found.items()]
                    fits += [said | fit for fit in _fits(made, strategy, what, varied, found)]
    if not rows:
        raise HiddenStateError("there is nothing to measure: no model can follow any of the strategies, or no sizes.")
    return Cost(pl.DataFrame(rows, infer_schema_length=None), pl.DataFrame(fits, infer_schema_length=None))


# -- what is measured ----------------------------------------------------------------------------------------


def _makes(models: Sequence[str] | Mapping[str, Make], key: PRNGKeyArray) -> Mapping[str, Make]:
    if isinstance(models, Mapping):
        return models
    if isinstance(models, str):
        raise HiddenStateError(f"models is {models!r}; it must be a list of names, or functions of K by their names.")
    return {name: _maker(name, key) for name in models}


def _maker(name: str, key: PRNGKeyArray) -> Make:
    options = [p for p in signature(recipe_named(name)).parameters if p in ("hidden", "states")]
    if not options:
        raise HiddenStateError(f"models names {name!r}, which has no number of units or states to vary.")

    def make(units: int) -> SequenceModel:
        sized: dict[str, Any] = {options[0]: units}
        steps = max(2 * SYMBOLS, units)  # a hidden Markov model wants more steps than it has states
        try:
            return build(name, _symbols(steps, 8, key), key=key, **sized)
        except DataError:
            return build(name, _reals(steps, 8, key), key=key, **sized)

    return make


def _symbols(steps: int, batch: int, key: PRNGKeyArray) -> Sequences:
    """Random symbols, each of them at least once, so that a model made for them knows all."""
    drawn = np.array(jax.random.randint(key, (batch, steps), 0, SYMBOLS))
    drawn[0, :SYMBOLS] = np.arange(SYMBOLS)
    return Sequences.padded(drawn)


def _reals(steps: int, batch: int, key: PRNGKeyArray) -> Sequences:
    return Sequences.padded(np.asarray(jax.random.normal(key, (batch, steps, 1), jnp.float32)))


def _data_for(model: SequenceModel, size: Size, key: PRNGKeyArray) -> Sequences:
    """Random observations of the kind that a model reads: symbols or counts up to their largest, or real numbers."""
    expected = prototype(model)
    shape = (size.batch, size.steps, *expected.event_shape)
    largest = getattr(expected.support, "upper_bound", None)
    if isinstance(largest, int | np.integer):
        return Sequences.padded(np.asarray(jax.random.randint(key, shape, 0, int(largest) + 1)))
    return sequences_for(model, Sequences.padded(np.asarray(jax.random.normal(key, shape, jnp.float32))))


class _Made:
    """The models of each size, made once, and random data for them."""

    def __init__(self, make: Make, key: PRNGKeyArray):
        self.make, self.key = make, key
        self._models: dict[int, SequenceModel] = {}

    def model(self, units: int) -> SequenceModel:
        if units not in self._models:
            self._models[units] = self.make(units)
        return self._models[units]

    def arrays(self, size: Size) -> Arrays:
        model = self.model(size.units)
        return jax.tree.map(jnp.asarray, arrays_for(model, _data_for(model, size, self.key)))

    def kept(self, strategy: Strategy, size: Size) -> int:
        """How many numbers of a step the gradient needs: its state, or its element as a parallel scan joins it."""
        model: Any = self.model(size.units)
        numbers = _numbers(jax.eval_shape(model.initial))
        if not isinstance(resolved(strategy, model, size.steps), Associative):
            return numbers

        def element(x: Any) -> Any:
            found = model.prepare(x)
            return model.widen(found) if has(model, "widen") else found

        return max(
            numbers, _numbers(jax.eval_shape(element, self.arrays(size._replace(steps=1, batch=1)).values[0, 0]))
        )

    def bearable(self, strategy: Strategy, size: Size) -> bool:
        """Whether what is kept at all steps of all sequences is no more than a machine should be asked for."""
        return self.kept(strategy, size) * size.steps * size.batch <= MOST_NUMBERS


def _numbers(tree: Any) -> int:
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(tree))


def _follows(model: Any, strategy: Strategy, name: str, steps: int, by_default: bool) -> bool:
    """Whether a model can follow a strategy; among the usual ones, chunks only where they differ from a plain loop."""
    try:
        resolved(strategy, model, steps)
    except StrategyError:
        return False
    chunked = by_default and name == "chunked"
    return not chunked or not has(model, "score_sequence")


def _measured(
    made: _Made, strategy: Strategy, what: What, ladder: list[Size], compiled: dict[Size, Program], repeats: int
) -> dict[Size, dict[str, Any]]:
    """What each size of a ladder costs; programs that were compiled before are used again."""
    for size in ladder:
        if size not in compiled:
            compiled[size] = program(made.model(size.units), made.arrays(size), strategy, what)
    programs = [compiled[size] for size in ladder]
    found = {}
    with on_one_core():
        least = least_seconds(programs, repeats)
    for size, each, seconds in zip(ladder, programs, least, strict=True):
        memory = each.memory
        found[size] = size._asdict() | {
            "seconds": seconds if repeats else None,
            "compile_seconds": each.compile_seconds,
            "temporary_bytes": None if memory is None else memory.temporary,
            "output_bytes": None if memory is None else memory.output,
            "bytes": None if memory is None else memory.total,
            "operations": each.operations,
            "depth": depth(made.model(size.units), strategy, size.steps),
        }
    return found


# -- exponents and theory ------------------------------------------------------------------------------------


def _fits(
    made: _Made, strategy: Strategy, what: What, varied: Varied, found: Mapping[Size, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    ladder = list(found)
    sizes = [getattr(size, varied) for size in ladder]
    fits = []
    for measure in ("seconds", "bytes"):
        costs = [found[size][measure] for size in ladder]
        if None in costs:
            continue
        fit = fit_exponent(sizes, costs)
        counted = [float(found[size]["operations"]) for size in ladder]
        timed = measure == "seconds"
        theory = _power(sizes, counted) if timed else _memory_theory(made, strategy, what, varied, ladder)
        fits.append(
            {
                "measure": measure,
                "varied": varied,
                "exponent": fit.power,
                "error": fit.error,
                "theory": theory,
                "counted": fit_exponent(sizes, counted).power if timed else None,
                "overhead": fit.overhead,
                "sizes": len(sizes),
            }
        )
    return fits


def _power(sizes: Sequence[int], amounts: Sequence[float]) -> float:
    """The leading power, as a whole number: the slope between the two largest sizes, rounded."""
    return float(round(np.log(amounts[-1] / amounts[-2]) / np.log(sizes[-1] / sizes[-2])))


def _memory_theory(made: _Made, strategy: Strategy, what: What, varied: Varied, ladder: list[Size]) -> float | None:
    """The power of memory; None where what a program keeps is no power of the size.

    All states are kept. Where time is cut in about sqrt(T) chunks, the gradient keeps one state for each, and those
    within one.
    """
    first, last = ladder[0], ladder[-1]
    model = made.model(last.units)
    chunks = {resolved(strategy, model, size.steps).chunk_length(size.steps) for size in (first, last)}
    plain = chunks == {None} or has(model, "score_sequence")
    if varied == "batch":
        return 1.0
    if varied == "units":
        return _power([size.units for size in ladder], [float(made.kept(strategy, size)) for size in ladder])
    if plain:
        return 1.0
    return 0.5 if what == "gradient" and len(chunks) > 1 and None not in chunks else None


def _said(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    theory = "" if row["theory"] is None else f" ({row['theory']:g})"
    error = "" if np.isnan(row["error"]) else f" ± {row['error']:.2f}"
    return f"{row['exponent']:.2f}{error}{theory}"
