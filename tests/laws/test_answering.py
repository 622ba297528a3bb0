"""The laws of models that answer, for every case."""

import functools

import jax.numpy as jnp
import jax.random as jr
import pytest

from hiddenstate.core import cast
from laws import answering
from laws.answering import CASES
from marks import quick


@functools.cache
def model_of(name: str):
    return cast(cast(CASES[name].make(jr.key(7)), jnp.float32), jnp.dtype(CASES[name].precision))


@pytest.mark.parametrize("name", quick([pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in CASES], 3))
class TestAnswering:
    def test_padding_is_invisible_under_every_strategy(self, name):
        answering.padding_is_invisible(model_of(name), CASES[name])

    def test_probabilities_sum_to_one(self, name):
        answering.normalised(model_of(name), CASES[name])

    def test_missing_targets_do_not_count(self, name):
        answering.missing_targets_do_not_count(model_of(name), CASES[name])

    def test_save_then_load_gives_bit_identical_answers(self, name):
        answering.saving_changes_nothing(model_of(name), CASES[name])

    def test_streaming_equals_batch(self, name):
        answering.streaming_equals_batch(model_of(name), CASES[name])
