"""What a particle filter carries from step to step, and what it gives back."""

from typing import Any, NamedTuple

from hiddenstate._types import Array, Float, Num, Shaped


class Information(NamedTuple):
    """What is worth knowing of the step that led to a state; no later step needs it.

    `effective_sample_size` is that of the weights before any resampling, `ancestors` says which of the particles
    before each one descends from, and `log_evidence` is the log-probability of the observation that was taken in.
    """

    effective_sample_size: Float[Array, ""]
    resampled: Shaped[Array, ""]
    ancestors: Shaped[Array, " particle"]
    log_evidence: Float[Array, ""]


class ParticleState(NamedTuple):
    """The state of a particle filter: weighted particles, and the random key of the next step as its raw numbers.

    Under the bootstrap proposal the particles are draws of z_t, under all others of z_{t-1}, weighted by what
    x_1 .. x_{t-1} say. Those others also keep what the move to z_t hangs on (`before`: the last step's input, or for a
    model that sees observations an element for each particle), and whether there was any step (`begun`): before the
    first the particles mean nothing.
    """

    particles: Num[Array, "particle ..."]
    log_weights: Float[Array, " particle"]
    key: Shaped[Array, " words"]
    information: Information
    before: Any = None
    begun: Any = None


class Observation(NamedTuple):
    """The element of a step: the observation, the input beside it, and which entries were seen (None: all).

    For a model whose hidden state sees observations, also the element that it makes of this one.
    """

    x: Num[Array, "..."]
    u: Num[Array, " inputs"] | None
    observed: Shaped[Array, "..."] | None
    element: Any = None


class Weighed(NamedTuple):
    """The particles at a step, weighted by all observations up to it."""

    particles: Num[Array, "particle ..."]
    log_weights: Float[Array, " particle"]
    log_evidence: Float[Array, ""]
    ancestors: Shaped[Array, " particle"]
    resampled: Shaped[Array, ""]


class Filtered(NamedTuple):
    """What `hs.filter` gives for a particle filter, all with leading axes (sequence, time).

    Particles of z_t with their log-weights given x_1 .. x_t; the effective sample size of these weights; which
    particle of the step before each one descends from, and whether these had been resampled; log p(x_t | x_<t). The
    weighted `mean` of the particles, or for symbols the `marginals`, the weight of each.
    """

    particles: Any
    log_weights: Any
    effective_sample_size: Any
    ancestors: Any
    resampled: Any
    log_evidence: Any
    mean: Any
    marginals: Any


class Smoothed(NamedTuple):
    """What `hs.smooth` gives for a particle filter, all with a leading axis of sequences.

    `trajectories` (sequence, trajectory, time, ...) are draws of all hidden states given all observations, `mean` and
    `variance` (sequence, time, ...) theirs at each step; for symbols these two are None and `marginals` (sequence,
    time, state) says how often each occurs.
    """

    trajectories: Any
    mean: Any
    variance: Any
    marginals: Any
