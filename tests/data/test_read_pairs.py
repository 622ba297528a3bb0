"""Files with answers, and inputs that are words."""

import jax.random as jr
import numpy as np
import polars as pl
import pytest

import hiddenstate as hs
from hiddenstate.cli.future import read_future

LONG = "who,day,heat,pulse,ill\nA,2,37.5,80,no\nA,1,36.5,70,no\nB,1,39.0,110,yes\nB,2,39.5,112,yes\nB,3,39.1,105,yes\n"
STEPS = "who,day,move,phase\nA,1,0.5,rest\nA,2,1.5,walk\nB,1,0.1,rest\n"
REVIEWS = "text,label\nnot good at all,negative\ngood,positive\nvery good,positive\n"


@pytest.fixture
def write(tmp_path):
    def write(content, name="t.csv"):
        path = tmp_path / name
        path.write_text(content)
        return path

    return write


def test_an_answer_for_each_sequence(write):
    pairs = hs.read(write(LONG), sequence="who", time="day", target="ill")
    assert isinstance(pairs, hs.Pairs) and pairs.single and not pairs.aligned
    assert pairs.sources[0].tolist() == [[36.5, 70.0], [37.5, 80.0]]
    assert pairs.targets.values.tolist() == [[0], [1]] and pairs.names == pairs.targets.names == ("A", "B")
    assert pairs.targets.schema == hs.Schema(
        (hs.Column("ill", "symbol", 2, ("no", "yes")),), scalar=True, outputs="sequence"
    )
    assert [c.name for c in pairs.sources.schema.columns] == ["heat", "pulse"]


def test_an_answer_may_stand_once_or_nowhere(write):
    once = "who,x,y\nA,1.5,\nA,2.5,up\nB,0.5,down\nB,1.5,\nC,3.5,\nC,2.5,\n"
    pairs = hs.read(write(once), sequence="who", target="y")
    assert pairs.targets.values[:2].tolist() == [[1], [0]]
    assert pairs.scored.tolist() == [[True], [True], [False]] and pairs.scored_steps == 2


def test_an_answer_for_each_step(write):
    pairs = hs.read(write(STEPS), sequence="who", time="day", target="phase")
    assert pairs.aligned and [t.tolist() for t in pairs.targets] == [[0, 1], [0]]
    assert pairs.targets.schema.outputs == "step"
    alone = hs.read(write("x,y\n1.5,2\n2.5,2\n"), target="y", kinds={"y": "count"})
    assert alone.aligned and alone.targets.schema.columns == (hs.Column("y", "count"),)
    told = hs.read(write(LONG), sequence="who", target="ill", outputs="step")
    assert told.aligned and [t.tolist() for t in told.targets] == [[0, 0], [1, 1, 1]]


def test_answers_of_several_columns(write):
    table = "who,x,high,low\nA,1.5,2.5,0.5\nA,2.5,2.5,\nB,0.5,1.5,0.1\n"
    pairs = hs.read(write(table), sequence="who", target=["high", "low"])
    np.testing.assert_array_equal(pairs.targets.values, [[[2.5, 0.5]], [[1.5, 0.1]]])
    assert pairs.sources.event_shape == ()


def test_every_row_a_sequence(write):
    wide = hs.read(write("who,a,b,c,y\nA,1,2,3,9.5\nB,4,,6,8.5\nC,7,8,,\n"), wide=True, sequence="who", target="y")
    assert wide.sources.lengths.tolist() == [3, 3, 2] and wide.sources.has_missing
    assert wide.targets.values[:2].tolist() == [[9.5], [8.5]] and wide.scored.ravel().tolist() == [True, True, False]
    lists = hs.read(write('{"x": [1, 2, 0], "y": "b"}\n{"x": [1], "y": "a"}\n', "t.ndjson"), target="y")
    assert lists.single and lists.targets.values.tolist() == [[1], [0]]
    steps = hs.read(write('{"x": [1, 2], "y": [0, 1]}\n{"x": [1], "y": [1]}\n', "t.ndjson"), target="y", outputs="step")
    assert [t.tolist() for t in steps.targets] == [[0, 1], [1]]


def test_texts_with_labels(write):
    pairs = hs.read(write(REVIEWS), target="label", text="tokens")
    words = pairs.sources.schema.columns[0].symbols
    assert words == ("all", "at", "good", "not", "very") and pairs.sources.schema.columns[0].name == "text"
    assert [words[code] for code in pairs.sources[0]] == ["not", "good", "at", "all"]
    assert pairs.targets.values.ravel().tolist() == [0, 1, 1]
    assert hs.read(write(REVIEWS), target="label", text="characters").sources.lengths.tolist() == [15, 4, 9]
    plain = hs.read(write(REVIEWS), columns="text", text="tokens")
    assert isinstance(plain, hs.Sequences) and plain.lengths.tolist() == [4, 1, 2]


