"""Particle filters, switching linear Gaussian models, and networks with noise."""

import hiddenstate as hs
from laws.cases.chains import CHAIN, EMISSIONS, FORWARD, driven, latent, regression
from laws.cases.gaussian import DRIVEN, MOVING, PAIR, nonlinear
from laws.cases.parts import INEXACT, SYMBOLS, Case, line, network, perturbed, plane, turn
from laws.laws import Limits

CASES: dict[str, Case] = {}


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
    line(),
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
    line(),
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
    plane(),
    limits=INEXACT,
    precisions=("float64",),
)
# A guess of what the next observation says of each particle resamples them, so that they know it.
CASES["particle auxiliary by a guess, nonlinear-gaussian"] = Case(
    "auxiliary",
    particles(nonlinear, "auxiliary", threshold=1.0),
    line(61),
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
    line(),
    limits=INEXACT,
    precisions=("float32",),
)
CASES["particle network that simulates, input-driven"] = Case(
    "particle-rnn", emulated(driven(regression, CHAIN), "simulate"), line(), limits=INEXACT, precisions=("float64",)
)


SWITCHING = {
    **CHAIN,
    "dynamics": [[[0.9, 0.2], [0.0, 0.7]], [[0.3, -0.8], [0.8, 0.3]], [[-0.5, 0.0], [0.1, 0.2]]],
    "dynamics_noise": [[0.3, 0.1], [0.1, 0.2]],
}
CASES["slds, scalar"] = Case(
    "slds",
    latent(lambda: hs.SwitchingLinearGaussian(**SWITCHING, observation=[1.0, 0.5], observation_noise=0.4)),
    line(),
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
    plane(),
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
    line(),
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
    "chains", latent(chains), line(), limits=INEXACT, precisions=("float64",)
)
CASES["slds, one chain for each regime, particles"] = Case(
    "chains",
    lambda key: hs.RaoBlackwellised(latent(chains)(key), 4, key=key),
    line(),
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
    "noisy", noisy("vanilla", "gaussian", 2), line(), limits=INEXACT, precisions=turn(0)
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
    line(41),
    limits=Limits(exact=False, estimate=True),
    precisions=turn(0),
)
