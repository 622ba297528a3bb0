"""Stored outputs of hmmlearn (tests/reference/make_hmmlearn_reference.py): the same numbers from models taken over."""

from pathlib import Path

import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.hmmlearn import from_hmmlearn
from hiddenstate.learn import EM

STORED = np.load(Path(__file__).parent / "reference" / "hmmlearn.npz")
NAMES = sorted({key.partition("/")[0] for key in STORED if "/" in key})
CLASSES = {"categorical": "CategoricalHMM", "poisson": "PoissonHMM", "gaussian": "GaussianHMM", "mixture": "GMMHMM"}


def estimator(name, **changed):
    """What hmmlearn's estimator looks like from outside."""
    family, _, kind = name.partition("-")
    made = type(CLASSES[family], (), {})()
    made.covariance_type = kind
    for key in STORED:
        what = key.removeprefix(f"{name}/")
        if what != key and what.endswith("_") and "/" not in what:
            setattr(made, what, STORED[key])
    vars(made).update(changed)
    return made


def data_of(name):
    values = STORED[f"{name}/values"]
    values = values[:, 0] if name == "categorical" else values
    return hs.Sequences.of(np.split(values, np.cumsum(STORED[f"{name}/lengths"])[:-1]))


def rows(array, data):
    """The steps of all sequences one behind the other."""
    return np.concatenate([np.asarray(array)[i, :n] for i, n in enumerate(data.lengths)])


@pytest.mark.parametrize("name", NAMES)
def test_scores_posteriors_and_paths_are_the_same(name):
    model, data = from_hmmlearn(estimator(name)), data_of(name)
    np.testing.assert_allclose(hs.log_prob(model, data), STORED[f"{name}/log_probs"], rtol=1e-9, atol=1e-6)
    smoothed = hs.smooth(model, data)
    np.testing.assert_allclose(rows(smoothed.marginals, data), STORED[f"{name}/posteriors"], atol=1e-6)
    decoded = hs.most_likely_states(model, data)
    np.testing.assert_array_equal(rows(decoded.states, data), STORED[f"{name}/states"])
    np.testing.assert_allclose(decoded.log_prob, STORED[f"{name}/decoded"], atol=1e-6)


@pytest.mark.parametrize("name", [name for name in NAMES if f"{name}/path/log_prob" in STORED])
def test_em_takes_the_same_path(name):
    """Iteration by iteration: log-probabilities and parameters to 1e-6."""
    model, data = from_hmmlearn(estimator(name)), data_of(name)
    path = {key.rpartition("/")[2]: STORED[key] for key in STORED if key.startswith(f"{name}/path/")}
    count = len(path["log_prob"])
    whole = hs.fit(model, data, EM(iterations=count, tolerance=0, variance_floor=0), key=jr.key(0))
    np.testing.assert_allclose(-whole.history["loss"] * data.steps, path["log_prob"], atol=1e-6)
    for step in range(count):
        model = hs.fit(model, data, EM(iterations=1, variance_floor=0), key=jr.key(0)).model
        np.testing.assert_allclose(model.initial_probs, path["startprob_"][step], atol=1e-6)
        np.testing.assert_allclose(model.transition, path["transmat_"][step], atol=1e-6)
        for own, theirs in (("probs", "emissionprob_"), ("rates", "lambdas_"), ("means", "means_")):
            if theirs in path:
                np.testing.assert_allclose(getattr(model.emission, own), path[theirs][step], atol=1e-6)
        if "covars_" in path:
            np.testing.assert_allclose(full_covariances(model), path["covars_"][step], atol=1e-6)


def full_covariances(model):
    given, (states, columns) = np.asarray(model.emission.covariances), model.emission.means.shape
    match model.emission.covariance:
        case "tied":
            return np.broadcast_to(given, (states, columns, columns))
        case "diagonal":
            return given[..., None] * np.eye(columns)
        case "spherical":
            return given[:, None, None] * np.eye(columns)
        case _:
            return given


def test_what_hmmlearn_keeps_inside_is_understood():
    """Fitted spherical estimators show a covars_ of a wrong shape; what they keep has a variance for each column."""
    name = "gaussian-spherical"
    plain = from_hmmlearn(estimator(name))
    kept = np.repeat(np.asarray(plain.emission.covariances)[:, None], 2, axis=1)
    fitted = from_hmmlearn(estimator(name, _covars_=kept, covars_=np.zeros((6, 2, 2))))
    np.testing.assert_allclose(fitted.emission.covariances, plain.emission.covariances, rtol=1e-12)


def test_other_estimators_are_refused():
    with pytest.raises(hs.HiddenStateError, match="has no transmat_; it must be a fitted CategoricalHMM"):
        from_hmmlearn(estimator("poisson", transmat_=None))
    made = estimator("poisson")
    made.__class__ = type("MultinomialHMM", (), {})
    with pytest.raises(hs.HiddenStateError, match=r"is a MultinomialHMM; hs.from_hmmlearn takes"):
        from_hmmlearn(made)
    with pytest.raises(hs.HiddenStateError, match="covariance_type is 'odd'"):
        from_hmmlearn(estimator("gaussian-full", covariance_type="odd"))
