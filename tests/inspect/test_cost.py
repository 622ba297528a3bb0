"""Costs: exponents of made-up times, counted operations and depths, and memory, which is exact. Nothing is timed."""

import os

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.inspect.costs.operations import operations
from hiddenstate.inspect.costs.programs import on_one_core
from marks import quick

SIZES = np.array([1000, 2000, 4000, 8000, 16_000, 32_000, 64_000])


# -- exponents -----------------------------------------------------------------------------------------------


def test_a_power_is_found():
    found = hs.inspect.fit_exponent(SIZES, 3e-6 * SIZES**1.5)
    np.testing.assert_allclose([found.power, found.factor, found.error, found.overhead], [1.5, 3e-6, 0, 0], atol=1e-9)
    np.testing.assert_allclose(found.at([100, 400]), [3e-3, 24e-3])


def test_an_overhead_is_told_from_a_power():
    """A straight line through these has the slope 0.7; what grows, grows with the power 1."""
    times = 2e-3 + 1e-7 * SIZES
    found = hs.inspect.fit_exponent(SIZES, times * np.exp(0.003 * np.array([1, -1, 1, 1, -1, 1, -1])))
    assert abs(found.power - 1) < 0.03
    assert abs(found.overhead / 2e-3 - 1) < 0.02
    assert 0 < found.error < 0.03
    np.testing.assert_allclose(found.at(SIZES), times, rtol=0.02)


def test_noise_alone_is_no_overhead_and_its_error_is_that_of_least_squares():
    noise = 0.02 * np.array([1, -1, -1, 1, 1, -1, 0.5])
    found = hs.inspect.fit_exponent(SIZES, 1e-6 * SIZES * np.exp(noise))
    design = np.stack([np.log(SIZES), np.ones(7)], axis=1)
    (power, _), left, *_ = np.linalg.lstsq(design, np.log(1e-6 * SIZES) + noise, rcond=None)
    assert found.overhead == 0
    np.testing.assert_allclose(found.power, power)
    np.testing.assert_allclose(found.error, np.sqrt(left[0] / 5 * np.linalg.inv(design.T @ design)[0, 0]))


def test_two_sizes_have_a_slope_and_no_error():
    found = hs.inspect.fit_exponent([10, 20], [1.0, 8.0])
    assert found.power == pytest.approx(3)
    assert np.isnan(found.error)


@pytest.mark.parametrize(
    ("sizes", "costs", "sentence"),
    [([1, 2], [1.0], "2 sizes and 1 costs"), ([3, 3], [1.0, 2.0], "2 or more"), ([1, 2], [1.0, 0.0], "positive")],
)
def test_what_has_no_exponent_is_refused(sizes, costs, sentence):
    with pytest.raises(hs.HiddenStateError, match=sentence):
        hs.inspect.fit_exponent(sizes, costs)


# -- operations ----------------------------------------------------------------------------------------------


def test_products_loops_and_functions_are_counted():
    matrix, vector = jnp.ones((5, 7)), jnp.ones(7)
    assert operations(lambda a, b: a @ b, matrix, vector) == 2 * 5 * 7
    assert operations(lambda a: jnp.tanh(a).T.reshape(35), matrix) == 35
    assert operations(lambda a: a.sum(), matrix) == 35

    def loop(h):
        return jax.lax.scan(lambda h, _: (jnp.tanh(square @ h), None), h, length=9)[0]

    square = jnp.ones((7, 7))
    assert operations(loop, vector) == 9 * (2 * 7 * 7 + 7)
    assert operations(jax.jit(loop), vector) == 9 * (2 * 7 * 7 + 7)


# -- depth ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mingru():
    return hs.build("mingru", np.arange(8) % 3, hidden=2, key=jr.key(0))


@pytest.mark.parametrize("rounds", quick([3, 5, 8]))
def test_a_parallel_scan_is_as_deep_as_its_tree(mingru, rounds):
    """2^n steps are joined in pairs n times on the way up, and the way down adds n - 2; then comes one step."""
    assert hs.inspect.depth(mingru, hs.Associative(), 2**rounds) == 2 * rounds - 1
    assert hs.inspect.depth(mingru, hs.Sequential(), 2**rounds) == 2**rounds


def test_chunks_and_layers_wait_for_each_other(mingru):
    assert hs.inspect.depth(mingru, hs.Associative(checkpoint=8), 8 * 5) == 5 * (2 * 3 - 1)
    assert hs.inspect.depth(mingru, hs.Sequential(checkpoint=True), 50) == 50
    stack = hs.build("mingru", np.arange(8) % 3, hidden=2, layers=3, key=jr.key(0))
    assert hs.inspect.depth(stack, hs.Associative(), 32) == 3 * 9


def test_what_remembers_one_observation_has_no_depth():
    model = hs.build("output-feedback", np.arange(8) % 3, hidden=2, key=jr.key(0))
    assert hs.inspect.depth(model, hs.Auto(), 1000) == 1


def test_depth_is_refused_where_the_strategy_cannot_run(mingru):
    gru = hs.build("gru", np.arange(8) % 3, hidden=2, key=jr.key(0))
    with pytest.raises(hs.StrategyError, match="needs a recurrence with `combine`"):
        hs.inspect.depth(gru, hs.Associative(), 8)
    with pytest.raises(hs.HiddenStateError, match="steps is 0"):
        hs.inspect.depth(mingru, hs.Sequential(), 0)


# -- the study, without times --------------------------------------------------------------------------------


