"""Descriptions: what is written builds what is meant, what is built is described again, what is wrong is named."""

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
import pytest
import yaml

import hiddenstate as hs
from hiddenstate.learn.described import training_of

KEY = jr.key(0)
WORDS = hs.Sequences.of([[0, 1, 2, 1, 0], [2, 2, 1]])
NUMBERS = hs.Sequences.of([np.linspace(-1, 2, 7), np.linspace(0, 1, 5)])
TAGGED = hs.Pairs.of([[0, 1, 2, 1], [2, 2, 1]], [[0, 1, 1, 1], [1, 0, 1]])
TRANSLATED = hs.Pairs.of([[0, 1, 2, 1], [2, 2, 1]], [[0, 1], [1, 0, 1]])
LABELLED = hs.Pairs.of([[0, 1, 2, 1], [2, 2, 1]], [[0], [1]])


def build(description, data=WORDS, **options):
    return hs.build(description, data, key=KEY, **options)


def same(one, other):
    return bool(eqx.tree_equal(one, other, typematch=True))


def form(model):
    """Classes, static fields and shapes: everything but the numbers."""
    return jax.tree.structure(model), [(a.shape, a.dtype) for a in jax.tree.leaves(model)]


# -- what is written builds what is meant --------------------------------------------------------------------

YAML = """
model: rnn
layers:
  - {cell: gru, hidden: 4, reset: before}
  - {cell: mingru, hidden: 4, log_space: true}
  - lstm
hidden: 5
dropout: 0.1
norm: true
head: {family: student-t, dispersion: state}
initial: learned
training: {learning_rate: 1e-3, epochs: 50}
"""
TOML = """
model = "rnn"
hidden = 5
dropout = 0.1
norm = true
initial = "learned"

[head]
family = "student-t"
dispersion = "state"

[[layers]]
cell = "gru"
hidden = 4
reset = "before"

[[layers]]
cell = "mingru"
hidden = 4
log_space = true

[[layers]]
cell = "lstm"

[training]
learning_rate = 1e-3
epochs = 50
"""


def test_layers_of_different_cells_with_their_options():
    model = build(yaml.safe_load(YAML), NUMBERS)
    gru, mingru, lstm = model.cell.cells
    assert (type(gru), gru.input_size, gru.hidden_size, gru.reset) == (hs.cells.GRU, 1, 4, "before")
    assert (type(mingru), mingru.input_size, mingru.hidden_size, mingru.log_space) == (hs.cells.MinGRU, 4, 4, True)
    assert (type(lstm), lstm.input_size, lstm.hidden_size) == (hs.cells.LSTM, 4, 5)
    assert model.cell.drop.rate == 0.1 and len(model.cell.norms) == 2 and not model.cell.residual
    assert isinstance(model.head, hs.heads.StudentT) and model.head.dispersion == "state"
    assert model.start is not None and model.schema == NUMBERS.schema
    assert np.isfinite(hs.log_prob(model, NUMBERS)).all()


@pytest.mark.parametrize(("suffix", "text"), [(".yaml", YAML), (".yml", YAML), (".toml", TOML)])
def test_files_say_the_same_as_a_dict(suffix, text, tmp_path):
    path = tmp_path / f"model{suffix}"
    path.write_text(text)
    expected = build(yaml.safe_load(YAML), NUMBERS)
    assert same(build(path, NUMBERS), expected)
    assert same(build(str(path), NUMBERS), expected)
    assert training_of(path) == {"learning_rate": 0.001, "epochs": 50}


