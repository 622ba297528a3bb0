"""Strategies agree with each other, save memory where they say so, and refuse what they cannot do."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import Arrays, cast
from hiddenstate.inference import masked_log_probs
from marks import quick


def symbols(model_cell, hidden=5):
    return hs.RNN(
        model_cell(3, hidden, key=jr.key(0)), hs.heads.Categorical(hidden, 3, key=jr.key(1)), initial="learned"
    )


@pytest.mark.parametrize("cell", quick([hs.cells.LSTM, hs.cells.Vanilla, hs.cells.MinGRU]))
@pytest.mark.parametrize("checkpoint", [True, 1, 3, 7, 50])
def test_recomputing_chunks_changes_neither_values_nor_gradients(cell, checkpoint):
    model = symbols(cell)
    xs = jr.randint(jr.key(2), (2, 11), 0, 3)
    lengths = jnp.array([11, 6])

    def run(strategy):
        total = lambda m: masked_log_probs(m, Arrays(xs, lengths), strategy)[0].sum()  # noqa: E731
        return eqx.filter_jit(eqx.filter_value_and_grad(total))(model)

    plain, again = run(hs.Sequential()), run(hs.Sequential(checkpoint=checkpoint))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12), plain, again)


def test_memory_for_the_gradient_grows_like_the_square_root_of_time():
    model = cast(symbols(hs.cells.Vanilla, hidden=32), jnp.float32)

    def temporary(time, strategy):
        gradient = eqx.filter_grad(lambda m, xs: masked_log_probs(m, Arrays(xs), strategy)[0].sum())
        arrays, static = eqx.partition(model, eqx.is_array)
        compiled = (
            jax.jit(lambda a, xs: gradient(eqx.combine(a, static), xs))
            .lower(arrays, jax.ShapeDtypeStruct((1, time), jnp.int32))
            .compile()
        )
        return compiled.memory_analysis().temp_size_in_bytes

    kept = [temporary(t, hs.Sequential()) for t in (4096, 65536)]
    saved = [temporary(t, hs.Sequential(checkpoint=True)) for t in (4096, 65536)]
    assert kept[1] > 12 * kept[0]  # sixteen times the steps, sixteen times the memory
    # What is left that grows with time is the emitted log-probability, one number a step.
    per_step = 4 * (65536 - 4096) * 4
    assert saved[1] - saved[0] < 6 * saved[0] + per_step
    assert saved[1] < kept[1] / 20


def test_an_impossible_strategy_names_the_alternatives():
    with pytest.raises(
        hs.StrategyError, match=r"Associative needs a recurrence with `combine`; RNN of GRU has none. Use Seq"
    ):
        hs.log_prob(symbols(hs.cells.GRU), [[0, 1, 2]], strategy=hs.Associative())
    with pytest.raises(hs.StrategyError, match="checkpoint is 0"):
        hs.Sequential(checkpoint=0)
    with pytest.raises(hs.StrategyError, match="checkpoint is -3"):
        hs.Associative(checkpoint=-3)


def test_auto_chooses_by_capability_device_and_length_and_says_why():
    gru, mingru = symbols(hs.cells.GRU), symbols(hs.cells.MinGRU)
    choose = hs.Auto().choose
    assert choose(gru, 100, "gpu") == (
        hs.Sequential(),
        "RNN of GRU has no `combine`, so the steps run one after the other.",
    )
    assert choose(mingru, 100, "gpu").strategy == hs.Associative()
    assert "parallel scan on the tpu" in choose(mingru, 100, "tpu").reason
    skip = symbols(hs.cells.SkipInTime)
    assert choose(skip, 1000, "cpu").strategy == hs.Sequential(checkpoint=128)
    assert "stay in the cache" in choose(skip, 1000, "cpu").reason
    assert choose(skip, 1_000_000).strategy == hs.Sequential(checkpoint=True)
    assert "to save memory" in choose(skip, 1_000_000).reason
    assert choose(mingru, 100, "cpu").strategy == (hs.Native() if hs.native.available() else hs.Sequential())
    assert choose(mingru, 1_000_000, "cpu").strategy.checkpoint is True


def test_unroll_gives_the_states_before_each_observation_and_the_last_one():
    model = symbols(hs.cells.GRU)
    xs = np.array([0, 2, 1])
    states, final = hs.unroll(model, xs)
    assert states.shape == (3, 5)
    np.testing.assert_array_equal(states[0], model.initial())
    np.testing.assert_allclose(model.step(states[2], model.prepare(jnp.asarray(1))), final, rtol=1e-12)
    again = hs.unroll(model, xs[1:], state=states[1])
    np.testing.assert_allclose(again.final, final, rtol=1e-12)


def test_a_function_is_traced_once_for_one_shape():
    traces = []

    class Counting(hs.cells.Vanilla):
        def step(self, state, element):
            traces.append(None)
            return super().step(state, element)

    model = hs.RNN(Counting(3, 4, key=jr.key(0)), hs.heads.Categorical(4, 3, key=jr.key(1)))
    for seed in range(3):
        hs.log_prob(model, hs.Sequences.padded(jr.randint(jr.key(seed), (4, 6), 0, 3)))
    assert len(traces) <= 2
