import json
import subprocess
import sys

import numpy as np
import pytest

import hiddenstate as hs


def answers(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_numbers_are_predicted_one_by_one(run, temps):
    lines = answers(run("stream", temps, stdin="10\n12.5\n"))
    stream = hs.Stream(hs.load(temps))
    first, second = stream.predictive(), stream.push(10.0)
    assert [line["step"] for line in lines] == [0, 1, 2]
    assert "log_prob" not in lines[0]
    assert lines[0]["mean"] == pytest.approx(float(first.mean))
    assert lines[1]["log_prob"] == pytest.approx(float(first.log_prob(10.0)), rel=1e-5)
    assert lines[1]["sd"] == pytest.approx(float(np.sqrt(second.variance)), rel=1e-5)
    assert lines[2]["log_prob"] == pytest.approx(float(second.log_prob(12.5)), rel=1e-5)


def test_symbols_go_by_their_names(run, skies):
    lines = answers(run("stream", skies, stdin='rain\n"sun"\n'))
    assert list(lines[0]["probs"]) == ["dry", "rain", "sun"]
    assert lines[1]["log_prob"] == pytest.approx(np.log(lines[0]["probs"]["rain"]), rel=1e-5)
    assert lines[2]["log_prob"] == pytest.approx(np.log(lines[1]["probs"]["sun"]), rel=1e-5)
    probs = np.array(list(lines[2]["probs"].values()))
    assert lines[2]["entropy"] == pytest.approx(-(probs * np.log(probs)).sum(), rel=1e-5)


def test_what_cannot_be_is_said_once(run, tmp_path):
    emission = hs.emissions.Categorical(probs=[[0.9, 0.1, 0.0], [1.0, 0.0, 0.0]])
    hs.save(hs.HMM([1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]], emission), tmp_path / "chain")
    result = run("stream", tmp_path / "chain", stdin="0\n2\n2\n0\n")
    assert [line.get("log_prob", 0) is None for line in answers(result)] == [False, False, True, True, False]
    assert result.stderr.count("probability zero") == 1
    assert "line 2 has probability zero" in result.stderr


def test_records_and_spaces_are_json(run, records, words):
    line = answers(run("stream", records, stdin='["rain", 12.5, 3]\n'))[1]
    assert set(line["columns"]) == {"sky", "temp", "visits"}
    assert sum(line["columns"]["sky"]["probs"].values()) == pytest.approx(1)
    assert set(line["columns"]["temp"]) == {"mean", "sd"}
    assert len(answers(run("stream", words, stdin='a\n" "\n \n'))) == 4


def test_inputs_come_along(run, fails, driven):
    lines = answers(run("stream", driven, stdin='{"x": 9, "u": [30], "next_u": [31]}\n{"x": 8, "u": [31]}\n'))
    assert lines[0] == {"step": 0}
    assert "mean" in lines[1] and "mean" not in lines[2]
    assert "a model with inputs takes objects" in fails("stream", driven, stdin="9\n")


def test_a_state_is_saved_and_taken_up_again(run, temps, tmp_path):
    state = tmp_path / "state"
    whole = answers(run("stream", temps, stdin="10\n12\n11\n"))
    run("stream", temps, "--save-state", state, stdin="10\n12\n")
    rest = answers(run("stream", temps, "--restore", state, stdin="11\n"))
    assert rest == [{k: v for k, v in whole[2].items() if k != "log_prob"}, whole[3]]


def test_a_bad_line_is_named_and_what_came_before_is_kept(run, fails, temps, skies, tmp_path):
    state = tmp_path / "state"
    sentence = fails("stream", temps, "--save-state", state, stdin="10\nhot\n")
    assert "line 2: 'temp' is \"hot\"; it must be a number." in sentence
    assert answers(run("stream", temps, "--restore", state, stdin=""))[0]["step"] == 1
    assert "line 1: 'snow' is no symbol of 'sky'; known are 'dry', 'rain', 'sun'." in fails(
        "stream", skies, stdin="snow\n"
    )
    assert "line 1: it is blank" in fails("stream", temps, stdin="\n")
    assert "cannot marginalise" in fails("stream", temps, stdin="null\n")
    assert "cannot marginalise" in fails("stream", temps, stdin="NaN\n")


def test_a_state_of_another_model_is_refused(run, fails, temps, skies, tmp_path):
    run("stream", temps, "--save-state", tmp_path / "state", stdin="1\n")
    assert "is the stream of another model" in fails("stream", skies, "--restore", tmp_path / "state", stdin="")


def test_answers_come_at_once_and_a_reader_who_leaves_is_no_error(temps):
    code = "import sys; from hiddenstate.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "stream", str(temps)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout and process.stderr
    assert json.loads(process.stdout.readline())["step"] == 0
    process.stdin.write("10\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["step"] == 1
    process.stdout.close()
    try:
        process.stdin.write("11\n" * 10)
        process.stdin.close()
    except BrokenPipeError:
        pass
    assert process.wait(timeout=60) == 0
    assert process.stderr.read() == ""
    process.stderr.close()