@pytest.mark.parametrize(
    ("description", "recipe", "options", "data"),
    [
        ({"cell": "gru"}, "gru", {}, WORDS),
        ({"model": "lstm", "hidden": 3, "peepholes": True}, "lstm", {"hidden": 3, "peepholes": True}, WORDS),
        (
            {"layers": ["gru", {"cell": "gru"}], "hidden": 3, "residual": True},
            "gru",
            {"hidden": 3, "layers": 2, "residual": True},
            WORDS,
        ),
        ({"model": "mingru", "layers": [{"hidden": 3}]}, "mingru", {"hidden": 3}, WORDS),
        ({"cell": "leaky", "hidden": 3}, "leaky", {"hidden": 3}, NUMBERS),
        ({"cell": "vanilla", "hidden": 3, "embedding": 2}, "vanilla", {"hidden": 3, "embedding": 2}, WORDS),
        (
            {"model": "transducer", "cell": "gru", "hidden": 3, "layers": 2, "bidirectional": True},
            "gru",
            {"hidden": 3, "layers": 2, "bidirectional": True},
            TAGGED,
        ),
        ({"cell": "lstm", "hidden": 3, "pooling": "mean"}, "lstm", {"hidden": 3, "pooling": "mean"}, LABELLED),
        ({"model": "hmm", "states": 3}, "hmm", {"states": 3}, WORDS),
        (
            {"model": "encoder-decoder", "cell": "lstm", "hidden": 3, "context": "state"},
            "encoder-decoder",
            {"cell": "lstm", "hidden": 3, "context": "state"},
            TRANSLATED,
        ),
        (
            {"encoder": {"bidirectional": True}, "decoder": {"layers": ["gru"]}, "cell": "gru", "embedding": 2},
            "encoder-decoder",
            {"bidirectional": True, "embedding": 2},
            TRANSLATED,
        ),
        (
            {"model": "gru", "hidden": 3, "head": {"family": "mixture-gaussian", "components": 2}},
            "gru",
            {"hidden": 3, "head": "mixture-gaussian", "components": 2},
            NUMBERS,
        ),
    ],
)
def test_what_a_recipe_makes_too_is_the_same_model(description, recipe, options, data):
    assert same(build(description, data), build(recipe, data, **options))


def test_the_shape_follows_from_the_data():
    described = {"cell": "gru", "hidden": 3}
    shapes = ((WORDS, hs.RNN), (TAGGED, hs.Transducer), (LABELLED, hs.Summary), (TRANSLATED, hs.EncoderDecoder))
    for data, shape in shapes:
        assert type(build(described, data)) is shape


def test_options_take_the_place_of_what_is_written():
    assert build({"cell": "gru", "hidden": 3}, hidden=5).cell.hidden_size == 5
    assert build({"model": "hmm", "states": 3}, states=2).states == 2


def test_layers_in_both_directions_only_where_said():
    model = build({"layers": [{"cell": "gru", "bidirectional": True}, "gru"], "hidden": 3}, TAGGED)
    below, above = model.body.cells
    assert isinstance(below, hs.Bidirectional) and isinstance(above, hs.cells.GRU)
    assert (below.output_size, above.input_size) == (6, 6)


def test_ranges_and_lists_of_time_constants():
    ranged = build({"layers": [{"cell": "leaky", "hidden": 3, "time_constants": [1, 100]}]}, NUMBERS)
    np.testing.assert_allclose(ranged.cell.time_constants, [1, 10, 100], rtol=1e-6)
    listed = build({"layers": [{"cell": "leaky", "hidden": 3, "time_constants": [1, 2, 7]}]}, NUMBERS)
    np.testing.assert_allclose(listed.cell.time_constants, [1, 2, 7], rtol=1e-6)


# -- what is built is described again ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("description", "data"),
    [
        (yaml.safe_load(YAML), NUMBERS),
        ({"cell": "vanilla", "hidden": 3, "initial": "zero", "embedding": 2}, WORDS),
        ({"layers": [{"cell": "vanilla", "hidden": 3, "nonlinearity": "relu", "biases": 2}]}, WORDS),
        ({"layers": [{"cell": "lstm", "hidden": 3, "peepholes": True, "biases": 0}]}, WORDS),
        (
            {"layers": [{"cell": "skip", "hidden": 3, "lags": [1, 3]}, {"cell": "gated-leaky", "context": "state"}]},
            WORDS,
        ),
        ({"layers": [{"cell": "leaky", "hidden": 3}, {"cell": "leaky", "learn_time_constants": True}]}, NUMBERS),
        ({"layers": [{"cell": "linear", "hidden": 3, "complex": True}, "minlstm"], "softmax": True}, WORDS),
        ({"layers": ["mingru", "gru"], "hidden": 3, "residual": True, "feedforward": 2}, WORDS),
        ({"cell": "mingru", "hidden": 3, "feedforward": 1}, NUMBERS),
        ({"layers": [{"cell": "turning", "hidden": 3}, {"cell": "turning", "between": "stochastic"}]}, WORDS),
        ({"cell": "output-feedback", "head": {"family": "mixture-gaussian", "components": 2}}, NUMBERS),
        ({"cell": "gru", "layers": 2, "bidirectional": True, "residual": True}, TAGGED),
        ({"cell": "gru", "hidden": 3, "pooling": "attention", "embedding": 2}, LABELLED),
        (
            {
                "encoder": {"layers": ["gru", {"cell": "mingru", "hidden": 4}], "norm": True},
                "decoder": {"layers": [{"cell": "lstm", "peepholes": True}]},
                "hidden": 3,
                "context": "input",
                "embedding": 2,
            },
            TRANSLATED,
        ),
    ],
)
def test_a_description_of_a_model_builds_its_form_again(description, data):
    model = build(description, data)
    told = hs.describe(model)
    again = build(yaml.safe_load(yaml.safe_dump(told)), data)
    assert form(again) == form(model)
    assert hs.describe(again) == told


