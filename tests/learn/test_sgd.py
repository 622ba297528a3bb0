"""What gradient descent learns, and what one update is."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import polars as pl
import pytest

import hiddenstate as hs
from hiddenstate.core import Arrays
from hiddenstate.learn import objectives, updates
from hiddenstate.learn.evaluation import nats_per_step
from hiddenstate.learn.minibatches import START, Minibatches, Place, chunks
from learn.small_models import Unigram, network, symbols

KEY = jr.key(7)
EXACT = {"clip": None, "patience": None}


def loss(model, data) -> float:
    return -float(hs.log_prob(model, data, total=True)) / data.scored_steps


def leaves(model):
    return [np.asarray(a) for a in jax.tree.leaves(eqx.filter(model, eqx.is_array))]


def assert_same(one, other):
    assert eqx.tree_equal(one, other, typematch=True)


# -- learning ------------------------------------------------------------------------------------------------


def test_unigram_reaches_the_empirical_entropy():
    data = symbols(40, 25, ragged=True)
    counts = np.bincount(np.concatenate(list(data)), minlength=3)
    entropy = -np.sum(counts * np.log(counts / counts.sum())) / counts.sum()
    fit = hs.fit(Unigram(jnp.zeros(3)), data, hs.SGD(batch_size=40, learning_rate=0.1), key=KEY)
    assert loss(fit.model, data) == pytest.approx(entropy, abs=1e-3)
    assert loss(fit.model, data) >= entropy - 1e-12
    assert fit.converged
    assert "has not improved" in fit.reason


def test_a_network_learns_a_deterministic_cycle():
    data = hs.Sequences.of([np.arange(i, i + 12) % 3 for i in range(3)])
    method = hs.SGD(epochs=150, learning_rate=0.05, patience=None)
    fit = hs.fit(network(hidden=8), data, method, key=KEY)
    # only the first symbol of each sequence is left to chance
    assert loss(fit.model, data) == pytest.approx(np.log(3) / 12, abs=0.02)
    assert fit.history["loss"][-1] < fit.history["loss"][0]


def test_complex_arrays_go_downhill():
    model = Unigram(jnp.zeros(3) + 1j)
    fit = hs.fit(model, symbols(), hs.SGD(epochs=200, learning_rate=0.1, batch_size=20), key=KEY)
    plain = hs.fit(Unigram(jnp.zeros(3)), symbols(), hs.SGD(epochs=200, learning_rate=0.1, batch_size=20), key=KEY)
    np.testing.assert_allclose(jax.nn.softmax(fit.model.logits.real), jax.nn.softmax(plain.model.logits), atol=1e-3)
    np.testing.assert_allclose(fit.model.logits.imag, 1.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_precision_is_kept(dtype):
    fit = hs.fit(network(dtype=dtype), symbols(), hs.SGD(steps=3), key=KEY, validation=symbols(seed=1))
    assert {str(a.dtype) for a in leaves(fit.model)} == {dtype}


def test_frozen_arrays_are_not_touched():
    frozen = hs.Frozen(jnp.asarray([0.3, 0.1, 0.0]))

    class Offset(Unigram):
        offset: hs.Frozen = eqx.field(default=None, kw_only=True)

        def readout(self, state, u=None):
            return Unigram(self.logits + self.offset.value).readout(state)

    fit = hs.fit(Offset(jnp.zeros(3), offset=frozen), symbols(), hs.SGD(epochs=5), key=KEY)
    assert_same(fit.model.offset, frozen)
    assert np.abs(fit.model.logits).max() > 0


def test_the_same_key_gives_the_same_bits_and_another_key_another_order():
    runs = [hs.fit(Unigram(jnp.zeros(3)), symbols(), hs.SGD(epochs=3, batch_size=4), key=jr.key(k)) for k in (1, 1, 2)]
    assert_same(runs[0].model, runs[1].model)
    assert runs[0].history.equals(runs[1].history)
    assert not runs[0].history.equals(runs[2].history)


def test_old_style_keys_work_and_give_the_same():
    runs = [hs.fit(Unigram(jnp.zeros(3)), symbols(), hs.SGD(epochs=2), key=k) for k in (jr.key(1), jr.PRNGKey(1))]
    assert_same(runs[0].model, runs[1].model)


# -- one update ----------------------------------------------------------------------------------------------


def test_an_update_is_the_gradient_of_the_mean_over_steps_whatever_the_padding():
    data = symbols(6, 9, ragged=True)
    model = network()
    method = hs.SGD(steps=1, batch_size=6, optimiser=optax.sgd(1.0), **EXACT)
    fit = hs.fit(model, data, method, key=KEY)

    def by_hand(model):
        return -sum(hs.log_prob(model, [sequence], total=True) for sequence in data) / data.steps

    gradient = eqx.filter_grad(by_hand)(model)
    for new, old, slope in zip(leaves(fit.model), leaves(model), leaves(gradient), strict=True):
        np.testing.assert_allclose(new, old - slope, rtol=1e-10, atol=1e-13)
    norm = np.sqrt(sum((slope**2).sum() for slope in leaves(gradient)))
    row = fit.history.row(0, named=True)
    assert row == {
        "step": 1,
        "epoch": 1,
        "loss": pytest.approx(loss(model, data)),
        "validation": None,
        "gradient_norm": pytest.approx(norm),
    }


def test_batches_filled_up_with_empty_sequences_weigh_nothing():
    data, model = symbols(5, 4), Unigram(jnp.asarray([0.3, 0.0, -0.2]))
    fit = hs.fit(model, data, hs.SGD(epochs=1, batch_size=4, optimiser=optax.set_to_zero()), key=KEY)
    sizes = [m.steps for m in Minibatches(model, data, 4, 4, None, KEY).after(START, 1)]
    assert sorted(sizes) == [4, 16]
    assert fit.history["loss"].to_numpy() @ sizes / 20 == pytest.approx(loss(model, data))


def test_clipping_bounds_the_update_and_not_the_record():
    model = Unigram(jnp.asarray([5.0, 0.0, 0.0]))
    options = {"steps": 1, "optimiser": optax.sgd(1.0)}
    free, clipped = (hs.fit(model, symbols(), hs.SGD(clip=c, **options), key=KEY) for c in (None, 0.01))
    assert np.linalg.norm(free.model.logits - model.logits) == pytest.approx(free.history["gradient_norm"][0])
    assert np.linalg.norm(clipped.model.logits - model.logits) == pytest.approx(0.01)
    assert clipped.history.equals(free.history)


def test_the_norm_of_a_huge_gradient_does_not_overflow():
    big = [jnp.full(4, 1e30, jnp.float32), jnp.asarray([], jnp.float32)]
    assert float(updates.global_norm(big)) == pytest.approx(2e30)
    assert float(updates.global_norm([jnp.zeros(2)])) == 0.0
    assert not np.isfinite(updates.global_norm([jnp.asarray([1.0, jnp.nan])]))
    assert not np.isfinite(updates.global_norm([jnp.asarray([1.0, jnp.inf])]))


def test_schedules_and_optimisers_of_optax_are_taken():
    model, data = Unigram(jnp.zeros(3)), symbols()
    schedule = optax.linear_schedule(0.1, 0.0, 5)
    ours = hs.fit(model, data, hs.SGD(steps=8, learning_rate=schedule), key=KEY)
    theirs = hs.fit(model, data, hs.SGD(steps=8, optimiser=optax.adam(schedule)), key=KEY)
    assert_same(ours.model, theirs.model)


# -- truncated backpropagation through time ------------------------------------------------------------------


@pytest.mark.parametrize("truncate", [9, 100])
def test_truncation_at_the_full_length_is_none_at_all(truncate):
    runs = [
        hs.fit(network(), symbols(6, 9, ragged=True), hs.SGD(epochs=2, truncate=t, buckets=1), key=KEY)
        for t in (None, truncate)
    ]
    assert_same(runs[0].model, runs[1].model)
    assert runs[0].history.equals(runs[1].history)


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("truncate", [1, 4, 5])
def test_chunks_carry_the_state(truncate, ragged):
    data, model = symbols(6, 12, ragged=ragged, seed=3), network()
    still = hs.SGD(epochs=1, batch_size=3, buckets=2, truncate=truncate, optimiser=optax.set_to_zero())
    fit = hs.fit(model, data, still, key=KEY)
    sizes = [m.steps for m in Minibatches(model, data, 3, 2, truncate, KEY).after(START, 1)]
    assert sum(sizes) == data.steps
    assert fit.history["loss"].to_numpy() @ sizes / sum(sizes) == pytest.approx(loss(model, data), rel=1e-12)


def test_gradients_stop_at_the_edge_of_a_chunk():
    data, model = symbols(4, 6), network()
    method = hs.SGD(epochs=1, truncate=3, optimiser=optax.sgd(0.5), **EXACT)
    fit = hs.fit(model, data, method, key=KEY)
    early, late = data.values[:, :3], data.values[:, 3:]

    def chunk_loss(model, values, state):
        log_probs, final = hs.inference.masked_log_probs(model, Arrays(values), hs.Auto(), state)
        return -log_probs.mean(), final

    expected = model
    state = None
    for values in (early, late):
        gradient, state = eqx.filter_grad(chunk_loss, has_aux=True)(expected, values, state)
        expected = jax.tree.map(lambda p, g: p - 0.5 * g, expected, gradient)
    for a, b in zip(leaves(fit.model), leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)


def test_chunks_cover_everything_once():
    values = np.arange(2 * 7).reshape(2, 7)
    parts = list(chunks(Arrays(values, np.array([7, 4], np.int32), values[..., None] * 1.0), 3))
    assert [p.values.shape for p in parts] == [(2, 3)] * 3
    assert [p.lengths.tolist() for p in parts] == [[3, 3], [3, 1], [1, 0]]
    np.testing.assert_array_equal(np.concatenate([p.inputs for p in parts], 1)[:, :7, 0], values)
    assert len(list(chunks(Arrays(values, np.array([3, 2], np.int32)), 3))) == 1
    assert [p.lengths for p in chunks(Arrays(values[:, :6]), 3)] == [None, None]


# -- context -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("truncate", [None, 2])
def test_context_moves_the_state_and_is_not_learned_from(truncate):
    data, model = symbols(4, 8).after([5, 0, 4, 4]), network()
    method = hs.SGD(epochs=1, truncate=truncate, optimiser=optax.set_to_zero())
    fit = hs.fit(model, data, method, key=KEY, validation=data)
    sizes = [m.steps for m in Minibatches(model, data, 4, 4, truncate, KEY).after(START, 1)]
    assert fit.history["loss"].to_numpy() @ sizes / sum(sizes) == pytest.approx(loss(model, data))
    assert fit.history["validation"][-1] == pytest.approx(loss(model, data))
    nothing = symbols(2, 6).after(4)
    fit = hs.fit(model, nothing, hs.SGD(epochs=3, truncate=2, optimiser=optax.set_to_zero()), key=KEY)
    assert fit.history["loss"].to_list() == pytest.approx([loss(model, nothing)] * 3)


# -- order, shapes and memory --------------------------------------------------------------------------------


def test_the_order_is_a_function_of_key_and_epoch_and_can_be_taken_up_anywhere():
    data = symbols(23, 10, ragged=True)
    order = Minibatches(Unigram(jnp.zeros(3)), data, 4, 3, 4, KEY)
    whole = list(order.after(START, 3))
    assert [m.place for m in whole] == sorted({m.place for m in whole})
    assert sum(m.ends_epoch for m in whole) == 3
    assert sum(m.steps for m in whole) == 3 * data.steps
    assert order.per_epoch == len({m.place[:2] for m in whole}) / 3
    for cut in (0, 5, len(whole) - 1):
        rest = list(order.after(whole[cut].place, 3))
        assert len(rest) == len(whole) - cut - 1
        for a, b in zip(rest, whole[cut + 1 :], strict=True):
            assert a.place == b.place
            np.testing.assert_array_equal(a.arrays.values, b.arrays.values)
    first, second = ([m.arrays.values for m in whole if m.place.epoch == e] for e in (0, 1))
    assert any(a.shape != b.shape or (a != b).any() for a, b in zip(first, second, strict=False))
    assert next(order.after(Place(1, 0, 0), None)).place > (1, 0, 0)


@pytest.mark.parametrize("count", [24, 25])
def test_one_program_is_compiled_per_bucket(count, monkeypatch):
    jax.clear_caches()
    traced = []
    real = objectives.masked_log_probs

    def counting(model, arrays, *others):
        traced.append(arrays.values.shape)
        return real(model, arrays, *others)

    monkeypatch.setattr(objectives, "masked_log_probs", counting)
    data = symbols(count, 30, ragged=True)
    hs.fit(Unigram(jnp.zeros(3)), data, hs.SGD(epochs=4, batch_size=4, buckets=3), key=KEY)
    assert len(traced) == len(set(traced)) <= 3
    traced.clear()
    for rate in (0.1, 0.2):  # another run of a model of the same shape compiles nothing anew
        method = hs.SGD(epochs=4, batch_size=4, learning_rate=rate)
        hs.fit(Unigram(jnp.full(3, rate)), symbols(count), method, key=KEY)
    assert len(traced) == 1


def test_validation_in_pieces_is_the_whole(monkeypatch):
    model, data = network(), symbols(7, 40, ragged=True)
    learner = updates.Learner(model, optax.sgd(0.1), strategy=hs.Auto(), clip=None)
    whole = nats_per_step(learner, learner.initial, model, data, 3)
    assert whole == pytest.approx(loss(model, data), rel=1e-12)
    monkeypatch.setattr("hiddenstate.learn.evaluation.STEPS_AT_ONCE", 12)
    assert nats_per_step(learner, learner.initial, model, data, 3) == pytest.approx(whole, rel=1e-12)


# -- the record ----------------------------------------------------------------------------------------------


def test_history_has_one_row_per_update_and_no_clock():
    data = symbols(10)
    fit = hs.fit(
        Unigram(jnp.zeros(3)),
        data,
        hs.SGD(epochs=3, batch_size=4, evaluate_every=2),
        key=KEY,
        validation=symbols(seed=1),
    )
    assert fit.history.schema == {
        "step": pl.Int64,
        "epoch": pl.Int64,
        "loss": pl.Float64,
        "validation": pl.Float64,
        "gradient_norm": pl.Float64,
    }
    assert fit.history["step"].to_list() == list(range(1, 10))
    assert fit.history["epoch"].to_list() == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert fit.history["validation"].is_not_null().arg_true().to_list() == [5, 8]


def test_small_data_are_given_enough_updates():
    fit = hs.fit(Unigram(jnp.zeros(3)), symbols(2), hs.SGD(tolerance=0, learning_rate=1e-6), key=KEY)
    assert fit.history["epoch"][-1] == 1000
    assert fit.reason == "ran all 1000 epochs; the training loss was still improving."
    fit = hs.fit(Unigram(jnp.zeros(3)), symbols(2), hs.SGD(epochs=25), key=KEY, validation=symbols(3))
    assert fit.history["validation"].is_not_null().arg_true().to_list() == [9, 19, 24]


def test_evaluations_can_be_counted_in_steps():
    method = hs.SGD(steps=7, batch_size=4, evaluate_steps=3)
    fit = hs.fit(Unigram(jnp.zeros(3)), symbols(20), method, key=KEY, validation=symbols(seed=1))
    assert fit.history["validation"].is_not_null().arg_true().to_list() == [2, 5, 6]


# -- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"learning_rate": 0}, "learning_rate is 0; it must be a positive number"),
        ({"learning_rate": -1.0}, "learning_rate is -1.0"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"learning_rate": "fast"}, "learning_rate is 'fast'"),
        ({"batch_size": 0}, "batch_size is 0; it must be a whole number from 1 on"),
        ({"batch_size": 2.5}, "batch_size is 2.5"),
        ({"truncate": 0}, "truncate is 0; it must be a whole number from 1 on or None"),
        ({"epochs": 0}, "epochs is 0"),
        ({"steps": -1}, "steps is -1"),
        ({"epochs": True}, "epochs is True"),
        ({"clip": 0.0}, "clip is 0.0"),
        ({"patience": 0}, "patience is 0"),
        ({"buckets": 0}, "buckets is 0"),
        ({"tolerance": -1e-3}, "tolerance is -0.001"),
        ({"evaluate_every": 0}, "evaluate_every is 0"),
        ({"evaluate_steps": 0}, "evaluate_steps is 0"),
        ({"checkpoint_every": -1}, "checkpoint_every is -1"),
        ({"strategy": "sequential"}, "strategy is 'sequential'"),
        ({"optimiser": "adam"}, "optimiser is 'adam'"),
        ({"optimiser": optax.sgd(1.0), "learning_rate": 1.0}, "but not both"),
    ],
)
def test_bad_settings_are_sentences(options, match):
    with pytest.raises(hs.HiddenStateError, match=match):
        hs.SGD(**options)


def test_bad_arguments_of_fit_are_sentences():
    model, data = Unigram(jnp.zeros(3)), symbols()
    for method, match in [
        ("sgd", "the method is 'sgd'"),
        (hs.SGD, r"Call it: hs.SGD\(\)"),
        (hs.Auto(), "way of learning"),
    ]:
        with pytest.raises(hs.HiddenStateError, match=match):
            hs.fit(model, data, method, key=KEY)
    with pytest.raises(hs.HiddenStateError, match="takes a SequenceModel"):
        hs.fit(hs.cells.Vanilla(2, 2, key=KEY), data, hs.SGD(), key=KEY)
    with pytest.raises(hs.HiddenStateError, match=r"the key is 3; .* such as jax.random.key\(0\)"):
        hs.fit(model, data, hs.SGD(), key=3)
    with pytest.raises(hs.DataError, match="at least one"):
        hs.fit(model, [], hs.SGD(), key=KEY)
    with pytest.raises(hs.DataError, match="sequence 0 holds 3 at step 2"):
        hs.fit(model, data, hs.SGD(), key=KEY, validation=[[0, 3]])
    with pytest.raises(hs.StrategyError, match="needs a recurrence with `combine`"):
        hs.fit(network(), data, hs.SGD(strategy=hs.Associative()), key=KEY)

    class Fixed(Unigram):
        def readout(self, state, u=None):
            return Unigram(self.logits.value).readout(state)

    with pytest.raises(hs.HiddenStateError, match="nothing to learn"):
        hs.fit(Fixed(hs.Frozen(jnp.zeros(3))), data, hs.SGD(), key=KEY)
    with pytest.raises(TypeError, match="key"):
        hs.fit(model, data, hs.SGD())
