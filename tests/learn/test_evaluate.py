"""What `hs.evaluate` finds, against loops over single predictions and closed forms."""

import math

import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs

KEY = jr.key(0)
SERIES = [np.cumsum(np.random.default_rng(i).normal(size=length)) for i, length in enumerate((30, 22))]


@pytest.fixture(scope="module")
def walk():
    """A random walk that knows itself: exact predictions with a variance that grows by one a step."""
    return hs.LinearGaussian(
        transition=[[1.0]], transition_noise=[[1.0]], emission=[[1.0]], emission_noise=[[0.01]],
        initial_mean=[0.0], initial_covariance=[[1.0]],
    )  # fmt: skip


@pytest.fixture(scope="module")
def labelled():
    sources = [[0, 1, 2, 1], [2, 2], [1, 0, 0]]
    steps = hs.Pairs.of(sources, [[0, 1, 1, 0], [1, 0], [0, 0, 1]], missing=[[False] * 4, [True, False], [False] * 3])
    return steps, hs.Pairs.of(sources, [0, 1, 1])


def gaussian_crps(mean, deviation, x):
    z = (x - mean) / deviation
    cdf, density = 0.5 * (1 + math.erf(z / math.sqrt(2))), math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return deviation * (z * (2 * cdf - 1) + 2 * density - 1 / math.sqrt(math.pi)), cdf


def test_numbers_are_judged_step_by_step(walk):
    data = hs.Sequences.of([s[:, None] for s in SERIES])
    found = hs.evaluate(walk, data, key=KEY)
    ahead = hs.predictive(walk, data)
    scores, places, errors = [], [], []
    for i, length in enumerate(data.lengths):
        for t in range(length):
            mean, variance = float(ahead.mean[i, t, 0]), float(ahead.variance[i, t, 0])
            crps, place = gaussian_crps(mean, math.sqrt(variance), SERIES[i][t])
            scores.append(crps)
            places.append(place)
            errors.append(SERIES[i][t] - mean)
    only = found.only
    assert only.counts.tolist() == [52] and found.score == hs.score(walk, data)
    np.testing.assert_allclose(only.crps, np.mean(scores), rtol=1e-9)
    np.testing.assert_allclose(only.pit[0], places, atol=1e-9)
    np.testing.assert_allclose(only.rmse, math.sqrt(np.mean(np.square(errors))), rtol=1e-9)
    np.testing.assert_allclose(only.mae, np.mean(np.abs(errors)), rtol=1e-9)
    for level in (0.5, 0.8, 0.95):
        inside = [abs(place - 0.5) <= level / 2 for place in places]
        assert only.coverage[level] == pytest.approx(np.mean(inside))


def test_forecasts_are_judged_from_every_origin(walk):
    """The forecast of k steps after x_1 .. x_t, from `hs.forecast` on that prefix alone."""
    series = SERIES[1][:8, None]
    found = hs.evaluate(walk, [series], key=KEY, horizon=3)
    prefixes = hs.Sequences.of([series[:t] for t in range(1, 6)])
    ahead = hs.forecast(walk, prefixes, 3, key=KEY, n=2)
    expected = np.zeros((5, 3))
    for i in range(5):
        for k in range(3):
            deviation = math.sqrt(float(ahead.covariance[i, k, 0, 0]))
            expected[i, k] = gaussian_crps(float(ahead.mean[i, k, 0]), deviation, series[1 + i + k, 0])[0]
    np.testing.assert_allclose(found.only.crps, expected.mean(axis=0), rtol=1e-9)
    assert found.only.counts.tolist() == [5, 5, 5] and found.frame()["ahead"].to_list() == [1, 2, 3]
    some = hs.evaluate(walk, [series], key=KEY, horizon=3, origins=2)
    np.testing.assert_allclose(some.only.crps, expected[[0, 4]].mean(axis=0), rtol=1e-9)


