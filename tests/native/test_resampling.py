"""The kernels that choose ancestors, against the same choice by scans and searches."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hiddenstate.native.resampling import ancestors_by_strata, owners_of_tickets
from hiddenstate.ops import resampling
from native.kernels import assert_threads_agree, each_instruction_set, needs_kernels


def shares_of(random, particles, precision):
    """M w of weights that are even or very uneven, some of them zero."""
    weights = np.exp(random.choice([0.1, 3.0, 20.0]) * random.normal(size=particles))
    weights *= random.random(particles) < random.choice([0.2, 1.0])
    weights[random.integers(particles)] += 1.0
    return jnp.asarray(weights * (particles / weights.sum()), precision)


strata_by_scan = jax.jit(jax.vmap(resampling._strata_by_scan))


@needs_kernels
@each_instruction_set
@pytest.mark.parametrize("precision", ["float32", "float64"])
@settings(max_examples=25, deadline=None)
@given(particles=st.sampled_from([1, 2, 3, 7, 64, 100, 1000]), same=st.booleans(), seed=st.integers(0, 999))
def test_strata_have_the_ancestors_of_the_scan(instructions, precision, particles, same, seed):
    random = np.random.default_rng(seed)
    shares = jnp.stack([shares_of(random, particles, precision) for _ in range(3)])
    positions = jnp.asarray(random.random((3, 1 if same else particles)), precision)
    positions = jnp.broadcast_to(positions, shares.shape)
    found = assert_threads_agree(lambda: jax.vmap(ancestors_by_strata)(shares, positions), instructions)
    np.testing.assert_array_equal(found, strata_by_scan(shares, positions))
    counts = np.stack([np.bincount(row, minlength=particles) for row in found])
    assert (counts[np.asarray(shares) == 0] == 0).all()
    bound = 1 if same else 2
    assert (np.abs(counts - np.asarray(shares, float)) < bound + 1e-3).all()


@needs_kernels
@each_instruction_set
@settings(max_examples=25, deadline=None)
@given(
    particles=st.sampled_from([1, 2, 5, 100, 1000]),
    draws=st.sampled_from([1, 3, 1000]),
    top=st.sampled_from([1, 3, 2**20]),
    seed=st.integers(0, 999),
)
def test_tickets_have_the_owners_of_the_search(instructions, particles, draws, top, seed):
    random = np.random.default_rng(seed)
    tickets = random.integers(0, top, (2, particles), dtype=np.uint32)
    drawn = random.integers(0, np.maximum(tickets.sum(1, dtype=np.uint32), 1)[:, None], (2, draws), dtype=np.uint32)
    found = assert_threads_agree(lambda: jax.vmap(owners_of_tickets)(tickets, drawn), instructions)
    np.testing.assert_array_equal(found, jax.vmap(resampling._owners_by_search)(tickets, drawn))


@needs_kernels
@pytest.mark.parametrize("scheme", resampling.SCHEMES)
def test_a_scheme_gives_the_same_ancestors_with_and_without_kernels(scheme, monkeypatch):
    random = np.random.default_rng(0)
    logs = jnp.asarray(random.normal(size=(4, 300)) * 2, "float32")
    logs = jax.nn.log_softmax(logs)
    keys = jr.split(jr.key(1), 4)
    found = jax.jit(jax.vmap(resampling.SCHEMES[scheme]))(logs, keys)
    monkeypatch.setattr(resampling, "available", lambda: False)
    np.testing.assert_array_equal(found, jax.jit(jax.vmap(lambda a, k: resampling.SCHEMES[scheme](a, k)))(logs, keys))
