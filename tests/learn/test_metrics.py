"""Metrics against loops, integrals and distributions whose answer is known."""

import math

import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.learn import metrics

RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module")
def cases():
    probs = RANDOM.dirichlet([0.7, 1.0, 2.0], 400)
    labels = np.array([RANDOM.choice(3, p=p) for p in probs])
    return probs, labels


def test_accuracy_log_loss_and_brier_are_those_of_a_loop(cases):
    probs, labels = cases
    right = nats = squares = 0.0
    for p, y in zip(probs.tolist(), labels.tolist(), strict=True):
        right += p[y] == max(p)
        nats -= math.log(p[y])
        squares += sum((p[k] - (k == y)) ** 2 for k in range(3))
    assert metrics.accuracy(probs, labels) == pytest.approx(right / 400, abs=1e-15)
    assert metrics.log_loss(probs, labels) == pytest.approx(nats / 400, rel=1e-12)
    assert metrics.brier(probs, labels) == pytest.approx(squares / 400, rel=1e-12)
    assert metrics.log_loss([[1.0, 0.0]], [1]) == np.inf


def test_bins_of_equal_width_are_those_of_a_loop(cases):
    probs, labels = cases
    found = metrics.reliability(probs, labels, bins=7)
    error = 0.0
    for b in range(7):
        inside = [i for i, p in enumerate(probs.max(1)) if b / 7 < p <= (b + 1) / 7]
        assert found.counts[b] == len(inside)
        if inside:
            confidence = np.mean([probs[i].max() for i in inside])
            share = np.mean([probs[i].argmax() == labels[i] for i in inside])
            assert (found.confidence[b], found.accuracy[b]) == pytest.approx((confidence, share), rel=1e-12)
            error += len(inside) / 400 * abs(share - confidence)
    assert found.error == pytest.approx(error, rel=1e-12)
    assert found.frame()["count"].sum() == 400 and found.frame().height == (found.counts > 0).sum()


def test_bins_of_equal_mass_hold_equally_many(cases):
    found = metrics.reliability(*cases, bins=8, by="mass")
    assert found.counts.tolist() == [50] * 8
    same = metrics.reliability(np.full((10, 2), 0.5), np.zeros(10, int), bins=4, by="mass")
    assert same.counts.tolist() == [10] and same.error == pytest.approx(0.5)


def test_the_calibration_error_of_a_known_model():
    """Always 0.8 sure and right 6 times of 10: the error is 0.2 whatever the bins."""
    probs, labels = np.tile([0.8, 0.2], (10, 1)), np.array([0] * 6 + [1] * 4)
    for by in ("width", "mass"):
        assert metrics.reliability(probs, labels, by=by).error == pytest.approx(0.2)


def test_the_crps_of_a_gaussian_is_the_integral():
    """The definition: the integral of (F(y) - [y >= x])^2 over y."""
    y = np.linspace(-40, 40, 400_001)
    for mean, deviation, x in [(0.0, 1.0, 0.3), (2.0, 0.5, -1.0), (-1.0, 3.0, 4.0)]:
        cdf = 0.5 * (1 + np.array([math.erf(v) for v in (y[::100] - mean) / deviation / math.sqrt(2)]))
        grid = y[::100]
        expected = np.trapezoid((cdf - (grid >= x)) ** 2, grid)
        assert metrics.crps_gaussian(mean, deviation, x) == pytest.approx(expected, abs=0.02)
    # Gneiting and Raftery: at the centre it is sigma * (sqrt(2) - 1) / sqrt(pi).
    assert metrics.crps_gaussian(1.0, 2.0, 1.0) == pytest.approx(2 * (math.sqrt(2) - 1) / math.sqrt(math.pi))
    assert metrics.crps_gaussian(0.0, 1e-9, 3.0) == pytest.approx(3.0)


MIXTURES = (
    np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0], [0.5, 0.25, 0.25]]),
    np.array([[-3.0, 0.5, 4.0], [1.0, 7.0, 7.0], [2.0, 2.0, -1.0]]),
    np.array([[0.5, 1.5, 0.8], [2.0, 1.0, 1.0], [1e-9, 1e-9, 1e-9]]),
)
"""Weights, means and deviations of three mixtures: of three bumps, of one Gaussian, and of two points."""


def mixture_cdf(case, y):
    """By the error function of the standard library, in float64."""
    parts = zip(*(array[case] for array in MIXTURES), strict=True)
    return sum(w * np.array([0.5 * (1 + math.erf((v - m) / d / math.sqrt(2))) for v in y]) for w, m, d in parts)


