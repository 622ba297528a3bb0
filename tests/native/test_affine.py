"""The kernel of affine recurrences against a loop in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hiddenstate.native.affine import affine
from hiddenstate.ops.linear_recurrence import Affine, Decay, LogAffine, apply
from native.kernels import EXAMPLES, assert_close, assert_threads_agree, each_instruction_set, needs_kernels, slopes

FORMS = {"plain": Affine, "decay": Decay, "logarithms": LogAffine}


def loop(form, start, a, b, valid):
    """All states and the last one, step by step."""
    states, h = [], start
    for t in range(len(a)):
        states.append(h)
        h = jnp.where(valid[t], apply(h, FORMS[form](a[t], b[t])), h)
    return jnp.stack(states), h


@needs_kernels
@each_instruction_set
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(units=st.integers(1, 70), lengths=st.lists(st.integers(1, 7), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_values_and_gradients_are_those_of_a_loop(form, precision, instructions, units, lengths, seed):
    random = np.random.default_rng(seed)
    time = max(lengths)
    a, b = random.normal(size=(2, len(lengths), time, units))
    a = a if form == "plain" else -np.abs(a)
    start = random.normal(size=units)  # one for all sequences: its gradient is a sum over them
    valid = np.arange(time) < np.array(lengths)[:, None]
    weights = random.normal(size=(len(lengths), time, units)), random.normal(size=(len(lengths), units))
    run = lambda one: lambda start, a, b: jax.vmap(one, (None, 0, 0, 0))(start, a, b, valid)  # noqa: E731
    given = [jnp.asarray(x, precision) for x in (start, a, b)]
    found = assert_threads_agree(lambda: slopes(run(lambda *x: affine(form, *x)), weights, *given), instructions)
    exact = [jnp.asarray(np.asarray(x), "float64") for x in given]
    assert_close(found, slopes(run(lambda *x: loop(form, *x)), weights, *exact))


@needs_kernels
def test_gradients_of_each_sequence_and_of_several_models():
    random = np.random.default_rng(0)
    a, b = jnp.asarray(random.normal(size=(2, 3, 4, 5, 6)))
    start = jnp.asarray(random.normal(size=(3, 6)))
    each = lambda one: jax.vmap(  # noqa: E731
        lambda start, a, b: jax.vmap(jax.grad(lambda *x: (one(*x)[0] ** 2).sum()), (None, 0, 0))(start, a, b)
    )
    found = each(lambda *x: affine("plain", *x, None))(start, a, b)
    assert_close(found, each(lambda *x: loop("plain", *x, np.ones(5, bool)))(start, a, b))


@needs_kernels
def test_behind_the_end_stands_the_last_state():
    states, final = affine(
        "plain", jnp.ones(1), jnp.full((4, 1), 2.0), jnp.zeros((4, 1)), jnp.array([1, 1, 0, 0], bool)
    )
    np.testing.assert_array_equal(states[:, 0], [1, 2, 4, 4])
    np.testing.assert_array_equal(final, [4])


@needs_kernels
def test_precisions_that_differ_are_refused():
    with pytest.raises(TypeError, match="all must be of one precision"):
        affine("plain", jnp.ones(1, jnp.float64), jnp.ones((2, 1), jnp.float32), jnp.ones((2, 1), jnp.float32), None)
