"""Learning from a past that is partly the model's own, held against plain loops."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import optax
import pytest

import hiddenstate as hs
from hiddenstate.core import Arrays, PairArrays
from hiddenstate.learn.chance import Chance
from hiddenstate.learn.objectives import FreeRunning, ScheduledSampling, TeacherForcing
from learn.answering import labelled, labeller
from learn.small_models import Unigram, network, symbols
from learn.test_checkpoint import Interruption, assert_same_result, interrupted_at

KEY = jr.key(3)


def sure(seed=0):
    """A network that is so sure of its next symbol that its draws are no chance."""
    model = network(seed, hidden=4)
    return eqx.tree_at(lambda m: m.head.weight, model, 400 * model.head.weight)


def real(seed=0):
    """A network over pairs of real numbers."""
    cell = hs.cells.Vanilla(2, 3, key=jr.key(seed))
    return hs.RNN(cell, hs.heads.Gaussian(3, 2, key=jr.key(seed + 1)), initial="learned")


def numbers(count=3, length=7, *, seed=0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, length, 2))


@eqx.filter_jit
def loss_and_gradient(model, objective, arrays, key, update=0):
    """The total of an objective over a minibatch, its gradient, and the log-probability of every step."""
    draws = jr.split(key, len((arrays.target if isinstance(arrays, PairArrays) else arrays).values))

    def total(model):
        log_probs, _ = objective.log_probs(model, arrays, hs.Auto(), None, Chance(None, draws, jnp.asarray(update)))
        return log_probs.sum(), log_probs

    (_, log_probs), gradient = eqx.filter_value_and_grad(total, has_aux=True)(model)
    return log_probs, gradient


def by_loop(model, values, lengths, contexts, own, fed_truth):
    """The same by a plain loop: at step t the truth is fed where `fed_truth(t)` or t is context, else `own`."""
    totals, rows = 0.0, []
    for sequence, length, context in zip(jnp.asarray(values), lengths, contexts, strict=True):
        row = np.zeros(len(sequence), object)
        state = truth_state = model.initial()
        for t in range(length):
            if fed_truth(t, context) == "start":
                state = truth_state
            distribution = model.readout(state)
            if t >= context:
                row[t] = distribution.log_prob(sequence[t])
                totals = totals + row[t]
            fed = sequence[t] if t < context or fed_truth(t, context) is True else own(distribution)
            state = model.step(state, model.prepare(fed))
            truth_state = model.step(truth_state, model.prepare(sequence[t]))
        rows.append([float(jax.lax.stop_gradient(a)) for a in row])
    return totals, np.array(rows)


def loop_and_gradient(model, *arguments):
    (_, rows), gradient = eqx.filter_value_and_grad(lambda m: by_loop(m, *arguments), has_aux=True)(model)
    return rows, gradient


def argmax(distribution):
    return jnp.argmax(distribution.logits)


def assert_close(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


SYMBOLS = Arrays(
    np.random.default_rng(1).integers(0, 3, (3, 6)),
    np.array([6, 4, 0], np.int32),
    context=np.array([2, 0, 0], np.int32),
)
"""Ragged, with a context, and with an empty sequence, as they fill up a minibatch."""


# -- scheduled sampling ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("deep", [False, True])
def test_feeding_the_truth_for_certain_is_teacher_forcing(deep):
    model = network(hidden=4)
    if deep:
        cells = [hs.cells.GRU(3, 4, key=KEY), hs.cells.Vanilla(4, 4, key=KEY)]
        model = hs.RNN(hs.Stack(cells), model.head, initial="learned")
    for one, other in zip(
        loss_and_gradient(model, ScheduledSampling(1.0), SYMBOLS, KEY),
        loss_and_gradient(model, TeacherForcing(), SYMBOLS, KEY),
        strict=True,
    ):
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)


def test_never_feeding_the_truth_is_a_loop_over_the_models_own_draws():
    model = sure()
    log_probs, gradient = loss_and_gradient(model, ScheduledSampling(0.0), SYMBOLS, KEY)
    loop = (SYMBOLS.values, SYMBOLS.lengths, SYMBOLS.context, argmax, lambda t, context: False)
    rows, by_hand = loop_and_gradient(model, *loop)
    assert not np.allclose(rows, loss_and_gradient(model, TeacherForcing(), SYMBOLS, KEY)[0])
    np.testing.assert_allclose(log_probs, rows, rtol=1e-10, atol=1e-12)
    assert_close(gradient, by_hand)


class Counter(Unigram):
    """It always draws a one, and its state is how many ones it was fed."""

    def prepare(self, x, u=None):
        return jnp.asarray(x, float)

    def readout(self, state, u=None):
        return dist.Categorical(logits=jnp.stack([state - 50.0 - state, self.logits[0] + 50.0]))


def test_the_truth_is_fed_as_often_as_the_schedule_says():
    arrays, steps, count = Arrays(np.zeros((200, 30), int)), 30, 200
    for update, probability in ((0, 1.0), (25, 0.75), (50, 0.5), (10**6, 0.0)):
        objective = ScheduledSampling(
            hs.schedules.linear(100, 1.0, 0.0) if update <= 50 else optax.linear_schedule(1, 0, 5)
        )
        chance = Chance(None, jr.split(KEY, count), jnp.asarray(update))
        _, states = objective.log_probs(Counter(jnp.zeros(3)), arrays, hs.Auto(), None, chance)
        ones = np.asarray(states)
        spread = np.sqrt(steps * probability * (1 - probability))
        assert abs(ones.mean() - steps * (1 - probability)) <= 4 * spread / np.sqrt(count)
        assert ones.std() == pytest.approx(spread, rel=0.25)


def test_draws_differ_between_sequences_and_updates_and_repeat_with_the_key():
    model, values = network(), np.zeros((4, 12), int)
    one, again, other = (
        loss_and_gradient(model, ScheduledSampling(0.0), Arrays(values), jr.key(k))[0] for k in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)
    assert len({tuple(row) for row in np.asarray(one)}) == 4


def test_missing_entries_stay_missing():
    model = hs.HMM(
        initial=[0.6, 0.4],
        transition=[[0.9, 0.1], [0.2, 0.8]],
        emission=hs.emissions.Categorical(probs=[[0.7, 0.3], [0.1, 0.9]]),
    )
    data = hs.Sequences.of([[0, 1, 1, 0, 1]], missing=[[False, True, False, False, True]])
    arrays = data.arrays(float)
    forced, _ = loss_and_gradient(model, ScheduledSampling(1.0), arrays, KEY)
    np.testing.assert_allclose(forced, hs.step_log_probs(model, data), rtol=1e-12, atol=1e-12)
    nothing = arrays._replace(observed=np.zeros((1, 5), bool))
    for objective in (ScheduledSampling(0.0), FreeRunning(2)):
        np.testing.assert_allclose(loss_and_gradient(model, objective, nothing, KEY)[0], 0.0, atol=1e-12)


# -- free running ----------------------------------------------------------------------------------------------


def stretches(length, start):
    def fed(t, context):
        return "start" if t == 0 or (t - start) % length == 0 else False

    return fed


@pytest.mark.parametrize(("length", "start"), [(3, 0), (3, 2), (20, 0)])
def test_free_running_on_means_is_a_loop_and_the_gradient_flows_through_it(length, start):
    model, values = real(), numbers()
    lengths, context = np.array([7, 5, 1], np.int32), np.array([2, 0, 0], np.int32)
    arrays = Arrays(values, lengths, context=context)
    log_probs, gradient = loss_and_gradient(model, FreeRunning(length, feed="mean", start=start), arrays, KEY)
    rows, by_hand = loop_and_gradient(model, values, lengths, context, lambda d: d.mean, stretches(length, start))
    np.testing.assert_allclose(log_probs, rows, rtol=1e-10, atol=1e-12)
    assert_close(gradient, by_hand)


def test_free_running_on_draws_is_a_loop_and_no_gradient_flows_through_a_draw():
    model = sure(2)
    log_probs, gradient = loss_and_gradient(model, FreeRunning(4, start=1), SYMBOLS, KEY)
    loop = (SYMBOLS.values, SYMBOLS.lengths, SYMBOLS.context, argmax, stretches(4, 1))
    rows, by_hand = loop_and_gradient(model, *loop)
    np.testing.assert_allclose(log_probs, rows, rtol=1e-10, atol=1e-12)
    assert_close(gradient, by_hand)


def test_stretches_of_one_step_are_teacher_forcing():
    model, arrays = real(), Arrays(numbers())
    own = loss_and_gradient(model, FreeRunning(1), arrays, KEY)
    assert_close(own, loss_and_gradient(model, TeacherForcing(), arrays, KEY))


def test_stretches_begin_at_random():
    model, arrays = real(), Arrays(numbers(8, 9))
    fixed = [loss_and_gradient(model, FreeRunning(3, feed="mean", start=s), arrays, KEY)[0] for s in range(3)]
    drawn = np.asarray(loss_and_gradient(model, FreeRunning(3, feed="mean"), arrays, KEY)[0])
    found = [next(s for s in range(3) if np.allclose(row, fixed[s][i], rtol=1e-12)) for i, row in enumerate(drawn)]
    assert set(found) == {0, 1, 2}


# -- models that write answers ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def writing():
    pairs = hs.Pairs.of([[0, 1, 2], [2], [1, 1]], [[1, 0], [0, 1, 1, 0], [1]])
    decoder = hs.RNN(hs.cells.GRU(3 + 2, 3, key=KEY), hs.heads.Categorical(3 + 2, 3, key=KEY), inputs=2)
    encoder = hs.cells.Vanilla(2, 2, key=KEY)
    model = hs.EncoderDecoder(encoder, decoder, reader=hs.Embedding(3, 2, key=KEY), context="both", key=KEY)
    padded = next(pairs.batches(3, buckets=1))
    arrays = padded.arrays(float)
    empty = jax.tree.map(lambda a: np.concatenate([a, np.zeros_like(a[:1])]), arrays)  # one pair to fill up
    return model, arrays, empty


@pytest.mark.slow
def test_answers_can_be_learned_from_ones_own_past(writing):
    model, arrays, filled = writing
    forced = loss_and_gradient(model, TeacherForcing(), arrays, KEY)
    for objective in (ScheduledSampling(1.0), FreeRunning(1)):
        assert_close(loss_and_gradient(model, objective, arrays, KEY), forced)
    log_probs, gradient = loss_and_gradient(model, ScheduledSampling(0.0), filled, jr.key(8))
    assert np.all(log_probs[-1] == 0)
    assert all(np.isfinite(a).all() for a in jax.tree.leaves(gradient))
    assert arrays.target.lengths.tolist() == [4, 1, 2]
    second = {float(loss_and_gradient(model, ScheduledSampling(0.0), filled, jr.key(k))[0][0, 1]) for k in range(9)}
    assert len(second) == 2  # after each of the two symbols that can come first; the stop symbol cannot
    assert not np.allclose(log_probs[0], forced[0][0])
    for row in (0, 2):  # the first step has no past; the middle answer's only step has the share of the stop symbol too
        assert float(log_probs[row, 0]) == pytest.approx(float(forced[0][row, 0]), rel=1e-10)


# -- schedules -------------------------------------------------------------------------------------------------


def test_schedules_are_those_of_the_paper():
    updates = np.array([0, 1, 10, 100, 10**6, 2**31 - 1])
    for schedule, expected in (
        (hs.schedules.constant(0.3), np.full(6, 0.3)),
        (hs.schedules.linear(200, 0.9, 0.1), np.maximum(0.9 - 0.8 / 200 * updates, 0.1)),
        (hs.schedules.exponential(0.99), 0.99 ** updates.astype(float)),
        (hs.schedules.inverse_sigmoid(40.0), 40 / (40 + np.exp(np.minimum(updates / 40, 700)))),
    ):
        np.testing.assert_allclose([schedule(np.int32(u)) for u in updates], expected, rtol=1e-5, atol=1e-7)
        assert eval(repr(schedule), vars(hs.schedules)) == schedule


# -- in a run --------------------------------------------------------------------------------------------------


def test_where_the_objective_changes_the_last_model_is_returned():
    data, schedule = symbols(8, 6), hs.schedules.linear(4)
    method = hs.SGD(epochs=30, batch_size=8, objective=ScheduledSampling(schedule), evaluate_every=1, patience=2)
    fit = hs.fit(network(), data, method, key=KEY)
    assert fit.history.height == 30
    assert "the model is the last one" in fit.reason and not fit.converged
    fit = hs.fit(network(), data, method, key=KEY, validation=data)  # those decide as ever
    assert fit.history["validation"].null_count() == 0
    assert fit.history["validation"].min() == pytest.approx(hs.score(fit.model, data).nats_per_step)


@pytest.mark.slow
def test_validation_by_the_objective_is_that_to_which_its_schedule_leads():
    model, data = network(), symbols(5, 7, ragged=True)

    def validation(objective, validate):
        method = hs.SGD(steps=1, optimiser=optax.set_to_zero(), objective=objective, validate=validate)
        return hs.fit(model, data, method, key=KEY, validation=data).history["validation"][-1]

    plain = hs.score(model, data).nats_per_step
    assert validation(FreeRunning(3), "log_prob") == pytest.approx(plain)
    assert validation(FreeRunning(1), "objective") == pytest.approx(plain)
    led = validation(ScheduledSampling(hs.schedules.linear(50)), "objective")
    assert led == pytest.approx(validation(ScheduledSampling(0.0), "objective"))
    assert led != pytest.approx(plain)


@pytest.mark.parametrize(
    "objective", [ScheduledSampling(hs.schedules.linear(9)), FreeRunning(2)], ids=["sampled", "free"]
)
@pytest.mark.slow
def test_an_interrupted_run_draws_what_it_would_have_drawn(objective, tmp_path, monkeypatch):
    data = symbols(10, 8, ragged=True)

    def run(checkpoint):
        method = hs.SGD(epochs=3, batch_size=4, truncate=5, objective=objective, checkpoint_every=0)
        return hs.fit(network(), data, method, key=KEY, checkpoint=checkpoint)

    whole = run(None)
    with monkeypatch.context() as patch:
        interrupted_at(patch, 8, Interruption())
        with pytest.raises(Interruption):
            run(tmp_path / "run")
    assert_same_result(run(tmp_path / "run"), whole, tmp_path)


def test_objectives_and_schedules_make_a_run(tmp_path):
    def run(objective):
        method = hs.SGD(steps=2, objective=objective)
        return hs.fit(Unigram(jnp.zeros(3)), symbols(4, 5), method, key=KEY, checkpoint=tmp_path / "run")

    run(ScheduledSampling(optax.linear_schedule(1.0, 0.0, 1000)))
    run(ScheduledSampling(optax.linear_schedule(1.0, 0.0, 1000)))
    for objective in (ScheduledSampling(optax.linear_schedule(1.0, 0.0, 900)), FreeRunning(2), TeacherForcing()):
        with pytest.raises(hs.FileError, match="objective was ScheduledSampling"):
            run(objective)


@pytest.mark.parametrize("objective", [FreeRunning(4, feed="mean"), ScheduledSampling(0.5)], ids=["free", "sampled"])
def test_learning_by_an_objective_lowers_it(objective):
    """On what was learned from; whether a model then fares better on its own is a question to each task."""
    angles = 0.5 * np.arange(12) + np.linspace(0, 6, 10)[:, None]
    data = hs.Sequences.padded(np.stack([np.cos(angles), np.sin(angles)], -1))
    method = hs.SGD(steps=150, batch_size=10, learning_rate=0.02, patience=None, objective=objective)
    losses = hs.fit(real(), data, method, key=KEY).history["loss"].to_numpy()
    assert losses[-20:].mean() < losses[:5].mean() - 0.5


# -- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: ScheduledSampling(1.5), "value is 1.5; it must be a number from 0 to 1"),
        (lambda: ScheduledSampling(lambda update: 2.0), "schedule gives 2.0 at update 0"),
        (lambda: FreeRunning(0), "steps is 0; it must be a whole number from 1 on"),
        (lambda: FreeRunning(3, feed="truth"), "feed is 'truth'; it must be 'sample' or 'mean'"),
        (lambda: FreeRunning(3, start=3), "start is 3; it must be 'random' or a whole number from 0 to 2"),
        (lambda: hs.schedules.linear(0), "updates is 0"),
        (lambda: hs.schedules.exponential(1.0), "factor is 1.0; it must be a number between 0 and 1"),
        (lambda: hs.schedules.inverse_sigmoid(0.5), "k is 0.5; it must be a number from 1 on"),
        (lambda: hs.SGD(objective="free"), "objective is 'free'; it must be one of hs.objectives"),
        (lambda: hs.SGD(objective=FreeRunning), "it must be one of hs.objectives"),
        (lambda: hs.SGD(validate="loss"), "validate is 'loss'; it must be 'log_prob' or 'objective'"),
    ],
)
def test_bad_objectives_are_sentences(make, match):
    with pytest.raises(hs.HiddenStateError, match=match):
        make()


def test_objectives_that_do_not_fit_the_model_are_sentences():
    for objective in (ScheduledSampling(0.5), FreeRunning(2)):
        with pytest.raises(hs.HiddenStateError, match="the answers of Labeller do not depend on each other"):
            hs.fit(labeller(), labelled(), hs.SGD(objective=objective), key=KEY)
    with pytest.raises(hs.HiddenStateError, match="feed is 'mean', but what RNN of Vanilla predicts are symbols"):
        hs.fit(network(), symbols(), hs.SGD(objective=FreeRunning(2, feed="mean")), key=KEY)
    method = hs.SGD(objective=ScheduledSampling(0.5), strategy=hs.Associative())
    cell = hs.cells.MinGRU(3, 2, key=KEY)
    model = hs.RNN(cell, hs.heads.Categorical(2, 3, key=KEY))
    with pytest.raises(hs.HiddenStateError, match="every step waits for the draw before"):
        hs.fit(model, symbols(), method, key=KEY)