def test_a_new_file_is_read_the_same_way(write):
    old = hs.read(write(LONG), sequence="who", time="day", target="ill")
    schemas = {"schema": old.sources.schema, "target_schema": old.targets.schema}
    new = hs.read(write("day,pulse,who,heat,ill\n1,70,C,36.5,yes\n"), **schemas)
    assert new.targets.values.tolist() == [[1]] and new.sources[0].tolist() == [[36.5, 70.0]]
    assert new.targets.schema == old.targets.schema
    unlabelled = hs.read(write("day,pulse,who,heat\n1,70,C,36.5\n2,71,C,36.6\n"), **schemas)
    assert unlabelled.single and unlabelled.scored_steps == 0
    texts = hs.read(write(REVIEWS), target="label", text="tokens")
    schemas = {"schema": texts.sources.schema, "target_schema": texts.targets.schema}
    new = hs.read(write("text\nnot really good\n"), **schemas, unknown="skip")
    assert new.sources[0].tolist() == [3, 2] and new.scored_steps == 0
    again = hs.read(write(REVIEWS), schema=texts.sources.schema)
    assert isinstance(again, hs.Sequences) and len(again) == 3


@pytest.mark.parametrize(
    ("content", "options", "sentence"),
    [
        (STEPS, {"sequence": "who", "target": "fase"}, "has no column 'fase'"),
        (STEPS, {"sequence": "who", "target": "phase", "outputs": "sequence"}, "row 2 differs"),
        (STEPS, {"target": "phase", "outputs": "each"}, "outputs is 'each'"),
        (STEPS, {"outputs": "step"}, "no target is named"),
        (STEPS, {"sequence": "who", "target": "who"}, "'who' is named twice"),
        (STEPS, {"target": ["who", "day", "move", "phase"]}, "no column left to observe"),
        (REVIEWS, {"target": "label", "text": "tokens", "outputs": "step"}, "each text has one answer"),
        (REVIEWS + ",negative\n", {"target": "label", "text": "tokens"}, "row 4 has no text in column 'text'"),
        (STEPS, {"target": "phase", "text": "tokens"}, "name the one that holds the text"),
        ("a,b,y\n1,2,p\n", {"wide": True, "target": "y", "outputs": "step"}, "one answer for each sequence"),
        (STEPS, {"target_schema": hs.Schema((hs.Column("y", "real"),), True)}, "without schema"),
    ],
)
def test_a_sentence_says_what_is_wrong(write, content, options, sentence):
    with pytest.raises(hs.DataError, match=sentence):
        hs.read(write(content), **options)


def test_an_unknown_label_is_named(write):
    old = hs.read(write(LONG), sequence="who", target="ill")
    with pytest.raises(hs.DataError, match="column 'ill' holds 'maybe' at row 1, a symbol that is not in its vocab"):
        hs.read(
            write("day,pulse,who,heat,ill\n1,70,C,36.5,maybe\n"),
            schema=old.sources.schema,
            target_schema=old.targets.schema,
        )


# -- inputs of words -----------------------------------------------------------------------------------------

DAYS = "day,price,visits\nmon,1.5,30\ntue,2.5,20\nmon,1.0,10\n"


def test_words_as_inputs_are_one_number_each(write):
    data = hs.read(write(DAYS), inputs=["day", "price"], kinds="count")
    assert data.inputs is not None
    assert data.inputs[0].tolist() == [[1.0, 0.0, 1.5], [0.0, 1.0, 2.5], [1.0, 0.0, 1.0]]
    assert data.schema.inputs == ("day=mon", "day=tue", "price")
    new = hs.read(write("price,day,visits\n9.5,tue,3\n"), schema=data.schema)
    assert new.inputs is not None and new.inputs[0].tolist() == [[0.0, 1.0, 9.5]]
    with pytest.raises(hs.DataError, match="column 'day' holds 'sun' at row 1"):
        hs.read(write("price,day,visits\n9.5,sun,3\n"), schema=data.schema)


def test_numbers_as_inputs_need_no_columns_of_their_own(write):
    data = hs.read(write("x,u,v\n1.5,2,true\n2.5,3,false\n"), inputs=["u", "v"])
    assert data.inputs is not None and data.inputs[0].tolist() == [[2.0, 1.0], [3.0, 0.0]]
    assert data.schema.input_columns is None and data.schema.inputs == ("u", "v")


def test_a_model_with_words_as_inputs_is_saved_and_forecasts(write, tmp_path):
    data = hs.read(write(DAYS), inputs=["day", "price"], kinds="count")
    model = hs.build("vanilla", data, hidden=2, key=jr.key(0))
    hs.save(model, tmp_path / "m.safetensors")
    again = hs.load(tmp_path / "m.safetensors")
    assert again.schema == data.schema and again.inputs == 3
    path = tmp_path / "future.csv"
    pl.DataFrame({"price": [1.0, 2.0], "day": ["tue", "mon"]}).write_csv(path)
    future = read_future(path, again)
    assert future is not None and future.tolist() == [[0.0, 1.0, 1.0], [1.0, 0.0, 2.0]]
