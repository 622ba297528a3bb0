"""Filter and smoother of linear Gaussian state space models, and the gradient of their log-likelihood."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from peers.case import Agreement, Case, Run, Scale, Size, Work
from peers.workloads.hmm import waiting

SIZES = {
    "full": ((4, 2, 32, 1_000), (16, 4, 32, 1_000)),
    "quick": ((4, 2, 8, 250),),
    "tiny": ((2, 1, 2, 15),),
}
GOAL = 5.0
SMOOTH, GRADIENT = "filter + smoother", "gradient"
NAMES = ("hidden", "columns", "sequences", "steps")


class System(NamedTuple):
    """A state that turns and decays, seen through a few columns."""

    transition: np.ndarray
    transition_noise: np.ndarray
    emission: np.ndarray
    emission_noise: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray


def data(size: Size) -> tuple[System, np.ndarray]:
    """The system and series drawn from it."""
    n, m, sequences, steps = (size[name] for name in NAMES)
    random = np.random.default_rng(n)
    turn, _ = np.linalg.qr(random.normal(size=(n, n)))
    found = System(0.95 * turn, 0.1 * np.eye(n), random.normal(size=(m, n)), 0.5 * np.eye(m), np.zeros(n), np.eye(n))
    z, xs = random.normal(size=(sequences, n)), np.zeros((sequences, steps, m), np.float32)
    for t in range(steps):
        xs[:, t] = z @ found.emission.T + np.sqrt(0.5) * random.normal(size=(sequences, m))
        z = z @ found.transition.T + np.sqrt(0.1) * random.normal(size=(sequences, n))
    return found, xs


def ours(size: Size, strategy: str = "Auto", task: str = SMOOTH) -> Run:
    import equinox as eqx
    import jax.numpy as jnp

    import hiddenstate as hs

    system, xs = data(size)
    model = hs.LinearGaussian(
        transition=system.transition,
        transition_noise=system.transition_noise,
        emission=system.emission,
        emission_noise=system.emission_noise,
        initial_mean=system.mean,
        initial_covariance=system.covariance,
    )
    model, sequences = hs.cast(model, jnp.float32), hs.Sequences.padded(xs)
    by = getattr(hs, strategy)()
    if task == GRADIENT:

        @eqx.filter_jit
        def gradient(model, sequences):
            total = partial(hs.log_prob, data=sequences, strategy=by, total=True)
            return eqx.filter_value_and_grad(total)(model)

        return waiting(
            partial(gradient, model, sequences),
            lambda out: {"log_prob": out[0], "gradient": out[1].parameters.emission},
        )
    smooth = partial(hs.smooth, model, sequences, strategy=by)
    return waiting(smooth, lambda out: {"mean": out.mean, "covariance": out.covariance})


def dynamax(size: Size, task: str = SMOOTH) -> Run:
    import jax
    import jax.numpy as jnp
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM

    system, xs = data(size)
    given = {name: jnp.asarray(part, jnp.float32) for name, part in system._asdict().items()}
    peer = LinearGaussianSSM(size["hidden"], size["columns"])
    parameters, _ = peer.initialize(
        initial_mean=given["mean"],
        initial_covariance=given["covariance"],
        dynamics_weights=given["transition"],
        dynamics_covariance=given["transition_noise"],
        emission_weights=given["emission"],
        emission_covariance=given["emission_noise"],
    )
    if task == GRADIENT:
        each = jax.vmap(peer.marginal_log_prob, (None, 0))
        gradient = jax.jit(jax.value_and_grad(lambda parameters, xs: each(parameters, xs).sum()))
        return waiting(
            partial(gradient, parameters, jnp.asarray(xs)),
            lambda out: {"log_prob": out[0], "gradient": out[1].emissions.weights},
        )
    smooth = jax.jit(jax.vmap(peer.smoother, (None, 0)))
    return waiting(
        partial(smooth, parameters, jnp.asarray(xs)),
        lambda out: {"mean": out.smoothed_means, "covariance": out.smoothed_covariances},
    )


def pykalman(size: Size) -> Run:
    from pykalman import KalmanFilter

    system, xs = data(size)
    peer = KalmanFilter(
        transition_matrices=system.transition,
        observation_matrices=system.emission,
        transition_covariance=system.transition_noise,
        observation_covariance=system.emission_noise,
        initial_state_mean=system.mean,
        initial_state_covariance=system.covariance,
    )
    series = xs.astype(np.float64)

    def call():
        return [peer.smooth(one) for one in series]

    def result():
        found = call()
        return {"mean": np.stack([mean for mean, _ in found]), "covariance": np.stack([cov for _, cov in found])}

    return Run(call, result)


def statsmodels(size: Size) -> Run:
    from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

    system, xs = data(size)
    peers = []
    for one in xs.astype(np.float64):
        peer = KalmanSmoother(k_endog=size["columns"], k_states=size["hidden"])
        peer.bind(np.ascontiguousarray(one))
        peer["design"], peer["obs_cov"] = system.emission, system.emission_noise
        peer["transition"], peer["state_cov"] = system.transition, system.transition_noise
        peer["selection"] = np.eye(size["hidden"])
        peer.initialize_known(system.mean, system.covariance)
        peers.append(peer)

    def call():
        return [peer.smooth() for peer in peers]

    def result():
        found = call()
        mean = np.stack([one.smoothed_state.T for one in found])
        return {"mean": mean, "covariance": np.stack([np.moveaxis(one.smoothed_state_cov, -1, 0) for one in found])}

    return Run(call, result)


def work(size: Size) -> Work:
    """Covariances once for each step, since no observation changes them; means, and results, for each sequence."""
    n, m = size["hidden"], size["columns"]
    steps = size["sequences"] * size["steps"]
    filtering = 2 * n**3 + 2 * n**2 * m + n * m**2 + m**3 / 3
    smoothing = n**3 / 3 + 3 * n**3
    means = 2 * n * m + m**2 + 2 * n**2
    kept = 4 * (m + n + 2 * n**2)  # observations read; smoothed means, covariances and crossed ones written
    return Work(size["steps"] * (filtering + smoothing) + steps * means, steps * kept)


def work_of_gradient(size: Size) -> Work:
    """For each sequence, the products of a step back; forward, and to and from memory, next to nothing."""
    n, m = size["hidden"], size["columns"]
    steps = size["sequences"] * size["steps"]
    return Work(steps * (3 * n**3 + n**3 / 2 + 8 * n**2 * m), steps * 4 * 3 * (m + n))


def cases(scale: Scale) -> list[Case]:
    """Means and covariances of all states given all observations; and slopes, for which no goal was set."""
    makers: dict[str, Any] = {
        "hiddenstate": ours,
        "hiddenstate Sequential": partial(ours, strategy="Sequential"),
        "dynamax": dynamax,
        "pykalman": pykalman,
        "statsmodels": statsmodels,
    }
    slopes = {
        name: partial(makers[name], task=GRADIENT) for name in ("hiddenstate", "hiddenstate Sequential", "dynamax")
    }
    found = []
    for numbers in SIZES[scale]:
        size = dict(zip(NAMES, numbers, strict=True))
        smoothing = Case(
            workload="kalman",
            title=SMOOTH,
            size=size,
            makers=makers,
            # Single precision through a thousand products of covariances; those are of size one.
            agreement={"mean": Agreement(1e-2, 2e-2), "covariance": Agreement(1e-2, 1e-2)},
            goal=GOAL,
            work=work(size),
            probed=("pykalman", "statsmodels"),
            memory=numbers == SIZES[scale][-1],
            note="pykalman and statsmodels compute in double precision.",
        )
        gradient = Case(
            workload="kalman",
            title=GRADIENT,
            size=size,
            makers=slopes,
            agreement={"log_prob": Agreement(1e-4), "gradient": Agreement(2e-2, 0.5)},
            work=work_of_gradient(size),
        )
        found += [smoothing, gradient]
    return found
