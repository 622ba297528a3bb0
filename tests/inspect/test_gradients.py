"""Back-propagation through time as a linear system, against automatic differentiation of the log-probability."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import cast, partition
from hiddenstate.inspect.gradients import through_time
from laws.cases.parts import CELLS
from laws.registry import CASES
from marks import quick

TOLERANCE = {"float32": 1e-5, "float64": 1e-10}

QUICK = [
    ("vanilla, categorical", "float64"),
    ("gru, gaussian", "float32"),
    ("lstm, categorical", "float64"),
    ("skip, categorical", "float32"),
    ("linear complex, categorical", "float64"),
    ("stack of mingru, gaussian", "float64"),
    ("hmm, categorical", "float64"),
]
EVERY_CELL = [next(case for case in CASES if case.startswith(f"{cell}, ")) for cell in CELLS]
STACKS = [case for case in CASES if case.startswith("stack of")]
BELIEFS = ["hmm, gaussian", "hsmm, categorical", "switch-copy, categorical", "linear-gaussian, scalar"]


def observations(name: str) -> hs.Sequences:
    """Two short sequences, of different lengths, of what the model predicts, with the inputs that it takes."""
    grid, inputs = np.asarray(CASES[name].grid[0]), CASES[name].make(jr.key(1)).inputs
    near = grid[np.abs(grid).reshape(len(grid), -1).max(axis=1) <= 3]
    draws, lengths = np.random.default_rng(0), (6, 4)
    values = [near[draws.integers(len(near), size=length)] for length in lengths]
    known = [draws.normal(size=(length, inputs)) for length in lengths] if inputs else None
    return hs.Sequences.of(values, inputs=known)


def alike(found, due, tolerance):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(due), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * max(1.0, float(jnp.abs(other).max(initial=0))))


def every() -> list:
    others = [(name, kind) for name in [*EVERY_CELL, *STACKS, *BELIEFS] for kind in TOLERANCE]
    return quick([pytest.param(*c, id=" ".join(c)) for c in dict.fromkeys([*QUICK, *others])], len(QUICK))


@pytest.mark.parametrize(("name", "precision"), every())
def test_parameters_are_those_of_automatic_differentiation(name: str, precision: str):
    model = cast(CASES[name].make(jr.key(1)), precision)
    data = observations(name)
    learned, rest = partition(model)
    due = jax.grad(lambda part: -hs.log_prob(eqx.combine(part, rest), data, total=True))(learned)
    for method in ("parallel", "sequential"):
        alike(through_time(model, data, method=method).parameters, due, TOLERANCE[precision])


@pytest.fixture(scope="module")
def network() -> tuple[hs.RNN, hs.Sequences]:
    """A network of two units, and sequences of different lengths with a context."""
    cell_key, head_key = jr.split(jr.key(0))
    model = hs.RNN(hs.cells.Vanilla(1, 2, key=cell_key), hs.heads.Gaussian(2, None, key=head_key), initial="learned")
    draws = np.random.default_rng(1)
    return cast(model, "float64"), hs.Sequences.of([draws.normal(size=5), draws.normal(size=3)]).after([2, 0])


def test_every_part_is_that_of_a_plain_loop(network):
    model, data = network
    found = through_time(model, data)
    weight, into, bias = (
        np.asarray(a) for a in (model.cell.recurrent_weight, model.cell.input_weight, model.cell.bias)
    )
    for row, length in enumerate(data.lengths):
        xs = data.values[row, :length]
        hidden = [np.asarray(model.initial())]
        for x in xs:
            hidden.append(np.tanh(weight @ hidden[-1] + into @ np.asarray(model.head.encode(jnp.asarray(x))) + bias))
        later = np.zeros(2)
        for t in reversed(range(length)):
            jacobian = np.diag(1 - hidden[t + 1] ** 2) @ weight  # Linderman's lecture notes
            own = -np.asarray(jax.grad(lambda h, x=xs[t]: model.readout(h).log_prob(x))(jnp.asarray(hidden[t])))
            own = own * (data.context[row] <= t)
            later = jacobian.T @ later + own
            np.testing.assert_allclose(found.states[row, t], hidden[t], atol=1e-12)
            np.testing.assert_allclose(found.jacobians[row, t], jacobian, atol=1e-12)
            np.testing.assert_allclose(found.direct[row, t], own, atol=1e-12)
            np.testing.assert_allclose(found.gradients[row, t], later, atol=1e-12)


def test_behind_the_end_is_nothing(network):
    found = through_time(*network)
    for part in (found.states, found.jacobians, found.direct, found.gradients):
        assert np.isnan(part[1, 3:]).all()
        assert np.isfinite(part[0]).all()
        assert np.isfinite(part[1, :3]).all()


def test_context_counts_only_by_what_it_does_later(network):
    model, data = network
    learned, rest = partition(model)
    due = jax.grad(lambda part: -hs.log_prob(eqx.combine(part, rest), data, total=True))(learned)
    alike(through_time(model, data, method="sequential").parameters, due, 1e-12)


def test_wrong_method_is_refused_in_words(network):
    with pytest.raises(hs.HiddenStateError, match="method is 'both'; it must be one of parallel, sequential"):
        through_time(*network, method="both")