def test_a_description_says_what_is_not_as_by_default():
    model = build({"layers": [{"cell": "gru", "hidden": 4, "reset": "before"}, "gru"], "hidden": 3, "dropout": 0.5})
    assert hs.describe(model) == {
        "model": "rnn",
        "layers": [{"cell": "gru", "hidden": 4, "reset": "before"}, {"cell": "gru", "hidden": 3}],
        "dropout": 0.5,
        "head": "categorical",
        "initial": "learned",
    }


def test_mixed_columns_are_described():
    schema = hs.Schema((hs.Column("x", "real"), hs.Column("y", "symbol", 2)), False)
    data = hs.Sequences.of([np.array([[0.5, 1], [1.5, 0], [2.5, 1]])], schema=schema)
    model = build({"cell": "gru", "hidden": 3, "head": {"family": "columns", "dispersion": "state"}}, data)
    assert hs.describe(model)["head"] == {"family": "columns", "dispersion": "state"}
    assert form(build(hs.describe(model), data)) == form(model)


def test_what_no_description_builds_is_refused():
    gru, lstm = hs.cells.GRU(3, 4, key=KEY), hs.cells.LSTM(3, 4, key=KEY)
    head = hs.heads.Categorical(8, 3, key=KEY)
    for match, model in (
        ("RNN of NoMemory|NoMemory cannot be described", build("unigram")),
        ("HMM cannot be described: descriptions are of", build("hmm")),
        ("its two directions differ", hs.Transducer(hs.Bidirectional(gru, lstm), head, reader=build("gru").head)),
        ("it has no reader", hs.Transducer(hs.Bidirectional(gru, gru), head)),
    ):
        refused(match, hs.describe, model)


# -- what is wrong is named ----------------------------------------------------------------------------------


def refused(match, call, *args, error=hs.HiddenStateError, **options):
    with pytest.raises(error, match=match) as caught:
        call(*args, **options)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("match", "description"),
    [
        ("the description has the key 'hiden', which is unknown there; known are model, cell", {"hiden": 3}),
        (
            "layer 2 of the description has the key 'rest'.* reset",
            {"layers": ["gru", {"cell": "gru", "rest": "after"}]},
        ),
        ("layer 1 of the description has the key 'log_space'", {"layers": [{"cell": "gru", "log_space": True}]}),
        ("layer 1 of the description has no cell; it must be one of vanilla", {"layers": 2}),
        ("cell of layer 2 of the description is 'grru'; it must be one of", {"layers": ["gru", "grru"]}),
        ("cell of layer 1 of the description is 'dropout'", {"cell": "dropout"}),
        ("cell of layer 1 of the description is 3; it must be a word", {"layers": [{"cell": 3}]}),
        ("layer 1 of the description is 3; it must be a word or keys and values", {"layers": [3]}),
        ("layers of the description is 0; there must be at least one", {"cell": "gru", "layers": 0}),
        (r"layers of the description is \[\]; there must be", {"cell": "gru", "layers": []}),
        ("layers of the description is 'two'; it must be a whole number or a list", {"cell": "gru", "layers": "two"}),
        ("hidden of the description is '3x'; it must be a whole number", {"cell": "gru", "hidden": "3x"}),
        ("hidden of layer 1 of the description is True", {"layers": [{"cell": "gru", "hidden": True}]}),
        ("hidden_size is 0", {"cell": "gru", "hidden": 0}),
        ("norm of the description is 1; it must be true or false", {"cell": "gru", "norm": 1}),
        ("dropout of the description is 'much'; it must be a number", {"cell": "gru", "dropout": "much"}),
        ("initial of the description is 'one'; it must be one of zero, learned", {"cell": "gru", "initial": "one"}),
        ("head of the description has the key 'famly'.* family, components", {"cell": "gru", "head": {"famly": "x"}}),
        ("head is 'cauchy'; it must be one of", {"cell": "gru", "head": "cauchy"}),
        ("lags of layer 1 .* must be a list of whole numbers", {"layers": [{"cell": "skip", "lags": [1, "x"]}]}),
        ("time_constants of layer 1 .* is 'fast'", {"layers": [{"cell": "leaky", "time_constants": "fast"}]}),
        ("model of the description is 'grru'; it must be one of rnn, transducer, summary", {"model": "grru"}),
        ("model of the description is 3; it must be a word", {"model": 3}),
        ("layer 1 of decoder of the description has no cell", {"model": "encoder-decoder", "encoder": {"cell": "gru"}}),
        ("encoder of the description has the key 'head'", {"model": "encoder-decoder", "encoder": {"head": "x"}}),
        ("encoder of the description is 'gru'; it must be keys", {"model": "encoder-decoder", "encoder": "gru"}),
        ("the description has the key 'state', .* states", {"model": "linear-gaussian", "state": 3}),
        ("states of the description is 'x'; it must be a whole number", {"model": "hmm", "states": "x"}),
        ("the description has the key 'log_space'", {"model": "gru", "log_space": True}),
        ("training of the description is 3; it must be keys and values", {"cell": "gru", "training": 3}),
        ("the description holds {1: 2}", {1: 2}),
    ],
)
def test_wrong_keys_and_values_are_named_with_their_place(match, description):
    refused(match, build, description, TRANSLATED if "encoder" in description else WORDS)


