"""Hidden Markov models with Gaussian emissions of two columns and diagonal covariances."""

from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from peers.case import FUNCTION, Agreement, Case, Run, Scale, Size, Work

COLUMNS = 2
STATES = {"full": (5, 32, 256), "quick": (5, 32), "tiny": (3,)}
SHAPES = {
    "full": ((64, 1_000), (1, 100_000)),
    "quick": ((64, 250), (1, 10_000)),
    "tiny": ((3, 20), (1, 50)),
}
TASKS = ("log-likelihood", "gradient", "E-step", "Viterbi")
BATCHED, SINGLE = 10.0, 4.0


class Parameters(NamedTuple):
    """An HMM as plain arrays, in double precision."""

    initial: np.ndarray
    transition: np.ndarray
    means: np.ndarray
    variances: np.ndarray


@lru_cache(maxsize=4)
def arrays(states: int, sequences: int, steps: int) -> tuple[Parameters, np.ndarray]:
    """Parameters and data drawn from them: states stay for a while, and neighbours overlap."""
    random = np.random.default_rng(states)
    transition = 0.8 * np.eye(states) + 0.2 * random.dirichlet(np.ones(states), states)
    means, variances = random.normal(size=(states, COLUMNS)) * 3, random.uniform(0.5, 1.5, (states, COLUMNS))
    found = Parameters(np.full(states, 1 / states), transition, means, variances)
    path = np.zeros((sequences, steps), int)
    path[:, 0] = random.integers(states, size=sequences)
    levels = transition.cumsum(1)
    for t in range(1, steps):
        drawn = random.random(sequences)[:, None]
        path[:, t] = np.minimum((levels[path[:, t - 1]] < drawn).sum(1), states - 1)
    xs = means[path] + np.sqrt(variances)[path] * random.normal(size=(sequences, steps, COLUMNS))
    return found, xs.astype(np.float32)


def data(size: Size) -> tuple[Parameters, np.ndarray]:
    """Those of a size."""
    return arrays(size["states"], size["sequences"], size["steps"])


def path_log_prob(found: Parameters, xs: np.ndarray, paths: np.ndarray) -> np.ndarray:
    """log p(path, xs) of each sequence, by the definition, in double precision."""
    residual = xs.astype(np.float64) - found.means[paths]
    variances = found.variances[paths]
    seen = -0.5 * (residual**2 / variances + np.log(2 * np.pi * variances)).sum((-2, -1))
    moves = np.log(found.transition)[paths[:, :-1], paths[:, 1:]].sum(-1)
    return seen + moves + np.log(found.initial)[paths[:, 0]]


# -- this library ----------------------------------------------------------------------------------------------


def ours(size: Size, task: str, precision: str, strategy: str = "Auto") -> Run:
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    import hiddenstate as hs
    from hiddenstate.learn import statistics

    found, xs = data(size)
    emission = hs.emissions.Gaussian(means=found.means, covariances=found.variances, covariance="diagonal")
    model = hs.cast(hs.HMM(found.initial, found.transition, emission), jnp.dtype(precision))
    sequences = hs.Sequences.padded(xs.astype(precision))
    how = getattr(hs, strategy)()
    if task == "log-likelihood":
        call = partial(hs.log_prob, model, sequences, strategy=how)
        return waiting(call, lambda out: {"log_prob": out})
    if task == "gradient":
        learned, rest = eqx.partition(model, eqx.is_inexact_array)

        @jax.jit
        @jax.value_and_grad
        def gradient(learned):
            return hs.log_prob(eqx.combine(learned, rest), sequences, strategy=how, total=True)

        def compare(out):
            # Means are learned in units of the given deviations.
            return {"log_prob": out[0], "gradient": out[1].emission.offsets / model.emission.scale.value}

        return waiting(partial(gradient, learned), compare)
    if task == "E-step":
        stacked = statistics.stack([model])
        call = partial(statistics.expect, stacked, sequences, how)
        return waiting(call, lambda out: {"log_prob": out[1], "counts": out[0].transition[0]})
    call = partial(hs.most_likely_states, model, sequences, strategy=how)
    return waiting(call, lambda out: {"path_log_prob": path_log_prob(found, xs, np.asarray(out.states))})


