"""Models of a discrete hidden state: hidden Markov models, those that copy, and Hamilton's."""

import numpy as np

import hiddenstate as hs
from laws.cases.parts import BITS, SYMBOLS, Case, counts, line, perturbed, plane, record, turn

CASES: dict[str, Case] = {}


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
        "poisson": (lambda: e.Poisson(rates=[0.5, 2.0, 5.0]), counts(60)),
        "negative-binomial": (
            lambda: e.NegativeBinomial(means=[0.5, 1.0, 3.0], concentrations=[2.0, 1.0, 4.0]),
            counts(250),
        ),
        "gaussian": (lambda: e.Gaussian(means=[-1.0, 0.0, 1.5], covariances=[0.5, 1.0, 0.3]), line()),
        "gaussian-full": (
            lambda: e.Gaussian(
                means=[[-1.0, 0.5], [0.0, 0.0], [1.0, 1.0]],
                covariances=[[[1.0, 0.5], [0.5, 1.0]], [[0.5, 0.0], [0.0, 0.5]], [[1.0, -0.3], [-0.3, 0.6]]],
            ),
            plane(),
        ),
        "student-t": (
            lambda: e.StudentT(locations=[-1.0, 0.0, 1.0], scales=[0.5, 1.0, 0.4], degrees=[6.0, 9.0, 12.0]),
            line(401, 11.0),
        ),
        "gaussian-mixture": (
            lambda: e.GaussianMixture(
                weights=[[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]],
                means=[[-1.0, 0.0], [0.0, 1.0], [2.0, -2.0]],
                covariances=[[0.5, 1.0], [0.3, 0.4], [1.0, 0.5]],
            ),
            line(),
        ),
        "autoregressive": (
            lambda: e.Autoregressive(
                intercepts=[0.0, 0.5, -0.5], weights=[[0.5, 0.1], [-0.3, 0.2], [0.1, 0.1]], variances=[0.5, 1.0, 0.7]
            ),
            line(),
        ),
        "columns": (
            lambda: e.Columns(
                {
                    "kind": e.Categorical(probs=[[0.7, 0.3], [0.2, 0.8], [0.5, 0.5]]),
                    "size": e.Gaussian(means=[-1.0, 0.0, 1.5], covariances=[0.5, 1.0, 0.3]),
                }
            ),
            record(),
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
    "input-driven", latent(driven(regression, CHAIN)), line(), precisions=turn(1)
)
CASES["input-driven, autoregressive"] = Case(
    "input-driven", latent(driven(EMISSIONS["autoregressive"][0], CHAIN)), line(), precisions=turn(0)
)
CASES["linear regression, columns"] = Case(
    "linear-regression",
    latent(lambda: hs.HMM(**CHAIN, emission=regression(columns=True))),
    plane(),
    precisions=turn(0),
)
CASES["hsmm, linear regression"] = Case(
    "hsmm",
    latent(
        lambda: hs.HSMM(**RENEWAL, durations=[[0.5, 0.5, 0.0], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4]], emission=regression())
    ),
    line(),
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
    "switch-copy", latent(lambda: hs.SwitchCopy(**KEPT, emission=regression())), line(), precisions=turn(0)
)

REGIMES = {"transition": [[0.8, 0.2], [0.3, 0.7]], "means": [-0.5, 1.0]}
CASES["hamilton, mean"] = Case(
    "hamilton",
    latent(lambda: hs.Hamilton("stationary", **REGIMES, coefficients=[0.4, -0.2], variances=0.6)),
    line(),
    precisions=turn(1),
)
CASES["hamilton, mean, all switching"] = Case(
    "hamilton",
    latent(lambda: hs.Hamilton([0.4, 0.6], **REGIMES, coefficients=[[0.4, -0.2], [0.1, 0.3]], variances=[0.6, 0.3])),
    line(),
    precisions=turn(0),
)
CASES["hamilton, intercept"] = Case(
    "hamilton",
    latent(lambda: hs.Hamilton("stationary", **REGIMES, coefficients=[0.4], variances=[0.6, 0.3], form="intercept")),
    line(),
    precisions=turn(1),
)
