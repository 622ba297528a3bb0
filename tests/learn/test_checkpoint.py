"""A run that was interrupted goes on to the same result, bit for bit; a file of another run is refused."""

import random

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import hiddenstate as hs
from hiddenstate.core.storage import read_tensors, write_tensors
from hiddenstate.learn import training
from hiddenstate.learn.updates import Learner
from learn.small_models import Unigram, network, symbols

KEY = jr.key(11)
DATA, VALID = symbols(10, 9, ragged=True), symbols(6, 9, seed=5)


class Interruption(Exception):
    pass


def interrupted_at(monkeypatch, number, error, module=Learner, name="update"):
    """From now on the call of that number raises the error; returns the list of calls."""
    calls, real = [], getattr(module, name)

    def counting(*args, **options):
        calls.append(len(calls))
        if len(calls) == number:
            raise error
        return real(*args, **options)

    monkeypatch.setattr(module, name, counting)
    return calls


def assert_same_result(one: hs.Fit, other: hs.Fit, tmp_path):
    hs.save(one.model, tmp_path / "one")
    hs.save(other.model, tmp_path / "other")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert one.history.equals(other.history)
    assert (one.converged, one.reason) == (other.converged, other.reason)


SETTINGS = {
    "plain": {"epochs": 4, "batch_size": 4},
    "truncated": {"epochs": 3, "batch_size": 4, "truncate": 4},
    "steps": {"steps": 9, "batch_size": 4, "evaluate_steps": 2},
    "momentum": {
        "steps": 8,
        "batch_size": 4,
        "optimiser": optax.sgd(optax.exponential_decay(0.3, 3, 0.5), momentum=0.9),
    },
    "stopping": {"epochs": 40, "batch_size": 5, "patience": 1, "evaluate_every": 1, "learning_rate": 0.5},
}


@pytest.mark.parametrize("validation", [None, VALID], ids=["alone", "validated"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_run_that_breaks_anywhere_continues_to_the_same_bits(settings, validation, tmp_path, monkeypatch):
    model = network() if settings == "truncated" else Unigram(jnp.asarray([0.1, 0.0, -0.3]))
    path = tmp_path / "run"

    def run(every, checkpoint=path):
        method = hs.SGD(checkpoint_every=every, **SETTINGS[settings])
        return hs.fit(model, DATA, method, key=KEY, validation=validation, checkpoint=checkpoint)

    whole = run(1e9, None)
    places = random.Random(f"{settings}{validation}")
    for every, breaks in ((0, 2), (1e9, 1)):  # written after every update, or only at the beginning
        path.unlink(missing_ok=True)
        for _ in range(breaks):
            with monkeypatch.context() as patch:
                interrupted_at(patch, places.randint(1, 4), Interruption())
                try:
                    run(every)
                except Interruption:
                    continue
        assert_same_result(run(every), whole, tmp_path)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["one", "other", "run"]


@pytest.mark.parametrize(
    ("where", "number"),
    [((Learner, "update"), 5), ((training, "nats_per_step"), 3)],
    ids=["update", "evaluation"],
)
def test_control_c_keeps_everything_done_so_far(where, number, tmp_path, monkeypatch):
    def run(checkpoint):
        method = hs.SGD(epochs=4, batch_size=4, evaluate_every=1)
        return hs.fit(
            Unigram(jnp.zeros(3)),
            DATA,
            method,
            key=KEY,
            validation=VALID,
            checkpoint=checkpoint,
            progress=False,
        )

    whole = run(None)
    with monkeypatch.context() as patch:
        interrupted_at(patch, number, KeyboardInterrupt(), *where)
        done = interrupted_at(patch, 0, None)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run")
    calls = interrupted_at(monkeypatch, 0, None)
    assert_same_result(run(tmp_path / "run"), whole, tmp_path)
    assert len(calls) == whole.history.height - len(done) + 1  # only the update that was broken off is made again


def test_a_finished_run_returns_at_once(tmp_path, monkeypatch):
    def run():
        method = hs.SGD(epochs=3, batch_size=4)
        return hs.fit(Unigram(jnp.zeros(3)), DATA, method, key=KEY, validation=VALID, checkpoint=tmp_path / "run")

    first = run()
    calls = interrupted_at(monkeypatch, 0, None)
    assert_same_result(run(), first, tmp_path)
    assert calls == []


def test_a_run_that_stopped_at_a_bad_number_stays_stopped(tmp_path):
    def run():
        method = hs.SGD(epochs=3, optimiser=optax.scale(float("inf")))
        return hs.fit(Unigram(jnp.zeros(3)), DATA, method, key=KEY, checkpoint=tmp_path / "run")

    assert_same_result(run(), run(), tmp_path)
    assert "not finite" in run().reason


# -- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"key": jr.key(12)}, "the key differs"),
        ({"model": Unigram(jnp.asarray([0.0, 0.0, 1e-9]))}, "the model differs"),
        ({"data": symbols(10, 9, seed=2, ragged=True)}, "the data differ"),
        ({"validation": None}, "the validation data differ"),
        ({"validation": VALID.after(1)}, "the validation data differ"),
        ({"batch_size": 5}, "batch_size was 4 and is 5"),
        ({"epochs": 4}, "epochs was 3 and is 4"),
        ({"truncate": 3}, "truncate was None and is 3"),
        ({"learning_rate": 0.02}, "learning_rate was 0.01 and is 0.02"),
        ({"learning_rate": optax.constant_schedule(0.01)}, "learning_rate differs"),
        ({"optimiser": optax.sgd(0.1)}, "optimiser differs"),
        ({"strategy": hs.Sequential()}, r"strategy was Auto\(\) and is Sequential.checkpoint=False."),
        ({"batch_size": 5, "clip": None}, "batch_size was 4 and is 5; clip was 1.0 and is None"),
    ],
    ids=lambda case: str(sorted(case)) if isinstance(case, dict) else None,
)
def test_another_run_is_refused_and_says_what_differs(change, match, tmp_path):
    def run(model=None, data=DATA, validation=VALID, key=KEY, **settings):
        method = hs.SGD(**{"epochs": 3, "batch_size": 4, **settings})
        model = Unigram(jnp.zeros(3)) if model is None else model
        return hs.fit(model, data, method, key=key, validation=validation, checkpoint=tmp_path / "run")

    run()
    before = (tmp_path / "run").read_bytes()
    with pytest.raises(hs.FileError, match=f"is the checkpoint of another run: {match}. Give the same arguments"):
        run(**change)
    assert (tmp_path / "run").read_bytes() == before
    run(checkpoint_every=5.0)


