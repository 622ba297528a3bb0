"""Emissions: log-densities against scipy, constrained parameters in and out, precision, files."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from hiddenstate.core import HiddenStateError, Prior, Steps, cast, dtype_of, has
from hiddenstate.files.tree import Decoder, encode
from hiddenstate.latent.emissions import (
    Autoregressive,
    Bernoulli,
    Categorical,
    Columns,
    Gaussian,
    GaussianMixture,
    LinearRegression,
    NegativeBinomial,
    Poisson,
    StudentT,
)
from latent.emission_examples import EXAMPLES, FULL, MEANS, VARIANCES, total, with_gaps
from marks import quick


def normal(x, mean, variance):
    return stats.norm.logpdf(x, mean, np.sqrt(variance))


def joint(x, mean, covariance):
    return stats.multivariate_normal.logpdf(x, mean, covariance)


def counts(x, mean, r):
    return stats.nbinom.logpmf(x, r, r / (r + mean))


def mixed(*pairs):
    return logsumexp([np.log(w) + logp for w, logp in pairs])


def regressed(x, u, past):
    return [normal(x, [0.5, -1.0][k] + np.array([[1.0, 0, 2], [0.3, 0.2, 0.1]])[k] @ u, [1.0, 2.0][k]) for k in (0, 1)]


def regressed_vector(x, u, past):
    means = MEANS[:2] + np.arange(12.0).reshape(2, 2, 3) / 5 @ u
    return normal(x, means, VARIANCES[:2]).sum(1)


def lagged(x, u, past):
    means = [0.5 + 0.5 * past[1] - 0.2 * past[0], -1.0 + 0.9 * past[1] + 0.05 * past[0]]
    return normal(x, means, [1.0, 2.0])


def lagged_vector(x, u, past):
    w = np.arange(16.0).reshape(2, 2, 2, 2) / 16
    return normal(x, MEANS[:2] + w[:, 0] @ past[1] + w[:, 1] @ past[0], VARIANCES[:2]).sum(1)


def record(x, u, past):
    parts = [
        np.log([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])[:, int(x[0])],
        normal(x[1], [0.0, 1.0], [1.0, 3.0]),
        stats.poisson.logpmf(x[2], [2.0, 9.0]),
        [joint(x[3:], MEANS[k], FULL[k]) for k in (0, 1)],
    ]
    return np.sum(parts, axis=0)


TRUTHS = {
    "categorical": lambda x, u, past: np.log([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])[:, x],
    "bit": lambda x, u, past: stats.bernoulli.logpmf(x, [0.2, 0.7]),
    "bits": lambda x, u, past: stats.bernoulli.logpmf(x, [[0.2, 0.7], [0.9, 0.5]]).sum(1),
    "poisson": lambda x, u, past: stats.poisson.logpmf(x, [2.0, 9.0]),
    "poisson vector": lambda x, u, past: stats.poisson.logpmf(x, [[2.0, 9.0], [1.0, 4.0]]).sum(1),
    "negative binomial": lambda x, u, past: counts(x, np.array([2.0, 9.0]), np.array([0.7, 5.0])),
    "gaussian scalar": lambda x, u, past: normal(x, [0.0, 1.0], [1.0, 3.0]),
    "gaussian scalar tied": lambda x, u, past: normal(x, [0.0, 1.0], 2.0),
    "gaussian full": lambda x, u, past: [joint(x, MEANS[k], FULL[k]) for k in range(3)],
    "gaussian diagonal": lambda x, u, past: [joint(x, MEANS[k], np.diag(VARIANCES[k])) for k in range(3)],
    "gaussian spherical": lambda x, u, past: [joint(x, MEANS[k], [1.0, 2.0, 0.5][k] * np.eye(2)) for k in range(3)],
    "gaussian tied": lambda x, u, past: [joint(x, MEANS[k], FULL[0]) for k in range(3)],
    "student-t": lambda x, u, past: stats.t.logpdf(x, [3.0, 9.0], [0.0, 1.0], [1.0, 2.0]),
    "student-t vector": lambda x, u, past: stats.t.logpdf(x, [[3.0], [9.0], [50.0]], MEANS, np.sqrt(VARIANCES)).sum(1),
    "mixture scalar": lambda x, u, past: [mixed((0.3, normal(x, 0, 1)), (0.7, normal(x, 1, 0.5))), normal(x, 2, 2)],
    "mixture full": lambda x, u, past: [
        mixed((0.3, joint(x, MEANS[0], FULL[0])), (0.7, joint(x, MEANS[1], FULL[1]))),
        mixed((0.4, joint(x, MEANS[1], FULL[1])), (0.6, joint(x, MEANS[2], FULL[2]))),
    ],
    "regression scalar": regressed,
    "regression vector": regressed_vector,
    "autoregressive scalar": lagged,
    "autoregressive vector": lagged_vector,
    "columns": record,
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_log_likelihoods_are_those_of_scipy_and_of_the_distribution(name):
    emission, steps, pasts = EXAMPLES[name]

    @jax.jit
    def both(x, u, past):
        distribution = emission.distribution(u, past)
        assert distribution.batch_shape == (emission.states,) and distribution.event_shape == emission.event_shape
        return emission.log_likelihoods(x, u, past), distribution.log_prob(x)

    for t in range(3):
        x, u, past = jax.tree.map(lambda a, t=t: np.asarray(a)[t], (steps.values, steps.inputs, pasts))
        fast, plain = both(x, u, past)
        np.testing.assert_allclose(fast, TRUTHS[name](x, u, past), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(plain, fast, rtol=1e-10, atol=1e-12)


@eqx.filter_jit
def log_likelihoods(emission, x, u, past):
    return emission.log_likelihoods(x, u, past)


@eqx.filter_jit
def partial_log_likelihoods(emission, x, u, observed):
    return emission.partial_log_likelihoods(x, u, observed)


def test_missing_entries_are_integrated_out():
    x, seen = np.array([0.7, -0.4]), np.array([False, True])
    for kind in ("full", "diagonal", "spherical", "tied"):
        emission = EXAMPLES[f"gaussian {kind}"].emission
        matrices = np.asarray(emission.distribution().variance)
        expected = normal(x[1], MEANS[:, 1], matrices[:, 1])
        np.testing.assert_allclose(partial_log_likelihoods(emission, x, None, seen), expected, rtol=1e-10)
        np.testing.assert_allclose(partial_log_likelihoods(emission, x, None, ~seen & seen), 0.0, atol=1e-12)
    mixture = partial_log_likelihoods(EXAMPLES["mixture full"].emission, x, None, seen)
    expected = [mixed((w, normal(x[1], MEANS[i, 1], FULL[i, 1, 1])), (1 - w, normal(x[1], MEANS[j, 1], FULL[j, 1, 1])))
                for w, i, j in ((0.3, 0, 1), (0.4, 1, 2))]  # fmt: skip
    np.testing.assert_allclose(mixture, expected, rtol=1e-10)
    for name in ("bits", "poisson vector", "student-t vector", "regression vector", "columns"):
        emission, steps, _ = EXAMPLES[name]
        x, u = steps.values[0], None if steps.inputs is None else steps.inputs[0]
        one = np.arange(len(x)) == 1
        parts = [partial_log_likelihoods(emission, x, u, mask) for mask in (one, ~one)]
        np.testing.assert_allclose(sum(parts), log_likelihoods(emission, x, u, None), rtol=1e-10)
    assert not has(EXAMPLES["autoregressive scalar"].emission, "partial_log_likelihoods")


def test_zeros_stay_zeros_with_finite_gradients():
    symbols = Categorical([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    bits = Bernoulli([[0.0, 1.0], [0.3, 0.4]])
    silent = Poisson([0.0, 3.0])
    assert symbols.log_likelihoods(2)[0] == -np.inf
    assert bits.log_likelihoods(np.array([1, 1]))[0] == -np.inf and bits.log_likelihoods(np.array([0, 1]))[0] == 0
    assert silent.log_likelihoods(0)[0] == 0 and silent.log_likelihoods(1)[0] == -np.inf
    for emission, x in ((symbols, 1), (bits, np.array([0, 1])), (silent, 0)):
        slopes = eqx.filter_grad(lambda e, x=x: e.log_likelihoods(x).sum())(emission)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))
    for emission, values in ((symbols, [0, 1, 1]), (bits, [[0, 1], [0, 0], [0, 1]]), (silent, [0, 0, 4])):
        sums = emission.statistics(jnp.full((3, 2), 0.5), Steps(np.array(values)))
        for prior in (Prior(), Prior(pseudocount=1.0)):
            learned = emission.maximise(sums, prior)
            assert eqx.tree_equal(jax.tree.structure(learned), jax.tree.structure(emission))
            shown = [np.asarray(getattr(e, "probs", getattr(e, "rates", None))) for e in (emission, learned)]
            assert (shown[1][shown[0] == 0] == 0).all() and (shown[1][shown[0] == 1] == 1).all()
    # a symbol that was not met is next to impossible, and can come back
    learned = symbols.maximise(symbols.statistics(jnp.full((3, 2), 0.5), Steps(np.array([0, 1, 1]))))
    assert -1000 < learned.log_likelihoods(2)[1] < -80
    assert learned.maximise(learned.statistics(jnp.full((1, 2), 0.5), Steps(np.array([2])))).probs[1, 2] == 1


def test_parameters_come_back_as_they_were_given():
    given = {
        Categorical: {"probs": [[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]},
        Bernoulli: {"probs": [[0.0, 1.0], [0.3, 0.4]]},
        Poisson: {"rates": [0.0, 3.0]},
        NegativeBinomial: {"means": [1.0, 3.0], "concentrations": [0.5, 20.0]},
        Gaussian: {"means": MEANS, "covariances": FULL},
        StudentT: {"locations": [1e3, -2.0], "scales": [0.1, 2.0], "degrees": [2.5, 30.0]},
        GaussianMixture: {"weights": [[0.3, 0.7]], "means": MEANS[None, :2], "covariances": FULL[None, :2]},
        LinearRegression: {"intercepts": [1.0, 2.0], "weights": [[1.0, 2.0], [0.0, 1.0]], "variances": [1.0, 9.0]},
        Autoregressive: {
            "intercepts": MEANS[:2],
            "weights": np.arange(24.0).reshape(2, 3, 2, 2),
            "variances": VARIANCES[:2],
        },
    }
    for family, arguments in given.items():
        emission = family(**arguments)
        for name, value in arguments.items():
            np.testing.assert_allclose(getattr(emission, name), value, rtol=1e-12, err_msg=f"{family} {name}")
    for kind, covariances in {"diagonal": VARIANCES[:2], "tied": FULL[0]}.items():
        emission = Gaussian(MEANS[:2], covariances, covariance=kind)
        assert emission.covariance == kind
        np.testing.assert_allclose(emission.covariances, covariances, rtol=1e-12)
    assert Autoregressive([0.0], [[0.5, 0.1]], [1.0], start=[2.0, 3.0]).start_values.tolist() == [2.0, 3.0]


@pytest.mark.parametrize("name", quick(EXAMPLES, 8))
def test_float32_stays_float32_and_files_hold_all(name):
    emission, steps, pasts = example = EXAMPLES[name]
    single = cast(emission, jnp.float32)
    small = jax.tree.map(lambda a: a.astype(np.float32) if a.dtype == np.float64 else a, (steps, pasts))

    @eqx.filter_jit
    def everything(single, steps, pasts):
        sums = single.statistics(example.weights, steps, pasts)
        return single.maximise(sums, Prior(jnp.float32(0.1), jnp.float32(0.01))), total(single, 1.0, steps, pasts), sums

    learned, score, sums = everything(single, *small)
    floats = [leaf for leaf in jax.tree.leaves((learned, score, sums)) if eqx.is_inexact_array(leaf)]
    assert {leaf.dtype for leaf in floats} == {jnp.dtype("float32")}
    assert jax.tree.structure(learned) == jax.tree.structure(single) and np.isfinite(score)
    assert jax.tree.map(jnp.shape, learned) == jax.tree.map(jnp.shape, single)
    past = None if pasts is None else small[1][0]
    drawn = single.distribution(None if steps.inputs is None else small[0].inputs[0], past).sample(jr.key(0))
    assert drawn.dtype in (jnp.float32, jnp.int32, jnp.int64)

    arrays = {}
    node = encode(learned, arrays)
    again = Decoder(arrays, lambda _, array: jnp.asarray(array)).decode(node)
    assert eqx.tree_equal(learned, again)


def test_precision_is_that_of_the_arguments():
    assert dtype_of(Gaussian([0.0, 1.0], [1.0, 1.0])) == jnp.float64
    assert dtype_of(Gaussian(np.float32([0, 1]), [1.0, 1.0])) == jnp.float32
    assert dtype_of(Poisson(np.array([1, 2]))) == jnp.float64
    mixture = GaussianMixture([[1.0]], jnp.zeros((1, 1), jnp.float32), [[1.0]])
    assert {leaf.dtype for leaf in jax.tree.leaves(mixture)} == {jnp.dtype(bool), jnp.dtype(jnp.float32)}


def test_states_can_change_places():
    for emission, steps, pasts in EXAMPLES.values():
        order = np.arange(emission.states)[::-1]
        x, u, past = jax.tree.map(lambda a: np.asarray(a)[0], (steps.values, steps.inputs, pasts))
        turned = emission.permuted(order)
        plain, other = (log_likelihoods(e, x, u, past) for e in (emission, turned))
        np.testing.assert_allclose(other, plain[order], rtol=1e-14)
    with pytest.raises(HiddenStateError, match=r"order is \[0, 0\]"):
        EXAMPLES["poisson"].emission.permuted([0, 0])


def test_free_parameters_are_those_that_can_vary():
    expected = {"categorical": 4, "bits": 4, "poisson": 2, "negative binomial": 4, "gaussian scalar tied": 3}
    expected |= {"gaussian full": 15, "gaussian diagonal": 12, "gaussian spherical": 9, "gaussian tied": 9}
    expected |= {"student-t": 6, "mixture full": 22, "mixture scalar": 9, "regression vector": 20}
    expected |= {"autoregressive vector": 24, "columns": 4 + 4 + 2 + 10}
    for name, count in expected.items():
        assert EXAMPLES[name].emission.free_parameters == count, name
    assert Categorical([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]).free_parameters == 3


def test_long_sequences_are_summed_in_blocks():
    for name in ("gaussian full", "regression vector", "columns"):
        emission, steps, _ = with_gaps(EXAMPLES[name])
        many = jax.tree.map(lambda a: np.concatenate([a] * 60)[:2345], steps)
        weights = np.random.default_rng(0).random((2345, emission.states))
        blocks, whole = jax.jit(lambda w, s, e=emission: (e.statistics(w, s), e.sums(w, s)))(weights, many)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9), blocks, whole)


def test_columns_may_depend_on_inputs():
    (line, steps, _), (counts_, other, _) = EXAMPLES["regression scalar"], EXAMPLES["poisson"]
    both = Columns({"line": line, "count": counts_})
    assert both.inputs == 3 and both.event_shape == (2,)
    x, u = np.stack([steps.values, other.values], axis=1), steps.inputs
    expected = log_likelihoods(line, x[0, 0], u[0], None) + log_likelihoods(counts_, x[0, 1], u[0], None)
    np.testing.assert_allclose(log_likelihoods(both, x[0], u[0], None), expected, rtol=1e-12)
    weights = EXAMPLES["poisson"].weights
    learned = eqx.filter_jit(lambda e, *data: e.maximise(e.statistics(*data)))(both, weights, Steps(x, u))
    alone = eqx.filter_jit(lambda e, *data: e.maximise(e.statistics(*data)))(line, weights, steps)
    np.testing.assert_allclose(learned.emissions["line"].weights, alone.weights, rtol=1e-9)


WRONG = {
    "row 1 of probs sums to 0.9": lambda: Categorical([[0.5, 0.5], [0.5, 0.4]]),
    r"probs\[0, 1\] is -0.5; probabilities are at least 0": lambda: Categorical([[1.5, -0.5]]),
    "probs has shape .2,.; it must have 2 axes": lambda: Categorical([0.5, 0.5]),
    r"probs\[1\] is 1.5; probabilities lie between 0 and 1": lambda: Bernoulli([0.5, 1.5]),
    r"rates\[1\] is -3; rates are at least 0": lambda: Poisson([1.0, -3.0]),
    r"rates\[0\] is nan; it must be finite": lambda: Poisson([np.nan, -3.0]),
    "rates is .*; it must be a regular array": lambda: Poisson([[1.0], [1.0, 2.0]]),
    r"concentrations\[0\] is 0; concentrations must be above 0": lambda: NegativeBinomial([1.0, 2.0], [0.0, 1.0]),
    "means is for 2 hidden states, but concentrations has 3": lambda: NegativeBinomial([1.0, 2.0], [1.0, 1.0, 1.0]),
    r"covariances\[1\] is 0; variances must be above 0": lambda: Gaussian([0.0, 1.0], [1.0, 0.0]),
    r"covariances has shape \(3,\); with means of shape \(2,\)": lambda: Gaussian([0.0, 1.0], [1.0, 1.0, 1.0]),
    r"covariances has shape \(3, 3\); with means of shape \(3, 2\) it must be one of \(3, 2, 2\) \(full\)": (
        lambda: Gaussian(MEANS, np.eye(3))
    ),
    "can be diagonal or tied; say which by covariance=": lambda: Gaussian(MEANS[:2], np.eye(2)),
    "covariance is 'round'": lambda: Gaussian(MEANS, FULL, covariance="round"),
    r"covariances\[0, 0, 1\] is 0.5 but its mirror image is 0.2": (
        lambda: Gaussian(MEANS[:1], [[[1.0, 0.5], [0.2, 1.0]]])
    ),
    r"covariances\[1\] has the eigenvalue -1": lambda: Gaussian(MEANS[:2], [np.eye(2), [[1.0, 2.0], [2.0, 1.0]]]),
    r"degrees\[1\] is 2; degrees of freedom must be above 2": lambda: StudentT([0.0, 1.0], [1.0, 1.0], [3.0, 2.0]),
    "row 0 of weights sums to 0.8": lambda: GaussianMixture([[0.4, 0.4]], [[0.0, 1.0]], [[1.0, 1.0]]),
    "weights has 2 components a state, but means has 3": (
        lambda: GaussianMixture([[0.5, 0.5]], np.zeros((1, 3)), np.ones((1, 3)))
    ),
    r"weights has shape \(2, 3, 1\); with intercepts of shape \(2, 2\) it must be \(2, 2, inputs\)": (
        lambda: LinearRegression(MEANS[:2], np.ones((2, 3, 1)), VARIANCES[:2])
    ),
    r"start has shape \(1,\); it must be \(2,\)": lambda: Autoregressive([0.0], [[0.5, 0.1]], [1.0], start=[1.0]),
    "column 'a' has 2 states, but column 'b' has 1": (lambda: Columns({"a": Poisson([1.0, 2.0]), "b": Poisson([1.0])})),
    "column 'a' depends on past observations": lambda: Columns({"a": Autoregressive([0.0], [[0.5]], [1.0])}),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_bad_parameters_are_refused_in_a_sentence(sentence):
    with pytest.raises(HiddenStateError, match=sentence):
        WRONG[sentence]()