def test_shapes_that_do_not_go_with_the_data_are_refused():
    refused("transducer.*hs.Pairs", build, {"model": "transducer", "cell": "gru"}, WORDS)
    refused("rnn.*pairs.sources", build, {"model": "rnn", "cell": "gru"}, TAGGED)
    refused("summary.*one target", build, {"model": "summary", "cell": "gru"}, TAGGED)
    refused("transducer.*every step", build, {"model": "transducer", "cell": "gru"}, LABELLED)
    refused("encoder-decoder.*hs.Pairs", build, {"model": "encoder-decoder", "encoder": {"cell": "gru"}}, WORDS)
    refused("pooling", build, {"cell": "gru", "pooling": "mean"}, TAGGED)
    refused("bidirectional", build, {"cell": "gru", "bidirectional": True}, WORDS)
    refused("initial", build, {"cell": "gru", "initial": "learned"}, TAGGED)


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("none.yaml", None, "cannot read .*none.yaml: No such file"),
        ("bad.yaml", "layers: [gru", "bad.yaml cannot be read as yaml"),
        ("bad.toml", "layers = [", "bad.toml cannot be read as toml"),
        ("twice.yaml", "cell: gru\nhidden: 3\nhidden: 4\n", "the key 'hidden' stands twice"),
        ("code.yaml", "cell: !!python/object/apply:os.getcwd []\n", "cannot be read as yaml"),
        ("bytes.yaml", b"\xff\xfe\x00", "it is no UTF-8 text"),
    ],
)
def test_files_that_cannot_be_read_are_refused(name, text, match, tmp_path):
    if text is not None:
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(match, build, tmp_path / name, error=hs.FileError)


def test_the_file_is_named_in_messages(tmp_path):
    path = tmp_path / "model.yaml"
    path.write_text("cell: gru\nhiden: 3\n")
    refused("model.yaml has the key 'hiden'", build, path)
    path.write_text("- gru\n- lstm\n")
    refused(r"model.yaml holds \['gru', 'lstm'\]; it must be made of keys", build, path)
    refused("its name must end in .yaml, .yml, .toml", build, tmp_path / "model.json", error=hs.FileError)


def test_training_is_checked():
    assert training_of({"cell": "gru"}) == {}
    assert training_of({"model": "hmm", "training": {"restarts": 3}}) == {"method": "em", "restarts": 3}
    assert training_of({"training": {"method": "em", "restarts": 3}}) == {"method": "em", "restarts": 3}
    refused("training of the description has the key 'epocs'.* epochs", training_of, {"training": {"epocs": 3}})
    refused("epochs of training .* is 'x'; it must be a whole number", training_of, {"training": {"epochs": "x"}})
    refused("method of training .* is 'adam'", training_of, {"training": {"method": "adam"}})
    refused("has the key 'restarts'", training_of, {"training": {"restarts": 3}})
