"""Answers to sequences: `Transducer` and `Summary` against plain NumPy loops, what they refuse, and their recipes."""

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from cells.examples import EXAMPLES
from hiddenstate.core import cast
from hiddenstate.networks.build import CELLS

KEY = jr.key(0)
SOURCES = [np.random.default_rng(i).normal(size=(n, 3)) for i, n in enumerate((5, 1, 3))]
LABELS = [np.random.default_rng(i).integers(0, 4, n) for i, n in enumerate((5, 1, 3))]


def double(model):
    return cast(model, jnp.float64)


def cell(name, inputs=3, seed=0):
    return {"gru": hs.cells.GRU, "lstm": hs.cells.LSTM, "mingru": hs.cells.MinGRU}[name](inputs, 4, key=jr.key(seed))


def shown(name, cell, xs):
    """What a cell shows after each step, by its equations in NumPy."""
    return np.stack(EXAMPLES[name].loop(cell, xs))


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def log_probs(head, vectors):
    """The log-probability of every symbol under a categorical head, (time, symbol)."""
    return log_softmax(vectors @ np.asarray(head.weight).T + np.asarray(head.bias))


@pytest.mark.parametrize("name", ["gru", "lstm", "mingru"])
def test_a_transducer_answers_every_step_from_what_was_read_so_far(name):
    model = double(hs.Transducer(cell(name), hs.heads.Categorical(4, 4, key=KEY)))
    pairs = hs.Pairs.of(SOURCES, LABELS)
    found, answers = hs.step_log_probs(model, pairs), hs.predictive(model, pairs)
    assert answers.batch_shape == (3, 5)
    for i, (xs, ys) in enumerate(zip(SOURCES, LABELS, strict=True)):
        every = log_probs(model.head, shown(name, model.body, xs))
        np.testing.assert_allclose(found[i, : len(ys)], every[np.arange(len(ys)), ys], rtol=1e-10)
        np.testing.assert_allclose(np.log(answers.probs[i, : len(ys)]), every, rtol=1e-8)
        assert not np.asarray(found[i, len(ys) :]).any()
    np.testing.assert_allclose(hs.log_prob(model, pairs), np.asarray(found).sum(1), rtol=1e-12)


@pytest.mark.parametrize("pooling", ["last", "mean", "attention"])
def test_a_summary_answers_from_both_ends_of_each_sequence(pooling):
    body = hs.Bidirectional(cell("gru"), cell("gru", seed=1))
    model = double(hs.Summary(body, hs.heads.Categorical(8, 4, key=KEY), pooling=pooling, key=KEY))
    pairs = hs.Pairs.of(SOURCES, [2, 0, 3])
    found, answers = hs.log_prob(model, pairs), hs.predictive(model, pairs)
    assert answers.batch_shape == (3,)
    for i, xs in enumerate(SOURCES):
        forward, backward = shown("gru", model.body.forward, xs), shown("gru", model.body.backward, xs[::-1])
        if pooling == "last":
            vector = np.concatenate([forward[-1], backward[-1]])
        else:
            steps = np.concatenate([forward, backward[::-1]], 1)
            scores = steps @ np.asarray(model.pooling.query) if pooling == "attention" else np.zeros(len(steps))
            vector = np.exp(log_softmax(scores)) @ steps
        every = log_probs(model.head, vector)
        np.testing.assert_allclose(found[i], every[(2, 0, 3)[i]], rtol=1e-10)
        np.testing.assert_allclose(np.log(answers.probs[i]), every, rtol=1e-8)


def test_entries_of_an_answer_that_are_missing_are_left_out():
    model = double(hs.Summary(cell("gru"), hs.heads.Gaussian(4, 2, key=KEY)))
    targets = np.array([[1.0, np.nan], [0.5, 2.0], [np.nan, np.nan]])
    found = hs.log_prob(model, hs.Pairs.of(SOURCES, hs.Sequences.padded(targets[:, None])))
    answers = hs.predictive(model, SOURCES)
    mean, deviation = np.asarray(answers.mean), np.sqrt(answers.variance)
    each = -0.5 * ((targets - mean) / deviation) ** 2 - np.log(deviation) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(found, np.nansum(each, 1), rtol=1e-10)