def waiting(call: Any, compare: Any) -> Run:
    """A run of JAX's: wait for the numbers."""
    import jax

    def run():
        return jax.block_until_ready(call())

    return Run(run, lambda: {name: np.asarray(value) for name, value in compare(run()).items()})


# -- the peers -------------------------------------------------------------------------------------------------


def hmmlearn(size: Size, task: str, implementation: str) -> Run:
    from hmmlearn.hmm import GaussianHMM

    found, xs = data(size)
    peer = GaussianHMM(size["states"], "diag", implementation=implementation, min_covar=0)
    peer.startprob_, peer.transmat_ = found.initial, found.transition
    peer.means_, peer.covars_, peer.n_features = found.means, found.variances, COLUMNS
    together, lengths = xs.astype(np.float64).reshape(-1, COLUMNS), [size["steps"]] * size["sequences"]
    if task == "log-likelihood":
        return Run(lambda: peer.score(together, lengths), lambda: {"log_prob": peer.score(together, lengths)})
    if task == "E-step":  # what `fit` runs in every iteration, without the checks and the maximisation around it

        def result():
            counts, log_prob = peer._do_estep(together, lengths)
            return {"log_prob": log_prob, "counts": counts["trans"]}

        return Run(lambda: peer._do_estep(together, lengths), result)

    def decoded():
        return {"path_log_prob": path_log_prob(found, xs, peer.decode(together, lengths)[1].reshape(xs.shape[:2]))}

    return Run(lambda: peer.decode(together, lengths), decoded)


def dynamax(size: Size, task: str, precision: str) -> Run:
    import jax
    import jax.numpy as jnp
    from dynamax.hidden_markov_model import DiagonalGaussianHMM

    found, xs = data(size)
    peer = DiagonalGaussianHMM(size["states"], COLUMNS)
    parameters, _ = peer.initialize(
        initial_probs=jnp.asarray(found.initial, precision),
        transition_matrix=jnp.asarray(found.transition, precision),
        emission_means=jnp.asarray(found.means, precision),
        emission_scale_diags=jnp.asarray(np.sqrt(found.variances), precision),
    )
    emissions = jnp.asarray(xs, precision)
    each = jax.vmap(peer.marginal_log_prob, (None, 0))
    if task == "log-likelihood":
        return waiting(partial(jax.jit(each), parameters, emissions), lambda out: {"log_prob": out})
    if task == "gradient":
        gradient = jax.jit(jax.value_and_grad(lambda parameters, xs: each(parameters, xs).sum()))

        def compare(out):
            return {"log_prob": out[0], "gradient": out[1].emissions.means}

        return waiting(partial(gradient, parameters, emissions), compare)
    if task == "E-step":

        @jax.jit
        def expect(parameters, xs):
            found, log_prob = jax.vmap(partial(peer.e_step, parameters))(xs)
            return jax.tree.map(lambda a: a.sum(0), found), log_prob.sum()

        def compare(out):
            return {"log_prob": out[1], "counts": out[0][1]}

        return waiting(partial(expect, parameters, emissions), compare)
    decode = jax.jit(jax.vmap(peer.most_likely_states, (None, 0)))
    return waiting(
        partial(decode, parameters, emissions),
        lambda out: {"path_log_prob": path_log_prob(found, xs, np.asarray(out))},
    )


def pomegranate(size: Size, task: str) -> Run:
    import torch
    from pomegranate.distributions import Normal
    from pomegranate.hmm import DenseHMM

    found, xs = data(size)
    initial, transition, means, variances = (part.astype(np.float32) for part in found)
    emitted = [Normal(m, v, covariance_type="diag") for m, v in zip(means, variances, strict=True)]
    ends = np.full(size["states"], ENDING, np.float32)
    peer, batch = DenseHMM(emitted, edges=transition, starts=initial, ends=ends), torch.from_numpy(xs)
    constant = float(np.log(ENDING))

    def score():
        return peer.log_probability(batch)

    def decode():
        return peer.viterbi(batch)

    def summarize():
        peer._reset_cache()  # `summarize` adds to what was there
        return peer.summarize(batch)

    def expected():
        total = summarize().double().sum()
        return {"log_prob": total - constant * len(xs), "counts": peer._xw_sum}

    runs = {
        "log-likelihood": (score, lambda: {"log_prob": score() - constant}),
        "E-step": (summarize, expected),
        "Viterbi": (decode, lambda: {"path_log_prob": path_log_prob(found, xs, decode().numpy())}),
    }
    call, result = (torch.no_grad()(function) for function in runs[task])
    return Run(call, lambda: {name: np.asarray(value) for name, value in result().items()})