def test_the_crps_of_a_mixture_of_gaussians_is_the_integral():
    grid = np.linspace(-15, 15, 30_001)
    x = np.array([0.8, -1.3, 1.0])
    expected = [np.trapezoid((mixture_cdf(i, grid) - (grid >= x[i])) ** 2, grid) for i in range(3)]
    found = metrics.crps_gaussian_mixture(*MIXTURES, x)
    np.testing.assert_allclose(found, expected, atol=2e-3)  # a step of the integrand falls between two points
    assert found[1] == pytest.approx(metrics.crps_gaussian(1.0, 2.0, -1.3))
    # Three quarters at 2, one at -1: E|X - 1| = 1.25, and half of E|X - X'| is 3 * 0.75 * 0.25.
    assert found[2] == pytest.approx(1.25 - 3 * 0.75 * 0.25, abs=1e-6)


def test_the_median_of_a_mixture_of_gaussians_has_half_below():
    median = metrics.gaussian_mixture_median(*MIXTURES)
    for i in (0, 1):
        assert mixture_cdf(i, [median[i]])[0] == pytest.approx(0.5, abs=1e-6)
    assert median[2] == pytest.approx(2.0, abs=1e-6)
    places = metrics.gaussian_mixture_cdf(*MIXTURES, median[:3])
    np.testing.assert_allclose(places[:2], 0.5, atol=1e-6)


def test_points_without_spread_are_judged_as_points():
    point = np.ones((1, 1)), np.full((1, 1), 2.0), np.zeros((1, 1))
    assert metrics.crps_gaussian_mixture(*point, np.array([5.0]))[0] == 3.0
    assert metrics.crps_gaussian_mixture(*point, np.array([2.0]))[0] == 0.0


def test_the_crps_of_samples_is_that_of_all_pairs():
    samples, x = RANDOM.normal(size=(7, 5)), RANDOM.normal(size=5)
    pairs = np.abs(samples[:, None] - samples[None]).sum((0, 1)) / (2 * 7 * 6)
    np.testing.assert_allclose(metrics.crps_samples(samples, x), np.abs(samples - x).mean(0) - pairs, rtol=1e-12)


def test_the_crps_of_samples_is_fair():
    """Its mean over many sets of only 3 samples is the Gaussian's own, within 4 standard errors."""
    drawn = metrics.crps_samples(RANDOM.normal(1.0, 2.0, size=(3, 40_000)), 0.5)
    error = drawn.std() / 200
    assert abs(drawn.mean() - metrics.crps_gaussian(1.0, 2.0, 0.5)) < 4 * error < 0.05


def test_the_crps_of_one_sample_is_refused():
    with pytest.raises(hs.DataError, match="there are 1 samples"):
        metrics.crps_samples(np.zeros((1, 4)), np.zeros(4))


@pytest.mark.parametrize("draw", [lambda n: RANDOM.normal(size=n), lambda n: RANDOM.poisson(1.5, size=n)])
def test_the_pit_is_uniform_where_predictions_are_right(draw):
    """Also with few samples and whole numbers; within 4 standard errors in each of ten bins."""
    pit = metrics.pit_samples(draw((9, 20_000)), draw(20_000), RANDOM.random(20_000))
    counts = np.histogram(pit, 10, (0, 1))[0]
    assert np.abs(counts - 2000).max() < 4 * math.sqrt(2000 * 0.9)
    for level in metrics.LEVELS:
        assert metrics.coverage(pit, level) == pytest.approx(level, abs=4 * math.sqrt(level * (1 - level) / 20_000))


def test_wrong_arguments_are_named():
    with pytest.raises(hs.DataError, match=r"probs has shape \(2,\)"):
        metrics.accuracy([0.5, 0.5], [1])
    with pytest.raises(hs.DataError, match="from 0 to 1"):
        metrics.log_loss([[0.5, 0.5]], [2])
    with pytest.raises(hs.DataError, match="bins is 0"):
        metrics.reliability([[0.5, 0.5]], [1], bins=0)
    with pytest.raises(hs.DataError, match="by is 'size'"):
        metrics.reliability([[0.5, 0.5]], [1], by="size")  # pyright: ignore[reportArgumentType]
    with pytest.raises(hs.DataError, match="level is 95"):
        metrics.coverage([0.5], 95)