def test_numbers_alone_are_read_as_they_are():
    model = hs.Transducer(cell("gru", 1), hs.heads.Gaussian(4, None, key=KEY))
    flat, column = hs.Pairs.of([0.5, 1.0], [0.1, 0.2]), hs.Pairs.of(np.array([[0.5], [1.0]]), [0.1, 0.2])
    np.testing.assert_array_equal(hs.log_prob(model, flat), hs.log_prob(model, column))
    np.testing.assert_array_equal(hs.predictive(model, flat).mean, hs.predictive(model, [0.5, 1.0]).mean)


def test_a_reader_has_no_weights_to_learn():
    head = hs.heads.Categorical(4, 4, key=KEY)
    one_hot = hs.Transducer(cell("gru"), head, reader=hs.heads.Categorical(9, 3, key=KEY))
    assert hs.parameter_count(one_hot) == hs.parameter_count(one_hot.body) + hs.parameter_count(head)


def test_parts_that_do_not_fit_are_named():
    gru, head = cell("gru"), hs.heads.Categorical(4, 2, key=KEY)
    for make, said in (
        (lambda: hs.Transducer("gru", head), "the body is a str; it must be a cell"),
        (lambda: hs.Transducer(gru, "categorical"), "the head is a str"),
        (lambda: hs.Transducer(gru, hs.heads.Categorical(3, 2, key=KEY)), "hidden_size 3, but the body shows 4"),
        (lambda: hs.Transducer(gru, head, reader="one-hot"), "the reader is a str; it must be a head"),
        (lambda: hs.Transducer(gru, head, reader=hs.Embedding(5, 2, key=KEY)), "input_size 3, but .* give 2"),
        (lambda: hs.Transducer(gru, head, inputs=3), "3 are inputs: nothing is left"),
        (lambda: hs.Transducer(gru, head, inputs=-1), "inputs is -1"),
        (lambda: hs.Summary(gru, head, pooling="max"), "pooling is 'max'; it must be 'last', 'mean' or 'attention'"),
        (lambda: hs.Summary(gru, head, pooling="attention"), "'attention', whose learned query needs a key"),
    ):
        with pytest.raises(hs.HiddenStateError, match=said):
            make()


# -- data that do not fit --------------------------------------------------------------------------------------


LABELLED = hs.Pairs.of([[0, 1, 2, 1], [2, 0]], [1, 0])
TAGGED = hs.Pairs.of([[0, 1, 2, 1], [2, 0]], [[1, 0, 0, 1], [1, 1]])


@pytest.fixture(scope="module")
def classifier():
    return hs.build("gru", LABELLED, hidden=3, key=KEY)


@pytest.fixture(scope="module")
def tagger():
    return hs.build("gru", TAGGED, hidden=3, key=KEY)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (LABELLED.sources, r"its data are pairs, but these are sequences; give hs.Pairs.of\(sources, targets\)"),
        ([[0, 1]], r"these are a list; give hs.Pairs.of"),
        (TAGGED, "target 0 has 4 steps, but Summary of GRU gives one answer.*hs.Transducer"),
        (hs.Pairs.of([[0, 3]], [1]), "source 0 holds 3 at step 2; sources must be whole numbers from 0 to 2"),
        (hs.Pairs.of([[0.5, 1.0]], [1]), "sources are float64, but symbols are due"),
        (hs.Pairs.of([[[0.5, 1.0]]], [1]), r"each step of a source has shape \(2,\), but .* reads steps of shape \(\)"),
        (hs.Pairs.of([[0, 1]], [2]), "target 0 holds 2 at step 1; targets must be whole numbers from 0 to 1"),
        (hs.Pairs.of([[0, 1]], [0.5]), "targets are float64, but symbols are due"),
        (hs.Pairs.of([[0, 1]], [[[1, 0]]]), r"each step of a target has shape \(2,\), but .* answers with"),
        (hs.Pairs.of([[0, 1]], [1], missing=[True]), "all targets of the pairs are missing"),
    ],
)
def test_pairs_that_a_model_cannot_answer_are_refused(classifier, pairs, said):
    with pytest.raises(hs.DataError, match=said):
        hs.log_prob(classifier, pairs)


