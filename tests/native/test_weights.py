"""Gradients of weights by the kernel against sums in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hiddenstate.native.weights import weight_gradients
from native.kernels import EXAMPLES, assert_close, assert_threads_agree, each_instruction_set, needs_kernels

size = st.integers(0, 70)


@needs_kernels
@each_instruction_set
@pytest.mark.parametrize("precision", ["float32", "float64"])
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    rows=st.tuples(st.integers(1, 3), st.integers(1, 150)),
    outputs=st.integers(1, 150),
    seen=size,
    read=size,
    share=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_they_are_sums_of_outer_products(instructions, precision, rows, outputs, seen, read, share, seed):
    random = np.random.default_rng(seed)
    first = max(1, int(share * outputs))
    d, left, right = (random.normal(size=(2, *rows, n)) for n in (outputs, seen, read))
    given = [jnp.asarray(a, precision) for a in (d, left, right)]
    run = jax.jit(lambda *arrays: weight_gradients(*arrays, seen_outputs=first))
    found = assert_threads_agree(lambda: run(*given), instructions)
    d, left, right = (np.asarray(a, "float64") for a in given)
    expected = (
        np.einsum("gsto,gsti->goi", d[..., :first], left),
        np.einsum("gsto,gsti->goi", d, right),
        d.sum((1, 2)),
    )
    assert_close(found, expected)
