"""What cases are made of: grids of observations, read-outs, cells, and networks of both."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import hiddenstate as hs
from hiddenstate.core import partition
from laws.laws import Limits

HIDDEN = 4
INEXACT = Limits(exact=False)  # beliefs of particles, or approximated ones


class Case(NamedTuple):
    recipe: str
    make: Callable
    grid: tuple[np.ndarray, np.ndarray]
    limits: Limits = Limits()
    """Where a law says less of it."""
    precisions: tuple[str, ...] = ("float32", "float64")
    """In which it is tested: one, by turns, where another case has the same parts in the other."""


def line(points: int = 281, reach: float = 4.4):
    """The real line by x = sinh(t): fine near zero, far out at the ends, for heavy tails."""
    t = np.linspace(-reach, reach, points)
    return np.sinh(t), np.cosh(t) * (t[1] - t[0])


def counts(highest: int):
    return np.arange(highest + 1), np.ones(highest + 1)


def plane():
    x, w = line(121)
    points = np.stack(np.meshgrid(x, x, indexing="ij"), -1).reshape(-1, 2)
    return points, np.multiply.outer(w, w).ravel()


def record():
    """A symbol of two, then a real number."""
    x, w = line(181)
    points = np.concatenate([np.stack([np.full_like(x, s), x], -1) for s in (0.0, 1.0)])
    return points, np.concatenate([w, w])


SYMBOLS = np.arange(3), np.ones(3)
BITS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), np.ones(4)

HEADS = {
    "categorical": (lambda n, key: hs.heads.Categorical(n, 3, key=key), SYMBOLS),
    "gaussian": (
        lambda n, key: hs.heads.Gaussian(n, None, "diagonal", 0.3, 0.8, dispersion="constant", key=key),
        line(),
    ),
    "gaussian state": (
        lambda n, key: hs.heads.Gaussian(n, None, key=key),
        line(),
    ),
    "bernoulli": (lambda n, key: hs.heads.Bernoulli(n, 2, key=key), BITS),
    "nade": (lambda n, key: hs.heads.NADE(n, 2, 3, key=key), BITS),
    "subset": (lambda n, key: hs.heads.Subset(n, 2, 3, key=key), BITS),
    "gaussian-full": (lambda n, key: hs.heads.Gaussian(n, 2, covariance="full", key=key), plane()),
    "student-t": (lambda n, key: hs.heads.StudentT(n, None, key=key), line(401, 11.0)),
    "poisson": (lambda n, key: hs.heads.Poisson(n, None, rate=1.5, key=key), counts(60)),
    "negative-binomial": (lambda n, key: hs.heads.NegativeBinomial(n, None, rate=1.0, key=key), counts(250)),
    "mixture-gaussian": (
        lambda n, key: hs.heads.Mixture(hs.heads.Gaussian(n, None, key=key), 3, key=key),
        line(),
    ),
    "mixture-categorical": (
        lambda n, key: hs.heads.Mixture(hs.heads.Categorical(n, 3, key=key), 2, key=key),
        SYMBOLS,
    ),
    "columns": (
        lambda n, key: hs.heads.Columns(
            [("kind", hs.heads.Categorical(n, 2, key=key)), ("size", hs.heads.Gaussian(n, None, key=key))]
        ),
        record(),
    ),
}

CELLS = {
    "vanilla": lambda i, key: hs.cells.Vanilla(i, HIDDEN, key=key),
    "vanilla relu": lambda i, key: hs.cells.Vanilla(i, HIDDEN, nonlinearity="relu", recurrent_init="kaiming", key=key),
    "leaky": lambda i, key: hs.cells.Leaky(i, HIDDEN, key=key),
    "leaky learned": lambda i, key: hs.cells.Leaky(i, HIDDEN, learn_time_constants=True, key=key),
    "skip": lambda i, key: hs.cells.SkipInTime(i, HIDDEN, lags=(1, 3), key=key),
    "gated-leaky": lambda i, key: hs.cells.GatedLeaky(i, HIDDEN, key=key),
    "gated-leaky state": lambda i, key: hs.cells.GatedLeaky(i, HIDDEN, context="state", key=key),
    "output-feedback": lambda i, key: hs.cells.OutputFeedback(i, HIDDEN, key=key),
    "gru": lambda i, key: hs.cells.GRU(i, HIDDEN, key=key),
    "gru before": lambda i, key: hs.cells.GRU(i, HIDDEN, reset="before", key=key),
    "lstm": lambda i, key: hs.cells.LSTM(i, HIDDEN, key=key),
    "lstm lecture": lambda i, key: hs.cells.LSTM(i, HIDDEN, input="sigmoid", key=key),
    "lstm peepholes": lambda i, key: hs.cells.LSTM(i, HIDDEN, peepholes=True, key=key),
    "mingru": lambda i, key: hs.cells.MinGRU(i, HIDDEN, key=key),
    "mingru log": lambda i, key: hs.cells.MinGRU(i, HIDDEN, log_space=True, key=key),
    "minlstm": lambda i, key: hs.cells.MinLSTM(i, HIDDEN, key=key),
    "minlstm log": lambda i, key: hs.cells.MinLSTM(i, HIDDEN, log_space=True, key=key),
    "linear": lambda i, key: hs.cells.DiagonalLinear(i, HIDDEN, key=key),
    "linear complex": lambda i, key: hs.cells.DiagonalLinear(i, HIDDEN, complex=True, key=key),
    "turning": lambda i, key: hs.cells.Turning(i, HIDDEN, key=key),
    "turning stochastic": lambda i, key: hs.cells.Turning(i, HIDDEN, between="stochastic", key=key),
    "vanilla signs": lambda i, key: hs.cells.Vanilla(i, HIDDEN, signs=0.5, key=key),
}


def perturbed(model, key, scale: float = 0.3):
    """The model with noise on every learned number, so that no bias or initial state is zero by chance."""
    learned, rest = partition(model)
    leaves, tree = jax.tree.flatten(learned)
    keys = jr.split(key, len(leaves))
    noisy = [a + scale * jr.normal(k, a.shape, a.dtype) for a, k in zip(leaves, keys, strict=True)]
    return eqx.combine(jax.tree.unflatten(tree, noisy), rest)


def network(cell, head, initial: str, inputs: int = 0):
    def make(key):
        width = HEADS[head][0](1, key).encoded_size
        body = CELLS[cell](width + inputs, key)
        top = HEADS[head][0](body.output_size + inputs, key)
        return perturbed(hs.RNN(body, top, initial=initial, inputs=inputs), key)

    return make


def stack(cell, head, initial: str, inputs: int = 0, **between):
    """Two layers of a cell."""

    def make(key):
        width = HEADS[head][0](1, key).encoded_size
        below = CELLS[cell](width + inputs, key)
        body = hs.Stack([below, CELLS[cell](below.output_size, jr.fold_in(key, 1))], **between, key=jr.fold_in(key, 2))
        top = HEADS[head][0](body.output_size + inputs, key)
        return perturbed(hs.RNN(body, top, initial=initial, inputs=inputs), key)

    return make


def positive_start(make):
    """Log-space cells carry states that are never negative; a learned start is made so too."""

    def positive(key):
        model = make(key)
        return model if model.start is None else eqx.tree_at(lambda m: m.start, model, jnp.abs(model.start))

    return positive


def baseline(name, data):
    return lambda key: perturbed(hs.build(name, data(), key=key), key)


PRECISIONS = ("float32", "float64")


def turn(number: int) -> tuple[str]:
    """One of the two precisions, by turns: every cell that has a name of its own is tested in both, under two heads."""
    return (PRECISIONS[number % 2],)
