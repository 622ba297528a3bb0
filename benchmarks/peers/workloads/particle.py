"""The bootstrap particle filter of a noisy autoregression, whose likelihood a Kalman filter knows exactly."""

from functools import partial
from typing import Any

import numpy as np

from peers.case import FUNCTION, Agreement, Case, Run, Scale, Size, Work
from peers.workloads.hmm import waiting

SIZES = {"full": (1_000, 1_000), "quick": (1_000, 200), "tiny": (200, 20)}
GOAL = 5.0
DECAY, STEP, NOISE = 0.9, 0.5, 0.7


def data(size: Size) -> np.ndarray:
    """A series drawn from the model."""
    random = np.random.default_rng(0)
    z, xs = random.normal() * STEP / np.sqrt(1 - DECAY**2), np.zeros(size["steps"], np.float32)
    for t in range(len(xs)):
        xs[t] = z + NOISE * random.normal()
        z = DECAY * z + STEP * random.normal()
    return xs


def exact(xs: np.ndarray) -> float:
    """The log-likelihood by the Kalman filter."""
    mean, variance, total = 0.0, STEP**2 / (1 - DECAY**2), 0.0
    for x in xs.astype(np.float64):
        spread = variance + NOISE**2
        total -= 0.5 * (np.log(2 * np.pi * spread) + (x - mean) ** 2 / spread)
        gain = variance / spread
        mean, variance = mean + gain * (x - mean), (1 - gain) * variance
        mean, variance = DECAY * mean, DECAY**2 * variance + STEP**2
    return total


def ours(size: Size, strategy: str = "Auto") -> Run:
    import jax.numpy as jnp
    import jax.random as jr

    import hiddenstate as hs

    xs = data(size)
    model = hs.LinearGaussian(
        transition=[[DECAY]],
        transition_noise=[STEP**2],
        emission=[1.0],
        emission_noise=NOISE**2,
        initial_covariance=[STEP**2 / (1 - DECAY**2)],
    )
    peer = hs.ParticleFilter(hs.cast(model, jnp.float32), size["particles"], threshold=0.5, key=jr.key(0))
    score = partial(hs.log_prob, peer, hs.Sequences.padded(xs[None]), strategy=getattr(hs, strategy)())
    return waiting(score, lambda out: {"error": out.sum() - exact(xs)})


def particles(size: Size) -> Run:
    import particles
    from particles import distributions, state_space_models

    class Autoregression(state_space_models.StateSpaceModel):
        def PX0(self):
            return distributions.Normal(scale=STEP / np.sqrt(1 - DECAY**2))

        def PX(self, t, xp):
            return distributions.Normal(loc=DECAY * xp, scale=STEP)

        def PY(self, t, xp, x):
            return distributions.Normal(loc=x, scale=NOISE)

    xs = data(size)
    model = state_space_models.Bootstrap(ssm=Autoregression(), data=xs.astype(np.float64))

    def call():
        run = particles.SMC(fk=model, N=size["particles"], resampling="systematic", ESSrmin=0.5)
        run.run()
        return run

    return Run(call, lambda: {"error": np.asarray(call().logLt - exact(xs))})


def cases(scale: Scale) -> list[Case]:
    """One series; systematic resampling where the effective sample size falls below half of the particles."""
    size = dict(zip(("particles", "steps"), SIZES[scale], strict=True))
    count = size["particles"] * size["steps"]
    makers: dict[str, Any] = {
        "hiddenstate": ours,
        "hiddenstate Sequential": partial(ours, strategy="Sequential"),
        "particles": particles,
    }
    return [
        Case(
            workload="particle",
            title="bootstrap filter",
            size=size,
            makers=makers,
            # Both are within a few nats of the exact log-likelihood, in different random numbers.
            agreement={"error": Agreement(0.0, 8.0)},
            goal=GOAL,
            # A normal number (three functions), its weight (one), sums and the choice of ancestors.
            work=Work(count * (4 * FUNCTION + 10), count * 12),
            note="particles computes in double precision.",
        )
    ]