def exponents(cost, what="gradient"):
    """Memory exponents with their theory, by strategy and what is varied."""
    rows = cost.fits.filter((cost.fits["measure"] == "bytes") & (cost.fits["what"] == what))
    return {(row["strategy"], row["varied"]): (row["exponent"], row["theory"]) for row in rows.iter_rows(named=True)}


def test_the_gradient_of_a_network_keeps_all_its_states():
    """Lecture notes, "Computational Cost": O(TK) memory; and O(K^2) operations a step, counted in the program."""
    sizes = hs.inspect.CostSizes(
        at_steps=256, steps=(256, 1024), at_units=16, units=(16, 32), at_batch=2, batch=(), repeats=0, steps_at=(8, 1)
    )
    found = hs.inspect.cost(["vanilla"], key=jr.key(0), sizes=sizes, strategies={"sequential": hs.Sequential()})
    for varied in ("steps", "units"):
        exponent, theory = exponents(found)["sequential", varied]
        assert theory == 1
        assert abs(exponent - 1) < 0.1
    assert found.fits["measure"].unique().to_list() == ["bytes"]
    assert found.rows["seconds"].is_null().all()
    assert set(found.rows.select("varied", "units", "batch").rows()) == {
        ("steps", 8, 1),
        ("units", 16, 2),
        ("units", 32, 2),
    }
    assert found.rows.filter(found.rows["varied"] == "steps")["depth"].to_list() == [256, 1024] * 2
    assert "1024 of 1024 steps wait for each other" in str(found)
    operations = found.rows.filter((found.rows["varied"] == "steps") & (found.rows["what"] == "evaluation"))
    assert operations["operations"][1] == pytest.approx(4 * operations["operations"][0], rel=1e-3)


@pytest.mark.slow
def test_chunks_keep_the_square_root_and_scans_keep_matrices():
    sizes = hs.inspect.CostSizes(steps=(1024, 4096, 16_384), at_units=32, units=(), at_batch=8, batch=(), repeats=0)
    found = hs.inspect.cost(["gru"], key=jr.key(0), sizes=sizes, strategies={"c": hs.Sequential(checkpoint=True)})
    exponent, theory = exponents(found)["c", "steps"]
    assert theory == 0.5
    assert 0.4 < exponent < 0.7
    sizes = hs.inspect.CostSizes(at_steps=64, steps=(), at_batch=4, units=(8, 16, 32), batch=(), repeats=0)
    found = hs.inspect.cost(["hmm"], key=jr.key(0), sizes=sizes, strategies={"a": hs.Associative()})
    exponent, theory = exponents(found)["a", "units"]
    assert theory == 2
    assert abs(exponent - 2) < 0.15


def test_what_kernels_do_is_counted():
    sizes = hs.inspect.CostSizes(at_steps=8, steps=(), at_batch=2, units=(2, 4), batch=(), repeats=0)
    strategies = {"auto": hs.Auto(), "sequential": hs.Sequential()}
    rows = hs.inspect.cost(["mingru", "hmm"], key=jr.key(0), sizes=sizes, strategies=strategies).rows
    counts = [rows.filter(rows["strategy"] == name)["operations"].to_list() for name in strategies]
    assert counts[0] == counts[1]


def test_models_of_real_numbers_and_of_ones_own_are_measured():
    sizes = hs.inspect.CostSizes(at_steps=16, steps=(), at_batch=2, units=(1, 2), batch=(), repeats=0)

    def make(units):
        return hs.build("gru", np.linspace(0, 1, 20)[:, None], hidden=units, key=jr.key(0))

    found = hs.inspect.cost({"mine": make}, key=jr.key(0), sizes=sizes, strategies={"s": hs.Sequential()})
    assert found.rows["model"].unique().to_list() == ["mine"]
    assert found.rows["operations"].min() > 0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: hs.inspect.CostSizes(at_steps=0), "at_steps is 0; it must be a whole number from 1 on"),
        (lambda: hs.inspect.CostSizes(steps_at=(3,)), "steps_at is \\(3,\\); it must be a number of units and one of"),
        (lambda: hs.inspect.CostSizes(steps_at=(0, 1)), "steps_at is 0; it must be a whole number from 1 on"),
        (lambda: hs.inspect.CostSizes(units=(3,)), "units is \\(3,\\); it must hold two or more different sizes"),
        (lambda: hs.inspect.CostSizes(batch=(1, 2.5)), "batch is 2.5"),
        (lambda: hs.inspect.cost("gru", key=jr.key(0)), "models is 'gru'; it must be a list of names"),
        (lambda: hs.inspect.cost(["unigram"], key=jr.key(0)), "'unigram', which has no number of units"),
    ],
)
def test_wrong_sizes_and_models_are_refused_in_words(call, sentence):
    with pytest.raises(hs.HiddenStateError, match=sentence):
        call()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not say where threads run")
def test_threads_are_on_one_core_only_while_they_are_timed():
    cores = lambda: {frozenset(os.sched_getaffinity(int(thread))) for thread in os.listdir("/proc/self/task")}  # noqa: E731
    before = os.sched_getaffinity(0)
    jax.block_until_ready(jnp.ones(10) @ jnp.ones(10))  # JAX has threads of its own
    with on_one_core():
        assert cores() == {frozenset({max(before)})}
    assert cores() == {frozenset(before)}
    with pytest.raises(KeyError), on_one_core():
        raise KeyError
    assert cores() == {frozenset(before)}