def test_other_data_that_do_not_fit_are_refused(classifier, tagger):
    with pytest.raises(hs.DataError, match=r"target 0 has 1 step and its source 4, but Transducer .* hs.Summary"):
        hs.log_prob(tagger, LABELLED)
    gaps = hs.Sequences.of([[0, 1], [1, 1]], missing=[[False, True], [False, False]])
    for data in (hs.Pairs.of(gaps, [0, 1]), gaps):
        with pytest.raises(
            hs.MissingDataError, match="source 0 has a missing value at step 2, and Summary of GRU reads"
        ):
            hs.predictive(classifier, data)
    later = hs.Pairs(TAGGED.sources, TAGGED.targets.after(1))
    with pytest.raises(hs.DataError, match="the targets have a context"):
        hs.log_prob(tagger, later)
    driven = hs.build("gru", hs.Pairs.of([[0, 1, 1]], [1], inputs=[np.ones((3, 2))]), hidden=3, key=KEY)
    with pytest.raises(hs.DataError, match="takes 2 inputs at every step, but the data have none"):
        hs.predictive(driven, [[0, 1]])
    with pytest.raises(
        hs.DataError, match=r"RNN of GRU predicts one sequence .* the data are Pairs; give it pairs.sources"
    ):
        hs.log_prob(hs.build("gru", LABELLED.sources, hidden=3, key=KEY), LABELLED)


def test_what_only_models_of_sequences_can_do_is_refused(classifier):
    for action in (
        lambda: hs.sample(classifier, 3, key=KEY),
        lambda: hs.forecast(classifier, LABELLED.sources, 3, key=KEY),
        lambda: hs.states(classifier, LABELLED),
    ):
        with pytest.raises(
            hs.HiddenStateError, match=r"Summary of GRU answers what it reads.*hs.log_prob and hs.predictive"
        ):
            action()
    with pytest.raises(hs.HiddenStateError, match="cannot smooth hidden states"):
        hs.smooth(classifier, LABELLED)


def test_streams_take_what_the_model_reads(tagger):
    stream = hs.Stream(tagger)
    with pytest.raises(hs.DataError, match="nothing was pushed yet"):
        stream.predictive()
    for x, said in ((3, "the observation is 3; it must be whole numbers from 0 to 2"), ([0, 1], r"has shape \(2,\)")):
        with pytest.raises(hs.DataError, match=said):
            stream.push(x)
    with pytest.raises(hs.MissingDataError, match="the observation is missing"):
        stream.push(None)
    assert stream.steps == 0
    assert stream.push(1).probs.shape == (2,)
    both = hs.build("gru", TAGGED, hidden=3, bidirectional=True, key=KEY)
    with pytest.raises(hs.HiddenStateError, match="a bidirectional network even begins there"):
        hs.Stream(both)


# -- recipes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CELLS)
def test_every_cell_answers_by_its_name(name):
    tagger = hs.build(name, TAGGED, hidden=3, key=KEY)
    assert isinstance(tagger, hs.Transducer) and type(tagger.body) is CELLS[name]
    deep = hs.build(name, LABELLED, hidden=3, layers=2, bidirectional=True, norm=True, dropout=0.2, key=KEY)
    assert isinstance(deep, hs.Summary) and isinstance(deep.body, hs.Stack)
    assert [type(layer.backward) for layer in deep.body.cells] == [CELLS[name]] * 2
    assert deep.body.drop.rate == 0.2 and len(deep.body.norms) == 1
    assert deep.schema == LABELLED.sources.schema and deep.target_schema == LABELLED.targets.schema
    assert np.isfinite(hs.log_prob(deep, LABELLED)).all()


