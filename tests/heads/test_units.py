"""Location, scale and rate: fixed, in the units of the data."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import TypeCheckError

from hiddenstate.core import HiddenStateError, parameter_count, partition
from hiddenstate.heads import Bernoulli, Categorical, Gaussian, NegativeBinomial, Poisson, StudentT

KEY = jr.key(0)
LOCATION, SCALE = np.array([919.0, -3.0]), np.array([170.0, 0.01])


@pytest.mark.parametrize("family", [Gaussian, StudentT])
def test_units_shift_and_stretch_the_standardised_head(family):
    plain = family(3, 2, key=KEY)
    head = family(3, 2, location=LOCATION, scale=SCALE, key=KEY)
    parameters = jr.normal(KEY, (head.parameter_count,))
    z = jnp.array([0.3, -1.7])
    got = head.distribution(parameters).log_prob(LOCATION + SCALE * z)
    # the density of a stretched variable is divided by the stretch
    np.testing.assert_allclose(got, plain.distribution(parameters).log_prob(z) - np.log(SCALE).sum(), rtol=1e-9)
    np.testing.assert_allclose(head.encode(jnp.asarray(LOCATION + SCALE * z)), z, rtol=1e-9)
    np.testing.assert_allclose(head.encode(jnp.asarray(LOCATION)), 0.0, atol=1e-12)


def test_full_covariance_stretches_too():
    plain, head = Gaussian(3, 2, "full", key=KEY), Gaussian(3, 2, "full", LOCATION, SCALE, key=KEY)
    parameters = jr.normal(KEY, (5,))
    z = jnp.array([0.3, -1.7])
    got = head.distribution(parameters).log_prob(LOCATION + SCALE * z)
    np.testing.assert_allclose(got, plain.distribution(parameters).log_prob(z) - np.log(SCALE).sum(), rtol=1e-9)


@pytest.mark.parametrize("family", [Poisson, NegativeBinomial])
def test_counts_are_read_as_logarithms_around_the_rate(family):
    head = family(3, 2, rate=[9.0, 0.5], spread=[2.0, 1.0], key=KEY)
    np.testing.assert_allclose(head.encode(jnp.array([19, 0])), [np.log(2) / 2, -np.log(1.5)], rtol=1e-12)
    np.testing.assert_allclose(head.distribution(jnp.zeros(head.parameter_count)).mean, [9.0, 0.5], rtol=1e-12)


def test_units_are_kept_but_not_learned():
    assert parameter_count(Gaussian(3, 2, location=LOCATION, scale=SCALE, key=KEY)) == 4 * (3 + 1)
    assert parameter_count(NegativeBinomial(3, 2, rate=4.0, key=KEY)) == 4 * (3 + 1)
    learned, fixed = partition(StudentT(3, 2, LOCATION, SCALE, key=KEY))
    assert learned.location.value is None
    np.testing.assert_array_equal(fixed.location.value, LOCATION)


def test_single_numbers_are_read_as_vectors_of_one():
    np.testing.assert_allclose(Gaussian(3, None, location=1.0, scale=2.0, key=KEY).encode(jnp.array(5.0)), [2.0])
    np.testing.assert_allclose(Poisson(3, None, key=KEY).encode(jnp.array(0)), [-np.log(2)])
    np.testing.assert_allclose(Bernoulli(3, None, key=KEY).encode(jnp.array(1)), [1.0])
    np.testing.assert_allclose(Categorical(3, 3, key=KEY).encode(jnp.array(1)), [0, 1, 0])


def test_a_head_without_hidden_units_is_its_bias():
    head = Gaussian(0, None, location=3.0, key=KEY)
    np.testing.assert_allclose(head(jnp.zeros(0)).mean, 3.0)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Gaussian(3, 0, key=KEY), "size is 0"),
        (lambda: Gaussian(3, None, "full", key=KEY), "a single number has no covariance"),
        (
            lambda: Gaussian(3, 2, location=[1.0, 2.0, 3.0], key=KEY),
            r"location has shape \(3,\); it must be \(2,\)",
        ),
        (lambda: StudentT(3, 2, scale=[1.0, 0.0], key=KEY), "scale is .* above 0"),
        (lambda: StudentT(3, None, location=np.nan, key=KEY), "location is nan; it must be finite"),
        (lambda: Poisson(3, 2, rate=-1.0, key=KEY), "rate is -1.0; it must be finite and above 0"),
        (lambda: NegativeBinomial(3, None, spread=0.0, key=KEY), "spread is 0.0"),
        (lambda: Bernoulli(3, 0, key=KEY), "bits is 0"),
        (lambda: Categorical(3, 0, key=KEY), "symbols is 0"),
    ],
)
def test_what_makes_no_head_is_refused(make, sentence):
    with pytest.raises(HiddenStateError, match=sentence):
        make()


def test_a_covariance_of_another_word_is_refused():
    # by the library's own sentence, or where shapes are checked by its annotation
    with pytest.raises((HiddenStateError, TypeCheckError), match="spherical"):
        Gaussian(3, 2, "spherical", key=KEY)  # pyright: ignore[reportArgumentType]
