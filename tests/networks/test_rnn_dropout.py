"""Dropout around the cell of a recurrent network."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import with_noise


def test_dropout_below_the_cell_and_above_it_is_one_mask_a_sequence_and_silent_outside_learning():
    cell = hs.cells.GRU(3, 20, key=jr.key(0))
    head = hs.heads.Categorical(20, 3, key=jr.key(1))
    plain = hs.RNN(cell, head)
    noisy = hs.RNN(cell, head, input_dropout=0.5, output_dropout=0.5)
    data = hs.Sequences.of([[0, 2, 1, 1, 0]])
    np.testing.assert_array_equal(hs.step_log_probs(noisy, data), hs.step_log_probs(plain, data))
    thin = with_noise(noisy, jr.key(2))
    seen = np.asarray(thin.cell_input(jnp.asarray(2)))
    assert seen[0] == seen[1] == 0 and seen[2] in (0.0, 2.0)
    states = [cell.initial() + 1.0, cell.initial() - 2.0]
    shown = np.stack([thin.head_input(state) for state in states])
    assert set(np.unique(shown / np.stack([cell.output(state) for state in states]))) == {0.0, 2.0}
    np.testing.assert_array_equal(shown[0] == 0, shown[1] == 0)
    again = hs.build(
        hs.describe(hs.build("gru", data, input_dropout=0.2, output_dropout=0.3, key=jr.key(0))), data, key=jr.key(0)
    )
    assert (again.drop_input.rate, again.drop_output.rate) == (0.2, 0.3)
    with pytest.raises(hs.HiddenStateError, match=r"output_dropout is 1\.5; it must be"):
        hs.RNN(cell, head, output_dropout=1.5)
