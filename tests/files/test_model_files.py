"""Models go to disk and come back the same; nothing else comes in."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core.storage import read_tensors, write_tensors
from hiddenstate.files import FORMAT, header, load, save
from marks import quick

CELLS = [  # those made from sizes alone; a noisy cell, which is made of another, is saved among the laws
    c
    for c in (getattr(hs.cells, n) for n in hs.cells.__all__)
    if c not in (hs.cells.Cell, hs.cells.Noisy) and issubclass(c, hs.cells.Cell)
]
DATA = [[0, 1, 2, 1], [2, 2, 0, 1]]


def network(cell=None, **options):
    cell_key, head_key = jr.split(jr.key(3))
    made = (cell or hs.cells.Vanilla)(3, 4, key=cell_key)
    head = hs.heads.Categorical(made.output_size, 3, key=head_key)
    return hs.RNN(made, head, schema=hs.Sequences.of(DATA).schema, **options)


@hs.register("test-pair")
class Pair(NamedTuple):
    first: object
    second: object


@hs.register("test-bag")
class Bag(eqx.Module):
    learned: object
    fixed: object = eqx.field(static=True, default=None)


@pytest.mark.parametrize("initial", quick(["learned", "zero"]))
@pytest.mark.parametrize("cell", CELLS)
def test_loaded_models_predict_the_same_bit_for_bit(cell, initial, tmp_path):
    model = network(cell, initial=initial)
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert eqx.tree_equal(model, loaded, typematch=True)
    assert loaded.schema == model.schema
    before, after = (np.asarray(hs.step_log_probs(m, DATA)) for m in (model, loaded))
    np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -3,
        10**30,
        0.1,
        -0.0,
        float("inf"),
        5e-324,
        'text with "quotes", ü and \ud800',
        (1, (2.0, None)),
        [1, [2]],
        {"b": 1, "a/b": {"c": (1,)}, "a": {"b/c": 2}},
        Pair(1, (2, Pair("x", None))),
        hs.Schema((hs.Column("x", "symbol", 2, ("a", "b")), hs.Column("y", "real")), False, inputs=("u",)),
    ],
    ids=str,
)
def test_plain_values_keep_their_type_and_every_bit(value, tmp_path):
    save(Bag(jnp.zeros(2), value), tmp_path / "bag")
    loaded = load(tmp_path / "bag").fixed
    assert type(loaded) is type(value)
    assert repr(loaded) == repr(value)


def test_nan_and_numpy_scalars_are_kept_as_numbers(tmp_path):
    save(Bag((np.float32(0.1), np.int64(7), np.bool_(True), float("nan"))), tmp_path / "bag")
    small, count, flag, nan = load(tmp_path / "bag").learned
    assert (small, count, flag) == (float(np.float32(0.1)), 7, True)
    assert np.isnan(nan)


@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        "int8",
        "int32",
        "int64",
        "uint8",
        "uint32",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    ],
)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_arrays_keep_type_shape_and_bits(dtype, shape, tmp_path):
    array = jr.normal(jr.key(0), (*shape, 2)) * 3
    array = (array[..., 0] + 1j * array[..., 1] if dtype.startswith("complex") else array[..., 0]).astype(dtype)
    save(Bag({"x": array, "y": np.asarray(array)}), tmp_path / "bag")
    loaded = load(tmp_path / "bag").learned
    assert isinstance(loaded["x"], jax.Array)
    assert isinstance(loaded["y"], np.ndarray)
    for value in loaded.values():
        assert value.dtype == dtype
        assert value.shape == shape
        assert np.asarray(value).tobytes() == np.asarray(array).tobytes()


def test_infinite_complex_parts_stay_apart(tmp_path):
    array = jnp.asarray([complex(float("inf"), -0.0), complex(1.0, float("inf"))])
    save(Bag(array), tmp_path / "bag")
    assert np.asarray(load(tmp_path / "bag").learned).tobytes() == np.asarray(array).tobytes()


def test_random_keys_are_kept(tmp_path):
    save(Bag(jr.key(5)), tmp_path / "bag")
    loaded = load(tmp_path / "bag").learned
    assert float(jr.uniform(loaded)) == float(jr.uniform(jr.key(5)))


def test_frozen_arrays_and_nested_dict_names_do_not_collide(tmp_path):
    model = Bag({"a/b": hs.Frozen(jnp.ones(2)), "a": {"b": hs.Frozen(jnp.zeros(2))}, "a%2Fb": jnp.full(2, 3.0)})
    save(model, tmp_path / "bag")
    assert eqx.tree_equal(load(tmp_path / "bag"), model, typematch=True)


def test_the_same_model_gives_the_same_bytes(tmp_path):
    save(network(), tmp_path / "one")
    save(load(tmp_path / "one"), tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_files_from_before_a_field_was_there_are_read(tmp_path):
    """Networks were saved without dropout around the cell, and are those without any."""
    model = network()
    save(model, tmp_path / "new")
    arrays, told = read_tensors(tmp_path / "new")
    for name in ("drop_input", "drop_output"):
        del told["model"]["fields"][name]
    write_tensors(tmp_path / "old", arrays, told)
    assert eqx.tree_equal(load(tmp_path / "old"), model, typematch=True)


def test_header_tells_what_is_inside(tmp_path):
    save(network(), tmp_path / "model")
    told = header(tmp_path / "model")
    assert (told["format"], told["kind"], told["library"]) == (FORMAT, "model", hs.__version__)
    assert told["model"]["class"] == "rnn"


# -- what is refused -----------------------------------------------------------------------------------------


def refused(match, call, *args, error=hs.FileError, **options):
    with pytest.raises(error, match=match) as caught:
        call(*args, **options)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("value", [jnp.tanh, object(), {1: 2}, {1, 2}, 1j, b"bytes"], ids=lambda v: type(v).__name__)
def test_saving_what_a_file_cannot_hold_names_the_field(value, tmp_path):
    refused("'fixed'", save, Bag(None, value), tmp_path / "bag")
    refused("'learned.1.inside'", save, Bag((1, {"inside": value})), tmp_path / "bag")
    assert not list(tmp_path.iterdir())


def test_saving_an_unregistered_class_names_it(tmp_path):
    class Stranger(eqx.Module):
        x: int = 0

    refused("Stranger has no registered name", save, Bag(Stranger()), tmp_path / "bag")


def test_saving_no_model_or_half_precision_of_another_kind(tmp_path):
    refused("takes a model; got dict", save, {}, tmp_path / "x", error=hs.HiddenStateError)
    refused("bfloat16", save, Bag(jnp.zeros(2, jnp.bfloat16)), tmp_path / "x")


def rewritten(path, change):
    """The file with its header changed, and a digest that fits: damage that only its meaning gives away."""
    arrays, head = read_tensors(path)
    arrays, head = dict(arrays), json.loads(json.dumps(head))
    change(arrays, head)
    write_tensors(path, arrays, head)


@pytest.mark.parametrize(
    ("match", "change"),
    [
        ("newer version: format 2; this version reads 1", lambda a, h: h.update(format=2)),
        ("its format is '1'", lambda a, h: h.update(format="1")),
        ("its format is None", lambda a, h: h.pop("format")),
        ("no model, but a training checkpoint", lambda a, h: h.update(kind="checkpoint")),
        ("no model, but something unknown", lambda a, h: h.pop("kind")),
        ("no class is registered under that name", lambda a, h: h["model"].update({"class": "os.system"})),
        (
            "no class is registered under that name",
            lambda a, h: h["model"].update({"class": "builtins.eval"}),
        ),
        ("no description of an object", lambda a, h: h["model"].update({"class": ["rnn"]})),
        ("has the fields", lambda a, h: h["model"]["fields"].pop("cell")),
        ("has the fields", lambda a, h: h["model"]["fields"].update(__class__="x")),
        ("not a model", lambda a, h: h.update(model=3)),
        ("not a model", lambda a, h: h.pop("model")),
        ("not a model", lambda a, h: h.update(model=h["model"]["fields"]["schema"])),
        ("no tag", lambda a, h: h.update(model=[1])),
        ("one known tag", lambda a, h: h.update(model={"pickle": "x"})),
        ("refers to an array", lambda a, h: a.pop("cell/bias")),
        ("nothing refers to its arrays more", lambda a, h: a.update(more=np.zeros(2))),
        ("should be float64 of shape", lambda a, h: a.update({"cell/bias": np.zeros(5)})),
        ("should be float64 of shape", lambda a, h: a.update({"cell/bias": np.zeros(4, np.float32)})),
        (
            "used twice",
            lambda a, h: h["model"]["fields"].update(start=h["model"]["fields"]["cell"]["fields"]["bias"]),
        ),
        ("is no number", lambda a, h: h["model"]["fields"].update(inputs={"float": "one"})),
        ("is no tuple", lambda a, h: h["model"]["fields"].update(inputs={"tuple": 3})),
        ("is no dict", lambda a, h: h["model"]["fields"].update(inputs={"dict": [[1, 2]]})),
        ("nested more than", lambda a, h: h["model"]["fields"].update(inputs=deep(200))),
    ],
)
def test_files_that_make_no_sense_are_refused(match, change, tmp_path):
    path = tmp_path / "model"
    save(network(), path)
    rewritten(path, change)
    refused(match, load, path)


def test_fields_that_came_later_have_their_defaults(tmp_path):
    path = tmp_path / "model"
    model = network()
    save(model, path)
    rewritten(path, lambda a, h: h["model"]["fields"]["cell"]["fields"].pop("recurrent_bias"))
    assert eqx.tree_equal(load(path), model, typematch=True)
    rewritten(path, lambda a, h: h["model"]["fields"]["cell"]["fields"].pop("nonlinearity"))
    refused("'vanilla' has the fields .*, but the file gives", load, path)


def deep(levels):
    node = None
    for _ in range(levels):
        node = {"list": [node]}
    return node


def test_other_files_are_refused(tmp_path):
    stream = hs.Stream(network())
    stream.save(tmp_path / "stream")
    refused("the state of a Stream", load, tmp_path / "stream")
    refused("there is no file", load, tmp_path / "nothing")
    refused("is a folder", load, tmp_path)
    (tmp_path / "text").write_text("hello " * 100)
    refused("no readable safetensors", load, tmp_path / "text")
    (tmp_path / "empty").touch()
    refused("no readable safetensors", load, tmp_path / "empty")
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(2)}, tmp_path / "foreign")
    refused("not one of hiddenstate's", load, tmp_path / "foreign")


def test_loading_runs_no_code_of_the_class(tmp_path):
    calls = []

    @hs.register("test-noisy")
    class Noisy(eqx.Module):
        x: int

        def __init__(self, x):
            calls.append("init")
            self.x = x

        def __check_init__(self):
            calls.append("check")

    save(Bag(Noisy(3)), tmp_path / "bag")
    calls.clear()
    assert load(tmp_path / "bag").learned.x == 3
    assert calls == []


# -- precision -----------------------------------------------------------------------------------------------


def test_double_precision_is_never_narrowed_in_silence(tmp_path):
    path = tmp_path / "model"
    save(hs.cast(network(), jnp.float64), path)
    with jax.enable_x64(False):
        refused("'cell/recurrent_weight' is float64.*jax_enable_x64.*dtype='float32'", load, path)
        refused("dtype is float64, but JAX keeps 32 bits", load, path, dtype="float64", error=hs.HiddenStateError)
        narrow = load(path, dtype="float32")
    assert {str(a.dtype) for a in jax.tree.leaves(narrow)} == {"float32"}
    assert {str(a.dtype) for a in jax.tree.leaves(load(path))} == {"float64"}
    refused("dtype is 'int8'", load, path, dtype="int8", error=hs.HiddenStateError)
    refused("dtype is 'fast'", load, path, dtype="fast", error=hs.HiddenStateError)


def test_whole_numbers_that_do_not_fit_are_refused(tmp_path):
    path = tmp_path / "bag"
    save(Bag(jnp.asarray([1, 2**40])), path)
    with jax.enable_x64(False):
        refused("is int64", load, path, dtype="float32")
    save(Bag((jnp.asarray([1, 2]), jnp.asarray(1j))), path)
    with jax.enable_x64(False):
        whole, imaginary = load(path, dtype="float32").learned
    assert whole.tolist() == [1, 2]
    assert imaginary.dtype == "complex64"


# -- interruption --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("function", ["fsync", "replace", "chmod"])
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(function, failure, tmp_path, monkeypatch):
    path = tmp_path / "model"
    save(network(), path)
    before = path.read_bytes()

    def fail(*_):
        raise failure

    monkeypatch.setattr(os, function, fail)
    with pytest.raises(hs.FileError if isinstance(failure, OSError) else KeyboardInterrupt):
        save(network(initial="learned"), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import os, sys, time
import jax.numpy as jnp
import hiddenstate as hs

def stuck(handle):
    print("inside", flush=True)
    time.sleep(600)

os.fsync = stuck
hs.save(hs.Frozen(jnp.ones(3)), sys.argv[1])
"""