ENDING = 1e-6
"""pomegranate has probabilities of ending; where all are the same they change nothing but a constant."""


# -- the cases -------------------------------------------------------------------------------------------------


def makers(task: str, precision: str) -> dict[str, Any]:
    """Who can do what; hmmlearn knows double precision only, in which we are compared with it alone."""
    found: dict[str, Any] = {"hiddenstate": partial(ours, task=task, precision=precision)}
    if precision == "float32":
        found["hiddenstate Sequential"] = partial(ours, task=task, precision=precision, strategy="Sequential")
        found["dynamax"] = partial(dynamax, task=task, precision=precision)
    if precision == "float32" and task != "gradient":
        found["pomegranate"] = partial(pomegranate, task=task)
    if task != "gradient":
        found["hmmlearn scaling"] = partial(hmmlearn, task=task, implementation="scaling")
        found["hmmlearn log"] = partial(hmmlearn, task=task, implementation="log")
    if task == "Viterbi":  # there is only one implementation of it
        found["hmmlearn"] = found.pop("hmmlearn log")
        del found["hmmlearn scaling"]
    return found


def work(task: str, size: Size, precision: str) -> Work:
    """Per step: the move of the belief takes K^2, an observation's likelihoods K (2 columns and an exponential)."""
    states, steps, bytes_ = size["states"], size["sequences"] * size["steps"], 4 if precision == "float32" else 8
    seen = states * (2 * COLUMNS + FUNCTION)
    each = {
        "log-likelihood": (states**2 + seen, 0),
        "gradient": (3 * states**2 + 2 * seen, 2 * states * bytes_),  # forward, backward, and products of both
        "E-step": (3 * states**2 + 2 * seen, 2 * states * bytes_),
        "Viterbi": (2 * states**2 + seen, states + 4),  # an addition and a maximum; a byte says where it came from
    }
    operations, moved = each[task]
    return Work(steps * operations, steps * (moved + COLUMNS * bytes_))


def agreement(precision: str) -> dict[str, Agreement]:
    """Sums over 100,000 steps in single precision keep four to five digits, gradients with cancellations fewer."""
    single = precision == "float32"
    return {
        "log_prob": Agreement(1e-4 if single else 1e-9),
        "path_log_prob": Agreement(1e-4 if single else 1e-9),
        "counts": Agreement(2e-2 if single else 1e-6, 0.05),
        "gradient": Agreement(2e-2 if single else 1e-6, 0.5),
    }


def case(task: str, size: Size, precision: str = "float32", **more: Any) -> Case:
    """One of the cases, or a point of a scaling plot."""
    return Case(
        workload="hmm",
        title=task,
        size=size,
        makers=more.pop("makers", None) or makers(task, precision),
        agreement=agreement(precision),
        precision=precision,
        work=work(task, size, precision),
        probed=("hmmlearn", "hmmlearn log", "hmmlearn scaling", "pomegranate"),
        **more,
    )


def cases(scale: Scale) -> list[Case]:
    """All tasks in single precision, and those that hmmlearn has in double precision too."""
    found = []
    for precision in ("float32", "float64"):
        for task in TASKS:
            for sequences, steps in SHAPES[scale]:
                for states in STATES[scale]:
                    if precision == "float64" and task == "gradient":
                        continue
                    size = {"states": states, "sequences": sequences, "steps": steps}
                    goal = SINGLE if sequences == 1 else BATCHED
                    large = (
                        states == STATES[scale][-1] and sequences > 1 and precision == "float32" and task == "E-step"
                    )
                    found.append(case(task, size, precision, goal=goal, memory=large))
    return found