def test_layers_make_stacks_for_sequences_too():
    model = hs.build("lstm", LABELLED.sources, hidden=3, layers=3, residual=True, softmax=True, key=KEY)
    assert isinstance(model, hs.RNN) and len(model.cell.cells) == 3 and model.cell.residual and model.cell.softmax
    weights = [np.asarray(layer.recurrent_weight) for layer in model.cell.cells]
    assert not np.allclose(weights[0], weights[1]) and not np.allclose(weights[1], weights[2])
    assert np.isfinite(hs.log_prob(model, LABELLED.sources)).all()


def test_inputs_and_embeddings_widen_what_is_read():
    pairs = hs.Pairs.of([[0, 1, 1], [2]], [0.5, 1.5], inputs=[np.ones((3, 2)), np.ones((1, 2))])
    model = hs.build("gru", pairs, hidden=3, embedding=4, pooling="attention", key=KEY)
    assert model.body.input_size == 6 and model.inputs == 2
    assert isinstance(model.head, hs.heads.Gaussian) and float(model.head.location.value) == 1.0
    assert np.isfinite(hs.log_prob(model, pairs)).all()


def test_targets_decide_what_answers():
    short = hs.Pairs.of([[0], [1]], [1, 0])
    assert isinstance(hs.build("gru", short, hidden=2, key=KEY), hs.Transducer)
    assert isinstance(hs.build("gru", short, hidden=2, pooling="mean", key=KEY), hs.Summary)
    said = replace(short.targets, schema=replace(short.targets.schema, outputs="sequence"))
    assert isinstance(hs.build("gru", hs.Pairs(short.sources, said), hidden=2, key=KEY), hs.Summary)


def test_the_majority_answers_alike_whatever_it_reads():
    for pairs, kind in ((LABELLED, hs.Summary), (TAGGED, hs.Transducer)):
        model = hs.build("majority", pairs, key=KEY)
        assert isinstance(model, kind)
        model = eqx.tree_at(lambda m: m.head.bias, model, jnp.log(jnp.array([0.2, 0.8])))
        probs = np.asarray(hs.predictive(model, [[0, 1], [2, 2]]).probs)
        np.testing.assert_allclose(probs, np.broadcast_to([0.2, 0.8], probs.shape), rtol=1e-6)


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        (LABELLED.sources, {"bidirectional": True}, "a bidirectional network cannot be an autoregressive model"),
        (LABELLED.sources, {"pooling": "mean"}, "only answers to pairs pool"),
        (TAGGED, {"pooling": "mean"}, "pooling is 'mean', but the targets answer every step"),
        (TAGGED, {"initial": "learned"}, "a network that answers begins at zero"),
        (TAGGED, {"dropout": 0.5}, "dropout is 0.5, but it acts between layers, and there is only one"),
        (TAGGED, {"layers": 0}, "layers is 0; it must be a whole number of at least 1"),
        (TAGGED, {"depth": 2}, "'gru' has no option 'depth'; it takes .*layers.*bidirectional.*pooling"),
        (hs.Pairs.of([[0, 1], [1]], [[1, 1, 0], [1]]), {}, "neither one step each nor as many as their sources"),
        (hs.Pairs.of([[0.5, 1.0]], [1]), {"embedding": 2}, "only symbols can be embedded"),
    ],
)
def test_options_that_do_not_go_with_the_data_are_refused(data, options, said):
    with pytest.raises(hs.HiddenStateError, match=said):
        hs.build("gru", data, hidden=3, key=KEY, **options)


def test_names_are_for_sequences_or_for_pairs():
    with pytest.raises(
        hs.DataError, match=r"'hmm' is a model of sequences, but the data are Pairs.*build one of .*gru"
    ):
        hs.build("hmm", LABELLED, key=KEY)
    with pytest.raises(hs.DataError, match=r"'majority' is a model that answers.*give hs.Pairs.of"):
        hs.build("majority", LABELLED.sources, key=KEY)
    assert "majority" in hs.recipe_names("pairs") and "majority" not in hs.recipe_names("sequences")
