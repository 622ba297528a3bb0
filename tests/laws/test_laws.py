"""Every law for every model, in float32 and in float64 (where a part comes in several models, by turns).

One case of each kind of model runs in `make test`, all others in `make test-slow`.
"""

import functools

import jax.numpy as jnp
import jax.random as jr
import pytest

import hiddenstate as hs
from hiddenstate.core import cast
from laws import laws
from laws.answering import CASES as ANSWERING
from laws.registry import CASES


@functools.cache
def model_of(name: str, precision: str):
    return cast(cast(CASES[name].make(jr.key(7)), jnp.float32), jnp.dtype(precision))


KINDS = ("vanilla", "gru", "lstm", "mingru", "linear", "turning", "unigram", "hmm", "switch-copy", "linear-gaussian")
KINDS += ("inputs", "first-step", "input-driven", "linear-regression", "linear-gaussian, varying", "diffuse")
KINDS += ("nonlinear-gaussian", "auxiliary", "correction", "particle-rnn", "chains")
FIRST = {case.recipe: name for name, case in reversed(CASES.items())}


def marks_of(name: str) -> list[pytest.MarkDecorator]:
    """All laws of a model run in one process, which then compiles what they share once."""
    recipe = CASES[name].recipe
    slow = [] if recipe in KINDS and FIRST[recipe] == name else [pytest.mark.slow]
    return [pytest.mark.xdist_group(name), *slow]


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        pytest.param(name, precision, marks=marks_of(name))
        for name, case in CASES.items()
        for precision in case.precisions
    ],
)
class TestLaws:
    def test_probabilities_sum_to_one(self, name, precision):
        laws.normalised(model_of(name, precision), CASES[name].grid, CASES[name].limits)

    def test_every_strategy_gives_the_same_answer(self, name, precision):
        laws.same_answer(model_of(name, precision), CASES[name].limits)

    def test_streaming_equals_batch(self, name, precision):
        laws.streaming_equals_batch(model_of(name, precision), CASES[name].limits)

    def test_chunked_equals_whole(self, name, precision):
        laws.chunked_equals_whole(model_of(name, precision), CASES[name].limits)

    def test_padding_is_invisible(self, name, precision):
        laws.padding_is_invisible(model_of(name, precision), CASES[name].limits)

    def test_combine_is_associative_and_agrees_with_step(self, name, precision):
        laws.combine_is_associative(model_of(name, precision), CASES[name].limits)

    def test_save_then_load_gives_bit_identical_predictions(self, name, precision):
        laws.saving_changes_nothing(model_of(name, precision), CASES[name].limits)

    def test_samples_come_from_the_model(self, name, precision):
        laws.samples_come_from_the_model(model_of(name, precision), CASES[name].grid, CASES[name].limits)

    def test_missing_observations_are_marginalised_or_refused(self, name, precision):
        laws.missing_is_marginalised_or_refused(model_of(name, precision), CASES[name].grid, CASES[name].limits)


def test_every_recipe_has_joined_the_laws():
    from hiddenstate import catalogue

    assert catalogue.families
    joined = {case.recipe for case in (*CASES.values(), *ANSWERING.values())}
    assert set(hs.recipe_names()) <= joined