def test_a_process_killed_within_a_save_leaves_the_old_file_and_the_next_save_clears_up(tmp_path):
    path = tmp_path / "model"
    save(network(), path)
    before = path.read_bytes()
    writer = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout.readline().strip() == "inside"
    assert len(list(tmp_path.iterdir())) == 2
    save(network(), path)  # it is at work still: its file is its own
    assert len(list(tmp_path.iterdir())) == 2
    writer.kill()
    writer.wait()
    assert path.read_bytes() == before
    save(network(initial="learned"), path)
    assert list(tmp_path.iterdir()) == [path]
    assert eqx.tree_equal(load(path), network(initial="learned"), typematch=True)


def test_only_what_a_save_left_is_cleared_up(tmp_path):
    others = [".model.tmp", ".model.elsewhere-1.abc.tmp", ".models.x-1.abc.tmp", "model.tmp"]
    for name in others:
        (tmp_path / name).touch()
    save(network(), tmp_path / "model")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*others, "model"])


def test_long_names_can_be_saved(tmp_path):
    path = tmp_path / ("m" * 250)
    save(network(), path)
    assert list(tmp_path.iterdir()) == [path]


def test_saving_into_a_folder_that_is_not_there(tmp_path):
    refused("cannot write .*No such file or directory", save, network(), tmp_path / "none" / "model")


def test_no_pickle_anywhere():
    source = Path(hs.__file__).parent
    found = [
        f"{path.name}: {line.strip()}"
        for path in source.rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(
            r"^\s*(import|from)\s+(pickle|cloudpickle|dill|joblib|marshal|shelve)\b|allow_pickle\s*=\s*True",
            line,
        )
    ]
    assert found == []
