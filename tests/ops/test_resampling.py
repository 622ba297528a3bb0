"""Every scheme gives a particle of weight w M w descendants on average, and one of weight zero none."""

from pathlib import Path

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hiddenstate.ops import resampling
from hiddenstate.ops.resampling import SCHEMES, effective_sample_size

REFERENCE = Path(__file__).parents[1] / "reference" / "particles.npz"


def counts(scheme: str, weights: np.ndarray, keys) -> np.ndarray:
    """How many descendants each particle has, for each key."""
    with np.errstate(divide="ignore"):
        log_weights = jnp.asarray(np.log(weights))
    ancestors = jax.jit(jax.vmap(lambda key: SCHEMES[scheme](log_weights, key)))(keys)
    return np.stack([(np.asarray(ancestors) == i).sum(1) for i in range(len(weights))], 1)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_expected_descendants_are_in_proportion_to_the_weights(scheme):
    weights = np.array([0.0, 0.31, 0.02, 0.0, 0.125, 0.4, 0.145, 0.0])
    found = counts(scheme, weights, jr.split(jr.key(0), 4000))
    due = len(weights) * weights
    assert (found.sum(1) == len(weights)).all()
    assert not found[:, weights == 0].any()
    error = found.std(0) / np.sqrt(len(found))
    np.testing.assert_array_less(np.abs(found.mean(0) - due), 5 * error + 1e-12)
    if scheme == "systematic":
        assert (np.abs(found - due) < 1).all()
    if scheme == "residual":
        assert (found >= np.floor(due)).all()
    variance = found.var(0)
    binomial = due * (1 - weights)
    if scheme == "multinomial":
        np.testing.assert_allclose(variance, binomial, atol=0.1)
    else:
        assert variance.sum() < 0.8 * binomial.sum()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_equal_and_degenerate_weights(scheme):
    one = counts(scheme, np.array([0.0, 0.0, 1.0, 0.0, 0.0]), jr.split(jr.key(1), 50))
    assert (one == [0, 0, 5, 0, 0]).all()
    equal = counts(scheme, np.full(7, 1 / 7), jr.split(jr.key(2), 50))
    assert (equal.sum(1) == 7).all()
    if scheme != "multinomial":
        assert (equal == 1).all()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_hundred_thousand_particles_in_float32(scheme):
    count = 100_000
    rng = np.random.default_rng(3)
    weights = np.where(rng.random(count) < 0.3, 0, rng.lognormal(sigma=2, size=count))
    weights /= weights.sum()
    with np.errstate(divide="ignore"):
        log_weights = jnp.asarray(np.log(weights), jnp.float32)
    ancestors = np.asarray(jax.jit(SCHEMES[scheme])(log_weights, jr.key(4)))
    found = np.bincount(ancestors, minlength=count)
    assert not found[weights == 0].any()
    due = count * weights
    if scheme == "systematic":  # the weights themselves are rounded: exp(-20) in float32 is good to 1e-6
        assert (np.abs(found - due) < 1 + 2e-6 * due).all()
    # The least of them together, each of weight far below 1 / M, have their share of descendants.
    small = due < 0.05
    assert abs(found[small].sum() - due[small].sum()) < 5 * np.sqrt(due[small].sum()) + 1


def test_the_library_particles_finds_the_same_ancestors_and_effective_sample_size():
    stored = np.load(REFERENCE)
    with np.errstate(divide="ignore"):
        log_weights = jnp.asarray(np.log(stored["resampling/weights"]))
    uniforms = stored["resampling/uniforms"]
    for scheme, positions in (("stratified", uniforms), ("systematic", np.full_like(uniforms, uniforms[0]))):
        found = jax.jit(resampling._by_strata)(log_weights, jnp.asarray(positions))
        np.testing.assert_array_equal(found, stored[f"resampling/{scheme}"])
    normalised = jax.nn.log_softmax(jnp.asarray(stored["resampling/log_weights"]))
    np.testing.assert_allclose(
        effective_sample_size(normalised), stored["resampling/effective_sample_size"], rtol=1e-12
    )
