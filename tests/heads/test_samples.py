"""Samples have the mean and the variance that the distribution states."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hiddenstate.inference import rebatch

from .examples import HEADS, HIDDEN, PLAIN

DRAWS = 10_000
NAMES = [name for name in PLAIN if "scalar" not in name and name != "categorical"]
NAMES += ["gaussian scalar", "mixture of columns", "mixture of mixtures"]


@eqx.filter_jit
def _drawn(head, h, key):
    distribution = rebatch(jax.vmap(head)(h), (2,))
    return distribution.sample(key, (DRAWS,)), distribution.mean, distribution.variance


@pytest.mark.parametrize("name", NAMES)
def test_samples_of_a_batch_have_the_stated_moments(name):
    head, _ = HEADS[name]
    drawn, mean, variance = map(np.asarray, _drawn(head, jr.normal(jr.key(5), (2, HIDDEN)), jr.key(6)))
    assert drawn.shape == (DRAWS, 2, *head.event_shape)
    assert mean.shape == variance.shape == (2, *head.event_shape)
    assert np.asarray(head.distribution(jnp.zeros(head.parameter_count)).support(drawn)).all()
    # 4.5 standard errors: one entry in 150,000 would be further off by chance
    assert (np.abs(drawn.mean(0) - mean) < 4.5 * np.sqrt(variance / DRAWS)).all()
    centred = (drawn - mean) ** 2
    assert (np.abs(centred.mean(0) - variance) < 5 * centred.std(0) / np.sqrt(DRAWS)).all()


@pytest.mark.parametrize("name", ["categorical", "mixture of categorical"])
def test_symbols_come_as_often_as_they_are_probable(name):
    head, _ = HEADS[name]
    drawn, log_probs = _symbols(head, jr.normal(jr.key(5), (HIDDEN,)), jr.key(6))
    often, probs = np.bincount(np.asarray(drawn), minlength=4) / DRAWS, np.exp(log_probs)
    assert (np.abs(often - probs) < 4.5 * np.sqrt(probs * (1 - probs) / DRAWS)).all()


@eqx.filter_jit
def _symbols(head, h, key):
    distribution = head(h)
    return distribution.sample(key, (DRAWS,)), distribution.log_prob(jnp.arange(4))