def test_sampled_forecasts_agree_with_closed_forms_also_with_inputs():
    """One step ahead a network's prediction is Gaussian: the score from samples is that in closed form."""
    inputs = [np.sin(np.arange(len(s)))[:, None] for s in SERIES]
    data = hs.Sequences.of(SERIES, inputs=inputs)
    model = hs.build("vanilla", data, hidden=3, key=KEY)
    exact = hs.evaluate(model, data.after(1), key=KEY).only
    drawn = hs.evaluate(model, data.after(1).window(0, data.lengths), key=KEY, horizon=2, n=800, origins=1000).only
    assert drawn.counts.tolist() == [48, 48]
    ahead = hs.predictive(model, data)
    kept = [
        gaussian_crps(float(ahead.mean[i, t]), float(ahead.variance[i, t]) ** 0.5, SERIES[i][t])[0]
        for i, n in enumerate(data.lengths)
        for t in range(1, n - 1)
    ]
    assert exact.counts.tolist() == [50]
    assert drawn.crps[0] == pytest.approx(np.mean(kept), rel=0.02)


def test_mixtures_of_gaussians_are_judged_in_closed_form():
    """Against a hundred thousand draws from the prediction of every step, and their order."""
    model = hs.HMM(
        initial=[0.5, 0.5],
        transition=[[0.9, 0.1], [0.2, 0.8]],
        emission=hs.emissions.Gaussian(
            means=[[0.0, 1.0], [3.0, -1.0]], covariances=[[1.0, 0.3], [0.5, 2.0]], covariance="diagonal"
        ),
    )
    data = hs.sample(model, 12, key=jr.key(3))
    found = hs.evaluate(model, data, key=KEY)
    ahead = hs.predictive(model, data)
    draws = np.asarray(ahead.sample(jr.key(4), (100_000,)))[:, 0]
    for i, column in enumerate(found.columns.values()):
        x = data[0][:, i]
        scores = hs.metrics.crps_samples(draws[..., i], x)
        assert column.crps[0] == pytest.approx(scores.mean(), abs=0.01)
        np.testing.assert_allclose(column.pit[0], (draws[..., i] < x).mean(axis=0), atol=0.01)
        assert column.mae[0] == pytest.approx(np.abs(np.median(draws[..., i], axis=0) - x).mean(), abs=0.01)


def test_counts_are_judged_from_samples():
    """Against the sum over all whole numbers k of (F(k) - [k >= x])^2."""
    counts = np.random.default_rng(0).poisson(3.0, 40)
    data = hs.Sequences.of([counts], schema=hs.Schema((hs.Column("n", "count"),), scalar=True))
    model = hs.build("unigram", data, head="poisson", key=KEY)
    only = hs.evaluate(model, data, key=KEY, n=3000).only
    rate = float(hs.predictive(model, data).mean[0, 0])
    k = np.arange(40)
    cdf = np.cumsum([math.exp(-rate) * rate**j / math.factorial(j) for j in k])
    expected = np.mean([((cdf - (k >= x)) ** 2).sum() for x in counts])
    assert only.crps[0] == pytest.approx(expected, rel=0.03)


def test_symbols_are_judged_as_classes():
    data = hs.Sequences.of([[0, 1, 2, 0, 1, 2], [2, 0, 1]])
    model = hs.build("bigram", data, key=KEY)
    model = hs.fit(model, data, hs.LBFGS(iterations=3), key=KEY, progress=False).model
    found = hs.evaluate(model, data, key=KEY, bins=4)
    probs = np.asarray(hs.predictive(model, data).probs)
    right = [probs[i, t].argmax() == x for i, s in enumerate(data) for t, x in enumerate(s)]
    assert found.only.accuracy.tolist() == [np.mean(right)]
    assert found.only.log_loss[0] == pytest.approx(found.score.nats_per_step, rel=1e-6)
    assert found.only.most_frequent.tolist() == [1 / 3] and len(found.only.reliability[0].counts) == 4
    ahead = hs.evaluate(model, data, key=KEY, horizon=2).only
    assert ahead.counts.tolist() == [5, 5] and ahead.accuracy.shape == ahead.calibration_error.shape == (2,)