def test_optimisers_and_schedules_are_told_apart_by_what_they_do(tmp_path):
    def run(**settings):
        method = hs.SGD(epochs=2, **settings)
        return hs.fit(Unigram(jnp.zeros(3)), DATA, method, key=KEY, checkpoint=tmp_path / "run")

    run(optimiser=optax.adamw(0.1))
    run(optimiser=optax.adamw(0.1))
    with pytest.raises(hs.FileError, match="optimiser differs"):
        run(optimiser=optax.adamw(0.2))
    (tmp_path / "run").unlink()
    run(learning_rate=optax.linear_schedule(0.1, 0.0, 1000))
    run(learning_rate=optax.linear_schedule(0.1, 0.0, 1000))
    with pytest.raises(hs.FileError, match="learning_rate differs"):
        run(learning_rate=optax.linear_schedule(0.1, 0.0, 2000))


def plain_run(path):
    return hs.fit(Unigram(jnp.zeros(3)), DATA, hs.SGD(epochs=2), key=KEY, checkpoint=path)


def test_a_damaged_checkpoint_says_to_delete_it(tmp_path):
    path = tmp_path / "run"
    plain_run(path)
    whole = path.read_bytes()
    for length in (0, 5, 100, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(hs.FileError, match="delete it to start the run again"):
            plain_run(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda a, h: a.pop("learned/00000"),
        lambda a, h: a.update({"learned/00000": np.zeros(4)}),
        lambda a, h: a.update({"optimiser/00000": np.zeros((), np.float32)}),
        lambda a, h: a.update({"history/loss": np.zeros(1)}),
        lambda a, h: a.pop("history/step"),
        lambda a, h: h.pop("standing"),
        lambda a, h: h["standing"].pop("done"),
        lambda a, h: h["standing"].update(step="two"),
        lambda a, h: h["standing"].update(window=[1, 2, 3]),
        lambda a, h: h["standing"].update(stopping={"best": "x"}),
        lambda a, h: h["standing"].update(verdict=3),
    ],
)
def test_a_checkpoint_that_makes_no_sense_says_to_delete_it(change, tmp_path):
    path = tmp_path / "run"
    plain_run(path)
    arrays, header = read_tensors(path)
    change(arrays, header)
    write_tensors(path, arrays, header)
    with pytest.raises(hs.FileError, match="delete it to start the run again"):
        plain_run(path)


def test_other_files_are_not_overwritten(tmp_path):
    path = tmp_path / "model"
    hs.save(Unigram(jnp.zeros(3)), path)
    with pytest.raises(hs.FileError, match="holds no checkpoint; give another path"):
        plain_run(path)
    plain_run(tmp_path / "run")
    with pytest.raises(hs.FileError, match="no model, but a training checkpoint"):
        hs.load(tmp_path / "run")
    arrays, header = read_tensors(tmp_path / "run")
    write_tensors(tmp_path / "run", arrays, {**header, "format": 2})
    with pytest.raises(hs.FileError, match="has format 2; this version reads 1"):
        plain_run(tmp_path / "run")


def test_a_path_that_cannot_be_written_is_known_before_the_first_update(tmp_path, monkeypatch):
    calls = interrupted_at(monkeypatch, 0, None)
    with pytest.raises(hs.FileError, match="cannot write"):
        plain_run(tmp_path / "none" / "run")
    assert calls == []
