"""Write hmmlearn.npz: what hmmlearn says of hidden Markov models with given parameters, and how its EM changes them.

Run once, in an environment of its own; the library never needs hmmlearn:

    python3 -m venv hmmenv && hmmenv/bin/pip install hmmlearn==0.3.3
    hmmenv/bin/python tests/reference/make_hmmlearn_reference.py

All in float64 and of several sequences. For every model, named ``model/what``: ``values`` (all sequences one behind the
other) and ``lengths``, the parameters under hmmlearn's own names, ``log_probs`` of each sequence, ``posteriors`` of all
steps, ``states`` and ``decoded`` (Viterbi paths and the joint log-probability of each). Where EM was run, without any
prior, ``path/log_prob`` holds the log-probability of all data before each iteration and ``path/<parameter>`` the
parameters after it.
"""

from pathlib import Path

import hmmlearn
import numpy as np
from hmmlearn import hmm

LENGTHS = (40, 23, 1, 36)
STATES, COLUMNS, SYMBOLS, MIXTURE, ITERATIONS = 3, 2, 4, 2, 12
PLAIN = {"init_params": "", "implementation": "scaling", "n_components": STATES, "n_iter": 1, "tol": -np.inf}


def rows(random, *shape):
    return random.dirichlet(np.full(shape[-1], 2.0), shape[:-1])


def matrices(random, *shape):
    roots = random.normal(size=(*shape, COLUMNS, COLUMNS))
    return roots @ np.swapaxes(roots, -1, -2) + 0.5 * np.eye(COLUMNS)


def covariances(random, kind, *shape):
    if kind == "spherical":
        return random.uniform(0.5, 2, shape)
    if kind == "diag":
        return random.uniform(0.5, 2, (*shape, COLUMNS))
    return matrices(random, *shape) if kind == "full" else matrices(random, *shape[:-1])


def categorical(random):
    model = hmm.CategoricalHMM(**PLAIN)
    model.n_features, model.emissionprob_ = SYMBOLS, rows(random, STATES, SYMBOLS)
    return model, ("emissionprob_",)


def poisson(random):
    model = hmm.PoissonHMM(**PLAIN)
    model.n_features, model.lambdas_ = COLUMNS, random.uniform(0.5, 9, (STATES, COLUMNS))
    return model, ("lambdas_",)


def gaussian(kind):
    def make(random):
        model = hmm.GaussianHMM(covariance_type=kind, covars_prior=0, covars_weight=1, min_covar=0, **PLAIN)
        model.n_features, model.means_ = COLUMNS, random.normal(0, 2, (STATES, COLUMNS))
        model.covars_ = covariances(random, kind, STATES)
        return model, ("means_", "covars_")

    return make


def mixture(kind):
    def make(random):
        model = hmm.GMMHMM(n_mix=MIXTURE, covariance_type=kind, **PLAIN)
        model.n_features, model.weights_ = COLUMNS, rows(random, STATES, MIXTURE)
        model.means_ = random.normal(0, 2, (STATES, MIXTURE, COLUMNS))
        model.covars_ = covariances(random, kind, STATES, MIXTURE)
        return model, ("weights_", "means_", "covars_")

    return make


KINDS = ("full", "diag", "spherical", "tied")
MODELS = {
    "categorical": categorical,
    "poisson": poisson,
    **{f"gaussian-{kind}": gaussian(kind) for kind in KINDS},
    **{f"mixture-{kind}": mixture(kind) for kind in KINDS},
}


def reference(name: str, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    model, own = MODELS[name](random)
    model.startprob_, model.transmat_ = rows(random, STATES), rows(random, STATES, STATES)
    parameters = ("startprob_", "transmat_", *own)
    values = np.concatenate([model.sample(n, random_state=seed + i)[0] for i, n in enumerate(LENGTHS)])
    ends = np.cumsum(LENGTHS)
    parts = np.split(values, ends[:-1])
    decoded = [model.decode(part) for part in parts]
    out = {
        "values": values,
        "lengths": np.array(LENGTHS),
        "log_probs": np.array([model.score(part) for part in parts]),
        "posteriors": np.concatenate([model.predict_proba(part) for part in parts]),
        "states": np.concatenate([states for _, states in decoded]),
        "decoded": np.array([log_prob for log_prob, _ in decoded]),
        **{what: parameter(model, what) for what in parameters},
    }
    if not name.startswith("mixture"):
        out |= path(model, values, parameters)
    return {f"{name}/{key}": value for key, value in out.items()}


def parameter(model, what) -> np.ndarray:
    if what == "covars_" and model.covariance_type == "spherical" and isinstance(model, hmm.GaussianHMM):
        # after fit, hmmlearn 0.3.3 keeps one variance for each state and column and gives covars_ of a wrong shape
        return np.reshape(model._covars_, (STATES, -1))[:, :1, None] * np.eye(COLUMNS)
    return np.array(getattr(model, what))


def path(model, values, parameters) -> dict[str, np.ndarray]:
    seen = {what: [] for what in ("log_prob", *parameters)}
    for _ in range(ITERATIONS):
        seen["log_prob"].append(model.score(values, LENGTHS))
        model.fit(values, LENGTHS)
        for what in parameters:
            seen[what].append(parameter(model, what))
    return {f"path/{what}": np.array(steps) for what, steps in seen.items()}


if __name__ == "__main__":
    arrays = {"library": np.array(f"hmmlearn {hmmlearn.__version__}, numpy {np.__version__}")}
    for seed, name in enumerate(MODELS):
        arrays |= reference(name, seed)
    np.savez_compressed(Path(__file__).with_name("hmmlearn.npz"), **arrays)
