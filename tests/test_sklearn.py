"""The estimator does what scikit-learn expects of one, with and without scikit-learn."""

import subprocess
import sys

import jax.random as jr
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

import hiddenstate as hs
from hiddenstate.sklearn import HMMEstimator


@pytest.fixture(scope="module")
def sequences():
    """Two states that are far apart, two columns, in sequences of different lengths."""
    true = hs.HMM(
        [0.5, 0.5],
        [[0.9, 0.1], [0.2, 0.8]],
        hs.emissions.Gaussian([[-3.0, 0.0], [3.0, 1.0]], np.ones((2, 2)), "diagonal"),
    )
    drawn = hs.sample(true, 40, key=jr.key(0), n=6)
    return [np.asarray(values[: 40 - 3 * i]) for i, values in enumerate(drawn)]


@pytest.fixture(scope="module")
def fitted(sequences):
    return HMMEstimator(states=2, covariance="diagonal", random_state=0).fit(sequences)


def test_lists_and_arrays_with_lengths_are_the_same(fitted, sequences):
    array, lengths = np.concatenate(sequences), [len(part) for part in sequences]
    paths = fitted.predict(sequences)
    assert [len(path) for path in paths] == lengths
    np.testing.assert_array_equal(fitted.predict(array, lengths), np.concatenate(paths))
    probs = fitted.predict_proba(array, lengths)
    assert probs.shape == (len(array), 2)
    np.testing.assert_allclose(probs.sum(1), 1, atol=1e-6)
    np.testing.assert_allclose(probs, np.concatenate(fitted.predict_proba(sequences)))
    assert (probs.argmax(1) == np.concatenate(paths)).mean() > 0.98
    assert np.abs(np.diff(np.sort(np.asarray(fitted.model_.emission.means)[:, 0])) - 6) < 1
    again = HMMEstimator(states=2, covariance="diagonal", random_state=0).fit(array, lengths=lengths)
    np.testing.assert_array_equal(again.model_.emission.means, fitted.model_.emission.means)


def test_scores_are_means_over_steps(fitted, sequences):
    each = fitted.score_samples(sequences)
    np.testing.assert_allclose(each, hs.log_prob(fitted.model_, sequences), rtol=1e-6)
    assert fitted.score(sequences) == pytest.approx(each.sum() / sum(map(len, sequences)), rel=1e-6)


def test_samples_have_the_form_of_the_data(fitted):
    drawn = fitted.sample(5, n=3, random_state=1)
    assert [part.shape for part in drawn] == [(5, 2)] * 3
    np.testing.assert_array_equal(drawn[0], fitted.sample(5, n=3, random_state=1)[0])


@pytest.mark.slow
def test_it_is_cloned_and_searched(sequences):
    estimator = HMMEstimator(covariance="diagonal", restarts=2, random_state=0, iterations=20)
    assert clone(estimator).get_params() == estimator.get_params()
    assert estimator.set_params(states=3).states == 3
    search = GridSearchCV(estimator, {"states": [1, 2]}, cv=2).fit(sequences)
    assert search.best_params_ == {"states": 2}
    assert search.cv_results_["mean_test_score"][1] > search.cv_results_["mean_test_score"][0] + 0.5
    assert search.best_estimator_.model_.states == 2
    ragged = np.empty(len(sequences), object)
    ragged[:] = sequences
    np.testing.assert_array_equal(search.predict(ragged)[0], search.predict(sequences)[0])


def test_symbols_counts_and_missing_values(sequences):
    symbols = np.array([[0], [1], [2], [1], [0], [2], [2], [1]])
    model = HMMEstimator(2, random_state=0, iterations=3).fit(symbols, lengths=[5, 3])
    assert isinstance(model.model_.emission, hs.emissions.Categorical) and model.n_features_in_ == 1
    assert model.sample(4)[0].shape == (4, 1)
    counts = HMMEstimator(2, emission="poisson", random_state=0, iterations=3).fit(np.hstack([symbols, symbols]))
    assert counts.model_.emission.rates.shape == (2, 2)
    gaps = [part.copy() for part in sequences]
    gaps[0][3] = np.nan
    gaps[1][2, 1] = np.nan
    assert np.isfinite(HMMEstimator(2, random_state=0, iterations=3).fit(gaps).score(gaps))


def test_what_cannot_be_is_told(fitted, sequences):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        HMMEstimator().predict(sequences)
    with pytest.raises(hs.DataError, match="lengths sum to 3, but X has 40 rows"):
        fitted.predict(sequences[0], [1, 2])
    with pytest.raises(hs.DataError, match="leave out lengths"):
        fitted.predict(sequences, [1, 2])
    with pytest.raises(hs.HiddenStateError, match="random_state is 'x'"):
        HMMEstimator(random_state="x").fit(sequences)
    with pytest.raises(hs.DataError, match="shape"):
        fitted.score(np.zeros((4, 3)))


def test_scikit_learn_is_not_needed():
    code = """
import sys
sys.modules["sklearn"] = sys.modules["sklearn.base"] = None
from hiddenstate.sklearn import HMMEstimator
estimator = HMMEstimator(states=3)
assert estimator.get_params()["states"] == 3 and estimator.set_params(states=4).states == 4
assert "sklearn" not in str(HMMEstimator.__mro__[1].__module__).split(".")[0]
try:
    estimator.predict([[0]])
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "not fitted yet" in done.stdout, done.stdout + done.stderr
