"""Every model of the library, small, for the laws. A new model joins here: `test_every_recipe_has_joined` sees to it.

A case is a function of a key that returns the model, and the grid over which its observations are summed.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import hiddenstate as hs
from hiddenstate.core import partition
from laws.laws import LENGTH, Limits

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


def _line(points: int = 281, reach: float = 4.4):
    """The real line by x = sinh(t): fine near zero, far out at the ends, for heavy tails."""
    t = np.linspace(-reach, reach, points)
    return np.sinh(t), np.cosh(t) * (t[1] - t[0])


def _counts(highest: int):
    return np.arange(highest + 1), np.ones(highest + 1)


def _plane():
    x, w = _line(121)
    points = np.stack(np.meshgrid(x, x, indexing="ij"), -1).reshape(-1, 2)
    return points, np.multiply.outer(w, w).ravel()


def _record():
    """A symbol of two, then a real number."""
    x, w = _line(181)
    points = np.concatenate([np.stack([np.full_like(x, s), x], -1) for s in (0.0, 1.0)])
    return points, np.concatenate([w, w])


SYMBOLS = np.arange(3), np.ones(3)
BITS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), np.ones(4)

HEADS = {
    "categorical": (lambda n, key: hs.heads.Categorical(n, 3, key=key), SYMBOLS),
    "gaussian": (
        lambda n, key: hs.heads.Gaussian(n, None, "diagonal", 0.3, 0.8, dispersion="constant", key=key),
        _line(),
    ),
    "gaussian state": (
        lambda n, key: hs.heads.Gaussian(n, None, key=key),
        _line(),
    ),
    "bernoulli": (lambda n, key: hs.heads.Bernoulli(n, 2, key=key), BITS),
    "nade": (lambda n, key: hs.heads.NADE(n, 2, 3, key=key), BITS),
    "subset": (lambda n, key: hs.heads.Subset(n, 2, 3, key=key), BITS),
    "gaussian-full": (lambda n, key: hs.heads.Gaussian(n, 2, covariance="full", key=key), _plane()),
    "student-t": (lambda n, key: hs.heads.StudentT(n, None, key=key), _line(401, 11.0)),
    "poisson": (lambda n, key: hs.heads.Poisson(n, None, rate=1.5, key=key), _counts(60)),
    "negative-binomial": (lambda n, key: hs.heads.NegativeBinomial(n, None, rate=1.0, key=key), _counts(250)),
    "mixture-gaussian": (
        lambda n, key: hs.heads.Mixture(hs.heads.Gaussian(n, None, key=key), 3, key=key),
        _line(),
    ),
    "mixture-categorical": (
        lambda n, key: hs.heads.Mixture(hs.heads.Categorical(n, 3, key=key), 2, key=key),
        SYMBOLS,
    ),
    "columns": (
        lambda n, key: hs.heads.Columns(
            [("kind", hs.heads.Categorical(n, 2, key=key)), ("size", hs.heads.Gaussian(n, None, key=key))]
        ),
        _record(),
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
        body = hs.Stack([below, CELLS[cell](below.output_size, jr.fold_in(key, 1))], **between)
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


CASES: dict[str, Case] = {}
for number, name in enumerate(CELLS):
    both = ("categorical", "gaussian")
    for head in both if name in hs.recipe_names() else both[number % 2 :][:1]:  # one head for variants
        learned = (number + (head == "gaussian")) % 2 == 0
        make = network(name, head, "learned" if learned else "zero")
        CASES[f"{name}, {head}"] = Case(
            name.split()[0],
            positive_start(make) if "log" in name else make,
            HEADS[head][1],
            precisions=turn(number + (head == "gaussian")),
        )
for number, head in enumerate(head for head in HEADS if head not in ("categorical", "gaussian")):
    make = network("vanilla", head, "learned")
    CASES[f"vanilla, {head}"] = Case("vanilla", make, HEADS[head][1], precisions=turn(number))

BETWEEN = ({}, {"residual": True}, {"norm": True, "residual": True}, {"softmax": True})
for number, name in enumerate(name for name in CELLS if name in hs.recipe_names()):
    for learned in (False, True):  # stacks in one precision each, heads and what is between layers by turns
        head = ("categorical", "gaussian")[(number + learned) % 2]
        options = BETWEEN[(number + 2 * learned) % 4]
        make = stack(name, head, "learned" if learned else "zero", **options)
        CASES[f"stack of {name}, {head}"] = Case(name, make, HEADS[head][1], precisions=turn(number // 2 + learned))


def multi_particle(make, **options):
    """Three particles under the dynamics of a network."""
    return lambda key: perturbed(hs.MultiParticle(make(key), 3, **options, key=key), key)


for number, (name, make, head, options) in enumerate(
    (
        ("gru", network("gru", "categorical", "zero"), "categorical", {"weighting": "trajectory", "mixing": "learned"}),
        ("mingru", network("mingru", "gaussian", "zero"), "gaussian", {"bias": True}),
        ("stack of mingru", stack("mingru", "mixture-categorical", "zero"), "mixture-categorical", {}),
    )
):
    CASES[f"multi-particle {name}, {head}"] = Case(
        "multi-particle", multi_particle(make, **options), HEADS[head][1], precisions=turn(number)
    )

for number, (name, make, head) in enumerate(
    (
        ("gru", network("gru", "categorical", "learned", inputs=2), "categorical"),
        ("mingru", network("mingru", "gaussian", "learned", inputs=1), "gaussian"),
        ("lstm", network("lstm peepholes", "gaussian", "zero", inputs=2), "gaussian"),
        ("vanilla", network("vanilla", "bernoulli", "learned", inputs=2), "bernoulli"),
        ("skip", network("skip", "categorical", "zero", inputs=2), "categorical"),
        ("output-feedback", network("output-feedback", "categorical", "zero", inputs=2), "categorical"),
        ("stack of minlstm", stack("minlstm", "categorical", "learned", inputs=2, residual=True), "categorical"),
        (
            "multi-particle mingru",
            multi_particle(network("mingru", "categorical", "zero", inputs=2), bias=True),
            "categorical",
        ),
    )
):
    CASES[f"{name} with inputs, {head}"] = Case("inputs", make, HEADS[head][1], precisions=turn(number))

for number, (name, make, head) in enumerate(
    (
        ("gru", network("gru", "categorical", "learned"), "categorical"),
        ("mingru with inputs", network("mingru", "gaussian", "zero", inputs=2), "gaussian"),
        ("linear", network("linear", "mixture-gaussian", "zero"), "mixture-gaussian"),
        ("stack of lstm", stack("lstm", "bernoulli", "learned"), "bernoulli"),
    )
):
    make_first = lambda key, make=make: perturbed(hs.FirstStep(make(key)), jr.fold_in(key, 1))  # noqa: E731
    CASES[f"first step of {name}, {head}"] = Case("first-step", make_first, HEADS[head][1], precisions=turn(number))

SYMBOL_DATA = [np.array([0, 1, 2, 1, 0, 0, 2])]
REAL_DATA = [np.array([0.3, -1.0, 0.4, 1.2, 0.1])]
for number, (name, data, grid) in enumerate(
    (
        ("unigram", SYMBOL_DATA, SYMBOLS),
        ("last", SYMBOL_DATA, SYMBOLS),
        ("bigram", SYMBOL_DATA, SYMBOLS),
        ("unigram", REAL_DATA, _line()),
        ("last", REAL_DATA, _line()),
        ("ar1", REAL_DATA, _line()),
    )
):
    kind = "symbols" if data is SYMBOL_DATA else "real"
    make = baseline(name, lambda d=data: hs.Sequences.of(d))
    CASES[f"{name}, {kind}"] = Case(name, make, grid, precisions=turn(number))


def latent(make):
    """A latent-state model with noise on every learned number."""
    return lambda key: perturbed(make(), key)


CHAIN = {"initial": [0.5, 0.2, 0.3], "transition": [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]]}
FORWARD = {"initial": [1.0, 0.0, 0.0], "transition": [[0.6, 0.4, 0.0], [0.0, 0.7, 0.3], [0.0, 0.0, 1.0]]}
RENEWAL = {"initial": [0.5, 0.2, 0.3], "transition": [[0.0, 0.4, 0.6], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]]}
THREE_SYMBOLS = [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.2, 0.6, 0.2]]


def _emissions():
    e = hs.emissions
    return {
        "categorical": (lambda: e.Categorical(probs=THREE_SYMBOLS), SYMBOLS),
        "bernoulli": (lambda: e.Bernoulli(probs=[[0.7, 0.2], [0.1, 0.8], [0.5, 0.5]]), BITS),
        "poisson": (lambda: e.Poisson(rates=[0.5, 2.0, 5.0]), _counts(60)),
        "negative-binomial": (
            lambda: e.NegativeBinomial(means=[0.5, 1.0, 3.0], concentrations=[2.0, 1.0, 4.0]),
            _counts(250),
        ),
        "gaussian": (lambda: e.Gaussian(means=[-1.0, 0.0, 1.5], covariances=[0.5, 1.0, 0.3]), _line()),
        "gaussian-full": (
            lambda: e.Gaussian(
                means=[[-1.0, 0.5], [0.0, 0.0], [1.0, 1.0]],
                covariances=[[[1.0, 0.5], [0.5, 1.0]], [[0.5, 0.0], [0.0, 0.5]], [[1.0, -0.3], [-0.3, 0.6]]],
            ),
            _plane(),
        ),
        "student-t": (
            lambda: e.StudentT(locations=[-1.0, 0.0, 1.0], scales=[0.5, 1.0, 0.4], degrees=[6.0, 9.0, 12.0]),
            _line(401, 11.0),
        ),
        "gaussian-mixture": (
            lambda: e.GaussianMixture(
                weights=[[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]],
                means=[[-1.0, 0.0], [0.0, 1.0], [2.0, -2.0]],
                covariances=[[0.5, 1.0], [0.3, 0.4], [1.0, 0.5]],
            ),
            _line(),
        ),
        "autoregressive": (
            lambda: e.Autoregressive(
                intercepts=[0.0, 0.5, -0.5], weights=[[0.5, 0.1], [-0.3, 0.2], [0.1, 0.1]], variances=[0.5, 1.0, 0.7]
            ),
            _line(),
        ),
        "columns": (
            lambda: e.Columns(
                {
                    "kind": e.Categorical(probs=[[0.7, 0.3], [0.2, 0.8], [0.5, 0.5]]),
                    "size": e.Gaussian(means=[-1.0, 0.0, 1.5], covariances=[0.5, 1.0, 0.3]),
                }
            ),
            _record(),
        ),
    }


EMISSIONS = _emissions()
for number, (family, (emitted, grid)) in enumerate(EMISSIONS.items()):
    make = latent(lambda e=emitted: hs.HMM(**CHAIN, emission=e()))
    CASES[f"hmm, {family}"] = Case("hmm", make, grid, precisions=turn(number))
CASES["hmm, zeros"] = Case(
    "hmm",
    latent(lambda: hs.HMM(**FORWARD, emission=EMISSIONS["categorical"][0]())),
    SYMBOLS,
    precisions=turn(1),
)
CASES["hmm, stationary"] = Case(
    "hmm",
    latent(lambda: hs.HMM("stationary", CHAIN["transition"], EMISSIONS["gaussian"][0]())),
    EMISSIONS["gaussian"][1],
    precisions=turn(1),
)
CASES["hsmm, categorical"] = Case(
    "hsmm",
    latent(
        lambda: hs.HSMM(
            **RENEWAL,
            durations=[[0.5, 0.5, 0.0], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4]],
            emission=EMISSIONS["categorical"][0](),
        )
    ),
    SYMBOLS,
    precisions=turn(0),
)
CASES["hsmm, negative binomial"] = Case(
    "hsmm",
    latent(
        lambda: hs.HSMM(
            **RENEWAL,
            durations=hs.NegativeBinomialDurations([2.0, 3.0, 1.5], [1.0, 2.0, 3.0], 4),
            emission=EMISSIONS["gaussian"][0](),
        )
    ),
    EMISSIONS["gaussian"][1],
    precisions=turn(1),
)

WEIGHTS = np.linspace(-1.0, 1.5, 18).reshape(3, 3, 2) ** 3  # how inputs drive each move


def regression(columns: bool = False):
    """Emissions that follow two inputs."""
    if columns:
        return hs.emissions.LinearRegression(
            intercepts=[[-1.0, 0.5], [0.0, 0.0], [1.0, 1.0]],
            weights=[[[0.5, -0.3], [0.2, 0.0]], [[0.0, 0.7], [-0.4, 0.1]], [[1.0, 0.2], [0.3, -0.6]]],
            variances=[[0.5, 1.0], [0.4, 0.6], [1.0, 0.3]],
        )
    return hs.emissions.LinearRegression(
        intercepts=[-1.0, 0.0, 1.0], weights=[[0.5, -0.3], [0.0, 0.7], [1.0, 0.2]], variances=[0.5, 1.0, 0.3]
    )


def driven(emission, kept=FORWARD):
    """A chain whose moves follow two inputs; `kept` has what is possible at all."""
    return lambda: hs.HMM(kept["initial"], hs.InputDriven(kept["transition"], WEIGHTS), emission())


CASES["input-driven, categorical"] = Case(
    "input-driven", latent(driven(EMISSIONS["categorical"][0])), SYMBOLS, precisions=turn(0)
)
CASES["input-driven, linear regression"] = Case(
    "input-driven", latent(driven(regression, CHAIN)), _line(), precisions=turn(1)
)
CASES["input-driven, autoregressive"] = Case(
    "input-driven", latent(driven(EMISSIONS["autoregressive"][0], CHAIN)), _line(), precisions=turn(0)
)
CASES["linear regression, columns"] = Case(
    "linear-regression",
    latent(lambda: hs.HMM(**CHAIN, emission=regression(columns=True))),
    _plane(),
    precisions=turn(0),
)
CASES["hsmm, linear regression"] = Case(
    "hsmm",
    latent(
        lambda: hs.HSMM(**RENEWAL, durations=[[0.5, 0.5, 0.0], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4]], emission=regression())
    ),
    _line(),
    precisions=turn(1),
)

KEPT = {"reset": 0.3, "prior": [0.5, 0.2, 0.3]}
SIX_SYMBOLS = [*THREE_SYMBOLS, [0.3, 0.3, 0.4], [0.5, 0.1, 0.4], [0.2, 0.2, 0.6]]
CASES["switch-copy, categorical"] = Case(
    "switch-copy",
    latent(lambda: hs.SwitchCopy(**KEPT, emission=EMISSIONS["categorical"][0]())),
    SYMBOLS,
    precisions=turn(0),
)
CASES["switch-copy, gaussian that sees resets"] = Case(
    "switch-copy",
    latent(
        lambda: hs.SwitchCopy(
            **KEPT,
            emission=hs.emissions.Gaussian(
                means=[-1.0, 0.0, 1.5, -0.5, 0.5, 1.0], covariances=[0.5, 1.0, 0.3, 0.4, 0.6, 0.8]
            ),
        )
    ),
    EMISSIONS["gaussian"][1],
    precisions=turn(1),
)
CASES["switch-copy, moving between resets"] = Case(
    "switch-copy",
    latent(
        lambda: hs.SwitchCopy(
            **KEPT, emission=hs.emissions.Categorical(probs=SIX_SYMBOLS), between=FORWARD["transition"]
        )
    ),
    SYMBOLS,
    precisions=turn(0),
)
CASES["switch-copy, autoregressive"] = Case(
    "switch-copy",
    latent(lambda: hs.SwitchCopy(**KEPT, emission=EMISSIONS["autoregressive"][0]())),
    EMISSIONS["autoregressive"][1],
    precisions=turn(1),
)

CASES["switch-copy, linear regression"] = Case(
    "switch-copy", latent(lambda: hs.SwitchCopy(**KEPT, emission=regression())), _line(), precisions=turn(0)
)

REGIMES = {"transition": [[0.8, 0.2], [0.3, 0.7]], "means": [-0.5, 1.0]}
CASES["hamilton, mean"] = Case(
    "hamilton",
    latent(lambda: hs.Hamilton("stationary", **REGIMES, coefficients=[0.4, -0.2], variances=0.6)),
    _line(),
    precisions=turn(1),
)
CASES["hamilton, mean, all switching"] = Case(
    "hamilton",
    latent(lambda: hs.Hamilton([0.4, 0.6], **REGIMES, coefficients=[[0.4, -0.2], [0.1, 0.3]], variances=[0.6, 0.3])),
    _line(),
    precisions=turn(0),
)
CASES["hamilton, intercept"] = Case(
    "hamilton",
    latent(lambda: hs.Hamilton("stationary", **REGIMES, coefficients=[0.4], variances=[0.6, 0.3], form="intercept")),
    _line(),
    precisions=turn(1),
)


MOVING = {"transition": [[0.9, 0.2], [0.0, 0.7]], "transition_noise": [[0.3, 0.1], [0.1, 0.2]]}
CASES["linear-gaussian, scalar"] = Case(
    "linear-gaussian",
    latent(lambda: hs.LinearGaussian(**MOVING, emission=[1.0, 0.5], emission_noise=0.4)),
    _line(),
    precisions=turn(1),
)
CASES["linear-gaussian, vector"] = Case(
    "linear-gaussian",
    latent(
        lambda: hs.LinearGaussian(
            **MOVING,
            transition_offset=[0.1, -0.2],
            emission=[[1.0, 0.5], [0.3, 1.0]],
            emission_offset=[0.3, 0.0],
            emission_noise=[[0.4, 0.1], [0.1, 0.5]],
            initial_mean=[0.2, 0.1],
            initial_covariance=[[0.5, 0.1], [0.1, 0.3]],
        )
    ),
    _plane(),
    precisions=turn(0),
)


DRIVEN = {"transition_input": [[0.5, -0.3], [0.2, 0.4]], "emission_input": [0.3, -0.7]}
VARYING = {
    "transition": [[[0.9, 0.2], [0.1 * t, 0.7]] for t in range(LENGTH)],
    "transition_noise": [[[0.3 + 0.1 * t, 0.1], [0.1, 0.2]] for t in range(LENGTH)],
    "emission": [[1.0, 0.5 - 0.3 * t] for t in range(LENGTH)],
    "emission_noise": [0.4 + 0.2 * t for t in range(LENGTH)],
    "scalar": True,
}
PAIR = {"emission": [[1.0, 0.5], [0.3, 1.0]], "emission_noise": [0.4, 0.5]}
SERIES = [np.array([0.2, 1.1, -0.3, 0.9, 0.1, 1.3, -0.2, 1.0, 0.4, 1.2])]


def linear(**parts):
    return latent(lambda: hs.LinearGaussian(**parts))


def structural(structure: str, **options):
    """A model of a named structure, as it is built for data."""
    return lambda key: hs.build(
        "linear-gaussian", hs.Sequences.of(SERIES), structure=structure, key=key, diffuse=True, **options
    )


for number, (name, make, grid, past) in enumerate(
    (
        ("inputs", linear(**MOVING, **DRIVEN, emission=[1.0, 0.5], emission_noise=0.4), _line(), ()),
        ("varying", linear(**VARYING), _line(), ()),
        ("diffuse", linear(**MOVING, emission=[1.0, 0.5], emission_noise=0.4, diffuse=True), _line(), (0.3, -0.4)),
        (
            "partly diffuse",
            linear(**MOVING, emission=[1.0, 0.5], emission_noise=0.4, diffuse=[True, False]),
            _line(),
            (0.3,),
        ),
        ("diffuse, vector", linear(**MOVING, **PAIR, diffuse=True), _plane(), ((0.3, -0.4),)),
        ("diffuse, varying, inputs", linear(**VARYING, **DRIVEN, diffuse=True), _line(), (0.3, -0.4)),
        ("level+seasonal", structural("level+seasonal", period=2), _line(), (0.3, -0.4)),
        ("trend", structural("trend"), _line(), (0.3, -0.4)),
        ("level+ar", structural("level+ar", order=1), _line(), (0.3,)),
    )
):
    CASES[f"linear-gaussian, {name}"] = Case(
        "diffuse" if past else f"linear-gaussian, {name}", make, grid, limits=Limits(past=past), precisions=turn(number)
    )
for name, structure, grid in (("ar", "ar", _line()), ("oscillation", "oscillation", _line())):
    CASES[f"linear-gaussian, {name}"] = Case(
        "structure",
        lambda key, s=structure: perturbed(
            hs.build("linear-gaussian", hs.Sequences.of(SERIES), structure=s, key=key), key
        ),
        grid,
        precisions=turn(name == "ar"),
    )


@hs.register("laws-bent")
class Bent(eqx.Module):
    """A matrix, a bend and, where there are inputs, what they add."""

    matrix: jax.Array
    driven: jax.Array | None = None

    def __call__(self, z, u):
        bent = self.matrix @ (z + 0.3 * jnp.sin(2 * z))
        return bent if self.driven is None else bent + self.driven @ u


def nonlinear(method: str = "extended", emission=(1.0, 0.5), noise=0.4, inputs: bool = False):
    first = jnp.asarray([[0.5, -0.3], [0.2, 0.4]]) if inputs else None
    second = jnp.asarray([0.3, -0.7]) if inputs else None
    return hs.NonlinearGaussian(
        transition=Bent(jnp.asarray(MOVING["transition"]), first),
        emission=Bent(jnp.asarray(emission), second),
        transition_noise=MOVING["transition_noise"],
        emission_noise=noise,
        initial_mean=[0.2, 0.1],
        initial_covariance=[[0.5, 0.1], [0.1, 0.3]],
        method=method,
        inputs=2 if inputs else 0,
    )


TWICE = {"emission": PAIR["emission"], "noise": PAIR["emission_noise"]}
# The read-out is the Gaussian that the filter predicts, so that it is normalised and can be drawn from; but the mean of
# what a function makes of a Gaussian is approximated, and a missing observation is not summed out exactly.
for number, (name, make, grid) in enumerate(
    (
        ("unscented, inputs", lambda: nonlinear("unscented", inputs=True), _line()),
        ("extended", nonlinear, _line()),
        ("unscented, vector", lambda: nonlinear("unscented", **TWICE), _plane()),
        ("extended, vector", lambda: nonlinear("extended", **TWICE), _plane()),
    )
):
    CASES[f"nonlinear-gaussian, {name}"] = Case(
        "nonlinear-gaussian", latent(make), grid, limits=INEXACT, precisions=turn(number)
    )


def particles(make, proposal, count: int = 6, **options):
    """A particle filter over a latent-state model."""
    return lambda key: hs.ParticleFilter(latent(make)(key), count, proposal, key=key, **options)


CASES["particle bootstrap, categorical"] = Case(
    "particle-filter",
    particles(lambda: hs.HMM(**FORWARD, emission=EMISSIONS["categorical"][0]()), "bootstrap", resampling="residual"),
    SYMBOLS,
    limits=INEXACT,
    precisions=turn(1),
)
CASES["particle guided, gaussian"] = Case(
    "particle-filter",
    particles(lambda: hs.HMM(**CHAIN, emission=EMISSIONS["gaussian"][0]()), "guided", threshold=1.0),
    EMISSIONS["gaussian"][1],
    limits=INEXACT,
    precisions=("float64",),
)
CASES["particle bootstrap, linear-gaussian"] = Case(
    "particle-filter",
    particles(lambda: hs.LinearGaussian(**MOVING, emission=[1.0, 0.5], emission_noise=0.4), "bootstrap"),
    _line(),
    limits=INEXACT,
    precisions=("float32",),
)


CASES["particle bootstrap, input-driven"] = Case(
    "particle-filter",
    particles(driven(EMISSIONS["categorical"][0]), "bootstrap"),
    SYMBOLS,
    limits=INEXACT,
    precisions=("float64",),
)
CASES["particle guided, linear-gaussian with inputs"] = Case(
    "particle-filter",
    particles(
        lambda: hs.LinearGaussian(**MOVING, **DRIVEN, emission=[1.0, 0.5], emission_noise=0.4),
        "guided",
        resampling="stratified",
        threshold=1.0,
    ),
    _line(),
    limits=INEXACT,
    precisions=("float64",),
)
CASES["particle auxiliary, categorical"] = Case(
    "auxiliary",
    particles(lambda: hs.HMM(**FORWARD, emission=EMISSIONS["categorical"][0]()), "auxiliary"),
    SYMBOLS,
    limits=INEXACT,
    precisions=("float32",),
)
CASES["particle auxiliary, linear-gaussian"] = Case(
    "auxiliary",
    particles(lambda: hs.LinearGaussian(**MOVING, **PAIR), "auxiliary", threshold=1.0),
    _plane(),
    limits=INEXACT,
    precisions=("float64",),
)
# A guess of what the next observation says of each particle resamples them, so that they know it.
CASES["particle auxiliary by a guess, nonlinear-gaussian"] = Case(
    "auxiliary",
    particles(nonlinear, "auxiliary", threshold=1.0),
    _line(61),
    limits=Limits(exact=False, estimate=True),
    precisions=("float64",),
)


def emulated(make, readout: str, **options):
    """A particle filter written as a network."""
    return lambda key: hs.ParticleRNN(particles(make, "bootstrap", **options)(key), readout=readout)


CASES["particle network, categorical"] = Case(
    "particle-rnn",
    emulated(
        lambda: hs.HMM(**FORWARD, emission=EMISSIONS["categorical"][0]()),
        "mixture",
        resampling="multinomial",
        threshold=1.0,
    ),
    SYMBOLS,
    limits=INEXACT,
    precisions=("float64",),
)
CASES["particle network, linear-gaussian"] = Case(
    "particle-rnn",
    emulated(lambda: hs.LinearGaussian(**MOVING, emission=[1.0, 0.5], emission_noise=0.4), "mixture"),
    _line(),
    limits=INEXACT,
    precisions=("float32",),
)
CASES["particle network that simulates, input-driven"] = Case(
    "particle-rnn", emulated(driven(regression, CHAIN), "simulate"), _line(), limits=INEXACT, precisions=("float64",)
)


SWITCHING = {
    **CHAIN,
    "dynamics": [[[0.9, 0.2], [0.0, 0.7]], [[0.3, -0.8], [0.8, 0.3]], [[-0.5, 0.0], [0.1, 0.2]]],
    "dynamics_noise": [[0.3, 0.1], [0.1, 0.2]],
}
CASES["slds, scalar"] = Case(
    "slds",
    latent(lambda: hs.SwitchingLinearGaussian(**SWITCHING, observation=[1.0, 0.5], observation_noise=0.4)),
    _line(),
    limits=INEXACT,
    precisions=turn(0),
)
CASES["slds, vector"] = Case(
    "slds",
    latent(
        lambda: hs.SwitchingLinearGaussian(
            **SWITCHING,
            observation=[[[1.0, 0.5], [0.3, 1.0]], [[0.2, 1.0], [1.0, 0.0]], [[0.0, 0.7], [0.7, 0.1]]],
            observation_noise=[[0.4, 0.1], [0.1, 0.5]],
            recurrence=[[0.5, 0.0], [0.0, 0.5], [-0.5, 0.2]],
            method="imm",
        )
    ),
    _plane(),
    limits=INEXACT,
    precisions=turn(1),
)
CASES["slds, particles"] = Case(
    "slds",
    lambda key: hs.RaoBlackwellised(
        latent(lambda: hs.SwitchingLinearGaussian(**SWITCHING, observation=[1.0, 0.5], observation_noise=0.4))(key),
        4,
        key=key,
    ),
    _line(),
    limits=INEXACT,
    precisions=turn(0),
)


def chains():
    """One chain for each regime."""
    slow = hs.LinearGaussian(**MOVING, emission=[1.0, 0.5], emission_noise=0.4)
    fast = hs.LinearGaussian(
        transition=[[-0.7]],
        transition_noise=[[0.8]],
        emission=[2.0],
        emission_offset=0.5,
        emission_noise=0.2,
        initial_mean=[0.3],
    )
    return hs.SwitchingLinearGaussian.of_chains([slow, fast], transition=[[0.9, 0.1], [0.2, 0.8]])


CASES["slds, one chain for each regime"] = Case(
    "chains", latent(chains), _line(), limits=INEXACT, precisions=("float64",)
)
CASES["slds, one chain for each regime, particles"] = Case(
    "chains",
    lambda key: hs.RaoBlackwellised(latent(chains)(key), 4, key=key),
    _line(),
    limits=INEXACT,
    precisions=("float32",),
)


def noisy(cell, head, count, *, inputs: int = 0, corrected: bool = False, **options):
    """A particle filter over a network whose state is disturbed."""

    def make(key):
        plain = network(cell, head, "learned", inputs=inputs)(key)
        disturbed = hs.RNN(hs.cells.Noisy(plain.cell, 0.3, **options), plain.head, initial="learned", inputs=inputs)
        proposal = perturbed(hs.Correction(disturbed, 5, key=key), key, 0.1) if corrected else "bootstrap"
        return hs.ParticleFilter(disturbed, count, proposal, threshold=1.0, key=key)

    return make


CASES["noisy lstm, categorical"] = Case(
    "noisy", noisy("lstm", "categorical", 3, family="student-t"), SYMBOLS, limits=INEXACT, precisions=turn(1)
)
CASES["noisy vanilla, gaussian"] = Case(
    "noisy", noisy("vanilla", "gaussian", 2), _line(), limits=INEXACT, precisions=turn(0)
)
CASES["noisy gru with inputs, categorical"] = Case(
    "noisy", noisy("gru", "categorical", 2, inputs=2), SYMBOLS, limits=INEXACT, precisions=turn(0)
)
# A correction draws what it has seen the observation of.
CASES["noisy vanilla, corrected, categorical"] = Case(
    "correction",
    noisy("vanilla", "categorical", 16, corrected=True),
    SYMBOLS,
    limits=Limits(exact=False, estimate=True),
    precisions=turn(1),
)
CASES["noisy lstm with inputs, corrected, gaussian"] = Case(
    "correction",
    noisy("lstm", "gaussian", 16, corrected=True, inputs=1, family="laplace"),
    _line(41),
    limits=Limits(exact=False, estimate=True),
    precisions=turn(0),
)
