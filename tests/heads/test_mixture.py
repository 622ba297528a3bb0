"""Mixtures: the sum over components, by hand."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats
from scipy.special import log_softmax, logsumexp

from hiddenstate.core import HiddenStateError, cast, parameter_count
from hiddenstate.heads import Bernoulli, Categorical, Columns, Gaussian, Mixture, Poisson
from hiddenstate.heads.head import family_of

from .examples import HIDDEN, KEY, MIXTURES, PLAIN, RECORDS


@pytest.mark.parametrize("name", [*(n for n in PLAIN if "scalar" not in n), *RECORDS])
def test_log_prob_is_the_logsumexp_over_components(name):
    head, x = {**PLAIN, **RECORDS}[name]
    mixture, _ = MIXTURES[f"mixture of {name}"]
    parameters = jr.normal(KEY, (mixture.parameter_count,))
    logits, each = parameters[:3], parameters[3:].reshape(3, -1)

    @jax.jit
    def both(parameters, each):
        components = [head.distribution(part).log_prob(jnp.asarray(x)) for part in each]
        return mixture.distribution(parameters).log_prob(jnp.asarray(x)), jnp.stack(components)

    got, components = both(parameters, each)
    np.testing.assert_allclose(got, logsumexp(log_softmax(logits) + components), rtol=1e-11)


def test_a_gaussian_mixture_against_scipy():
    mixture = Mixture(Gaussian(HIDDEN, None, location=10.0, scale=2.0, key=KEY), 2, key=KEY)
    # logits, then (mean, spread) of each component; a spread of 0 is a standard deviation of 1
    distribution = mixture.distribution(jnp.array([0.0, np.log(3.0), -1.0, 0.0, 2.0, 0.0]))
    expected = np.log(0.25 * stats.norm.pdf(9.0, 8.0, 2.0) + 0.75 * stats.norm.pdf(9.0, 14.0, 2.0))
    np.testing.assert_allclose(distribution.log_prob(9.0), expected, rtol=1e-12)
    np.testing.assert_allclose(distribution.mean, 0.25 * 8 + 0.75 * 14, rtol=1e-12)
    np.testing.assert_allclose(distribution.variance, 4 + 0.25 * 0.75 * 36, rtol=1e-12)


def test_mixtures_of_bits_make_them_depend_on_each_other():
    mixture = Mixture(Bernoulli(HIDDEN, 2, key=KEY), 2, key=KEY)
    distribution = mixture.distribution(jnp.array([0.0, 0.0, 9.0, 9.0, -9.0, -9.0]))
    probs = np.exp([distribution.log_prob(jnp.array(bits)) for bits in ([0, 0], [0, 1], [1, 0], [1, 1])])
    np.testing.assert_allclose(probs, [0.5, 0.0, 0.0, 0.5], atol=2e-4)


def test_only_one_linear_map_is_learned():
    head = Gaussian(HIDDEN, 2, key=KEY)
    mixture = Mixture(Mixture(head, 4, key=KEY), 5, key=KEY)
    parameters = 5 * (1 + 4 * (1 + 4))
    assert mixture.parameter_count == parameters
    assert parameter_count(mixture) == parameters * (HIDDEN + 1)


def test_components_start_apart():
    mixture = Mixture(Poisson(HIDDEN, 2, key=KEY), 4, key=KEY)
    biases = np.asarray(mixture.bias[4:]).reshape(4, 2)
    assert len(np.unique(biases)) == biases.size
    np.testing.assert_array_equal(mixture.bias[:4], 0.0)
    again = Mixture(Poisson(HIDDEN, 2, key=KEY), 4, key=KEY)
    np.testing.assert_array_equal(mixture.bias, again.bias)


def test_components_that_are_mixtures_keep_their_own_spread():
    inner = Mixture(Gaussian(HIDDEN, None, key=KEY), 2, key=KEY)
    columns = Columns([("a", inner)])
    np.testing.assert_array_equal(columns.bias, inner.bias)


def test_encoding_is_the_familys_in_the_mixtures_precision():
    for dtype in (jnp.float32, jnp.float64):
        symbols = cast(Mixture(Categorical(HIDDEN, 3, key=KEY), 2, key=KEY), dtype)
        np.testing.assert_array_equal(symbols.encode(jnp.array(2)), [0, 0, 1])
        assert symbols.encode(jnp.array(2)).dtype == dtype
    reals = Mixture(Gaussian(HIDDEN, 2, location=[1.0, 2.0], scale=[2.0, 4.0], key=KEY), 2, key=KEY)
    np.testing.assert_allclose(reals.encode(jnp.array([5.0, 0.0])), [2.0, -0.5])


def test_a_mixture_of_symbols_has_their_probabilities():
    mixture, _ = MIXTURES["mixture of categorical"]
    distribution = mixture.distribution(jr.normal(KEY, (mixture.parameter_count,)))
    assert distribution.is_discrete and distribution.support.upper_bound == 3
    np.testing.assert_allclose(jnp.exp(distribution.log_prob(jnp.arange(4))).sum(), 1.0, rtol=1e-12)


def test_no_components_and_no_weights_are_refused():
    head = Gaussian(HIDDEN, None, key=KEY)
    with pytest.raises(HiddenStateError, match="components is 0"):
        Mixture(head, 0, key=KEY)
    with pytest.raises(HiddenStateError, match="has no weights"):
        Mixture(family_of(head), 2, key=KEY)
    with pytest.raises(HiddenStateError, match="has no weights"):
        family_of(head)(jnp.zeros(HIDDEN))


def test_a_mixture_of_symbols_has_their_probabilities_and_entropy():
    mixture = Mixture(Categorical(HIDDEN, 3, key=KEY), 2, key=KEY)
    logits, each = np.array([0.3, -0.4]), np.array([[0.1, 1.2, -0.7], [0.8, -0.2, 0.5]])
    distribution = mixture.distribution(jnp.asarray(np.concatenate([logits, each.ravel()])))
    probs = np.exp(log_softmax(logits)) @ np.exp(log_softmax(each, axis=1))
    np.testing.assert_allclose(distribution.probs, probs, rtol=1e-12)
    np.testing.assert_allclose(distribution.entropy(), stats.entropy(probs), rtol=1e-12)
    assert repr(distribution).startswith("<mixture of 2 Categorical")


def test_a_mixture_of_numbers_has_neither_and_says_so():
    mixture = Mixture(Gaussian(HIDDEN, None, key=KEY), 2, key=KEY)
    distribution = mixture.distribution(jnp.zeros(6))
    assert not hasattr(distribution, "probs")
    with pytest.raises(HiddenStateError, match="has no closed form; take the mean of -log_prob over samples"):
        distribution.entropy()
