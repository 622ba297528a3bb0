"""The first step with a distribution of its own, and likelihoods given the first step."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import partition
from laws import laws
from laws.cases.parts import SYMBOLS, network, perturbed, stack
from marks import quick

KEY = jr.key(3)
ROWS = [np.array([0, 2, 1, 1]), np.array([2]), np.array([1, 0])]


def first_step(make=None):
    """A network of three symbols whose first step is its own, with noise on all numbers."""
    inner = (make or network("mingru", "categorical", "learned"))(KEY)
    return eqx.tree_at(lambda m: m.first, hs.FirstStep(inner), jnp.array([0.3, -0.5, 1.0]))


def test_as_built_it_is_the_read_out_of_the_initial_state():
    inner = network("gru", "gaussian", "learned")(KEY)
    data = [np.array([0.3, -1.0, 0.4]), np.array([1.2])]
    np.testing.assert_allclose(
        hs.step_log_probs(hs.FirstStep(inner), data), hs.step_log_probs(inner, data), rtol=1e-6, atol=1e-7
    )


def test_the_first_step_is_its_own_and_the_rest_the_networks():
    model = first_step()
    found, inner = hs.step_log_probs(model, ROWS), hs.step_log_probs(model.model, ROWS)
    own = np.array([0.3, -0.5, 1.0])
    expected = (own - np.log(np.exp(own).sum()))[[0, 2, 1]]
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-5)
    np.testing.assert_allclose(found[:, 1:], inner[:, 1:], rtol=1e-6)


def test_given_the_first_step_is_the_joint_without_it_and_knows_nothing_of_its_parameters():
    model = first_step()
    first = np.asarray(hs.log_prob(model, [row[:1] for row in ROWS]))
    joint, given = hs.log_prob(model, ROWS), hs.log_prob(model, ROWS, given=1)
    np.testing.assert_allclose(given, joint - first, rtol=1e-5, atol=1e-6)
    assert given[1] == 0  # of a sequence of one step nothing is left
    learned, rest = partition(model)
    slopes = jax.grad(lambda learned: hs.log_prob(eqx.combine(learned, rest), ROWS, given=1).sum())(learned)
    assert not np.asarray(slopes.first).any()
    assert np.abs(slopes.model.head.weight).max() > 0


def test_of_sequences_of_one_step_it_learns_the_frequencies():
    counts = np.array([12, 30, 6])
    data = [np.array([symbol]) for symbol, count in enumerate(counts) for _ in range(count)]
    model = hs.fit(first_step(), data, hs.LBFGS(iterations=60, prior=0.0), key=KEY, progress=False).model
    np.testing.assert_allclose(jax.nn.softmax(model.first), counts / counts.sum(), atol=2e-3)


@pytest.mark.parametrize("kind", quick(["one layer", "stack"]))
def test_the_laws_hold(kind):
    if kind == "stack":
        model = perturbed(first_step(stack("mingru", "categorical", "learned")), KEY)
        laws.same_answer(model)  # layer by layer, in sequence and in parallel
        laws.chunked_equals_whole(model)
        return
    model = first_step()
    laws.normalised(model, SYMBOLS)
    laws.padding_is_invisible(model)
    laws.streaming_equals_batch(model)
    laws.combine_is_associative(model)
    laws.saving_changes_nothing(model)


def test_a_model_without_a_head_is_refused():
    with pytest.raises(hs.HiddenStateError, match="model is HMM"):
        hs.FirstStep(hs.build("hmm", hs.Sequences.of(ROWS), states=2, key=KEY))