def test_what_is_missing_is_not_judged():
    values = np.array([[1.0, 0.5], [np.nan, 0.7], [np.nan, np.nan], [1.2, np.nan]])
    model = hs.build("hmm", [values, values], states=2, key=KEY)
    found = hs.evaluate(model, [values, values], key=KEY, n=50)
    assert {name: column.counts.tolist() for name, column in found.columns.items()} == {"x0": [4], "x1": [4]}


def test_records_are_judged_by_column():
    columns = (hs.Column("sky", "symbol", 3), hs.Column("temp", "real"), hs.Column("wet", "bit"))
    rows = np.array([[0, 1.5, 1], [2, 2.5, 0], [1, 0.5, 0], [0, 1.0, 1]], float)
    data = hs.Sequences.of([rows], schema=hs.Schema(columns, scalar=False))
    model = hs.build("unigram", data, key=KEY)
    found = hs.evaluate(model, data, key=KEY)
    parts = hs.predictive(model, data).columns
    assert found.columns["sky"].log_loss[0] == pytest.approx(
        -float(parts["sky"].log_prob(rows[:, 0].astype(int)).mean())
    )
    assert found.columns["wet"].brier[0] == pytest.approx(0.5) and found.columns["temp"].crps[0] > 0
    assert found.frame()["accuracy"].null_count() == 1
    score, *columns = str(found).splitlines()
    assert score == str(found.score) and [line.split(":")[0] for line in columns] == ["sky", "temp", "wet"]
    assert f"crps {found.columns['temp'].crps[0]:.4g}" in columns[1] and "accuracy" not in columns[1]
    with pytest.raises(hs.HiddenStateError, match="there are 3 columns"):
        _ = found.only


def test_answers_are_judged(labelled):
    steps, whole = labelled
    for pairs in (steps, whole):
        model = hs.build("gru", pairs, hidden=3, key=KEY)
        found = hs.evaluate(model, pairs, key=KEY).only
        probs = np.asarray(hs.predictive(model, pairs).probs).reshape(-1, 2)
        labels = pairs.targets.values[:, : probs.shape[0] // 3].reshape(-1)
        counted = np.flatnonzero(pairs.scored)
        assert found.counts.tolist() == [pairs.scored_steps]
        assert found.accuracy[0] == np.mean([probs[i].argmax() == labels[i] for i in counted])
        assert found.log_loss[0] == pytest.approx(-np.mean([math.log(probs[i, labels[i]]) for i in counted]))


def test_a_column_without_values_is_not_judged():
    values = np.stack([SERIES[0], np.full(30, np.nan)], axis=1)
    data = hs.Sequences.of([values], missing=[np.isnan(values)])
    two = np.eye(2)
    model = hs.LinearGaussian(
        transition=two, transition_noise=two, emission=two, emission_noise=0.01 * two,
        initial_mean=[0.0, 0.0], initial_covariance=two,
    )  # fmt: skip
    for horizon in (1, 3):
        found = hs.evaluate(model, data, key=KEY, horizon=horizon)
        assert len(found.columns) == 1 and found.unjudged == (data.schema.columns[1].name,)
    nothing = hs.Sequences.of([values * np.nan], missing=[np.ones_like(values, bool)])
    with pytest.raises(hs.DataError, match="nothing to judge"):
        hs.evaluate(model, nothing, key=KEY)


def test_wrong_use_is_named(labelled, walk):
    data = hs.Sequences.of([SERIES[0][:, None]])
    with pytest.raises(hs.DataError, match="horizon is 0"):
        hs.evaluate(walk, data, key=KEY, horizon=0)
    with pytest.raises(hs.DataError, match="n is 1"):
        hs.evaluate(walk, data, key=KEY, n=1)
    with pytest.raises(hs.DataError, match="horizon is 30, but at most 29 can be judged here"):
        hs.evaluate(walk, data, key=KEY, horizon=30)
    model = hs.build("gru", labelled[1], hidden=3, key=KEY)
    with pytest.raises(hs.DataError, match="it has no steps ahead"):
        hs.evaluate(model, labelled[1], key=KEY, horizon=2)
