"""Distributions of every head, out of two `vmap`s, told about their batch axes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest

from hiddenstate.core import cast
from hiddenstate.inference import rebatch
from marks import quick

from .examples import HEADS, HIDDEN

BATCH = (2, 3)
SINGLE = {name: cast(head, jnp.float32) for name, (head, _) in HEADS.items()}
H = jr.normal(jr.key(0), (*BATCH, HIDDEN), jnp.float32)


@eqx.filter_jit
def _both_ways(head, h, x):
    distribution = rebatch(jax.vmap(jax.vmap(head))(h), BATCH)
    one_by_one = jax.vmap(jax.vmap(lambda h: (head(h).log_prob(x), head(h).mean)))(h)
    return (distribution.log_prob(x), distribution.mean), one_by_one


@pytest.mark.parametrize("name", quick(HEADS, 10))
def test_a_batch_of_distributions_is_as_good_as_each(name):
    head, x = SINGLE[name], _in_float32(HEADS[name][1])
    (log_prob, mean), (each_log_prob, each_mean) = _both_ways(head, H, x)
    assert log_prob.shape == BATCH and mean.shape == (*BATCH, *head.event_shape)
    # two orders of the same float32 sums
    np.testing.assert_allclose(log_prob, each_log_prob, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(mean, each_mean, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", HEADS)
def test_distributions_leave_compiled_code_with_their_shapes(name):
    head = SINGLE[name]
    distribution = rebatch(_zeros(jax.eval_shape(jax.vmap(jax.vmap(head)), H)), BATCH)
    shape = (*BATCH, *head.event_shape)
    assert distribution.batch_shape == BATCH
    assert distribution.event_shape == head.event_shape
    assert jax.eval_shape(distribution.sample, jr.key(1)).shape == shape
    assert jax.eval_shape(lambda key: distribution.sample(key, (4,)), jr.key(1)).shape == (4, *shape)
    again = jax.tree.map(lambda a: a, distribution)
    assert again.batch_shape == BATCH and jax.eval_shape(lambda: again.mean).shape == shape


def _zeros(shapes):
    return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)


def _in_float32(x):
    return jnp.asarray(x, jnp.int32 if np.issubdtype(x.dtype, np.integer) else jnp.float32)


@pytest.mark.parametrize("name", HEADS)
def test_a_float32_head_stays_float32(name):
    head, x = SINGLE[name], _in_float32(HEADS[name][1])

    def everything(h, key):
        distribution = head(h)
        return distribution.sample(key), distribution.log_prob(x), distribution.mean, head.encode(x)

    drawn, *floats = jax.eval_shape(everything, H[0, 0], jr.key(0))
    assert [a.dtype for a in floats] == [jnp.float32] * 3
    assert jnp.issubdtype(drawn.dtype, jnp.integer) or drawn.dtype == jnp.float32


@pytest.mark.parametrize("name", [name for name in HEADS if "scalar" not in name])
def test_arguments_are_not_validated(name):
    distribution = HEADS[name][0].distribution(jnp.full(HEADS[name][0].parameter_count, jnp.nan))
    validated = [
        type(part).__name__
        for part in jax.tree.leaves(distribution, is_leaf=_plain)
        if isinstance(part, dist.Distribution) and part._validate_args
    ]
    assert not validated


def _plain(node) -> bool:
    return isinstance(node, dist.Distribution) and bool(node.arg_constraints)


def test_a_shape_that_does_not_fit_is_noticed():
    with pytest.raises(AssertionError, match="batch shape"):
        rebatch(dist.Normal(jnp.zeros((2, 3)), 1.0), (3, 2))


def test_numpyros_own_distributions_are_built_again():
    made = jax.vmap(lambda m: dist.NegativeBinomial2(m, 3.0))(jnp.arange(1.0, 5.0))
    assert jax.eval_shape(rebatch(made, (4,)).sample, jr.key(0)).shape == (4,)
    weights = jnp.zeros((4, 2))
    mixed = jax.vmap(
        lambda w, m: dist.MixtureSameFamily(dist.Categorical(logits=w), dist.Normal(m + jnp.arange(2.0), 1.0))
    )(weights, jnp.arange(4.0))
    np.testing.assert_allclose(rebatch(mixed, (4,)).mean, np.arange(4.0) + 0.5)
