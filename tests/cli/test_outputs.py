"""What a command is about to write is looked at before it works, and never takes the place of what it reads."""

import pytest

import hiddenstate as hs
from hiddenstate.cli.outputs import check_outputs


def test_a_file_in_a_folder_that_is_there_can_be_written(tmp_path):
    (tmp_path / "data.csv").write_text("x\n1\n")
    (tmp_path / "old.csv").write_text("of another day")
    reads = [tmp_path / "data.csv", tmp_path / "none.csv", None, "sunspots"]
    check_outputs(tmp_path / "new.csv", tmp_path / "old.csv", None, reads=reads)
    with pytest.raises(hs.FileError, match=r"data\.csv is read"):  # each is looked at, the last one too
        check_outputs(tmp_path / "new.csv", tmp_path / "old.csv", None, tmp_path / "data.csv", reads=reads)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "old.csv"]  # nothing is written yet
    assert (tmp_path / "old.csv").read_text() == "of another day"


@pytest.mark.parametrize("name", [".", "folder"])
def test_a_folder_is_no_file(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(hs.FileError, match="it is a folder; give the name of a file"):
        check_outputs(tmp_path / name)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(hs.FileError, match=r"there is no folder .*nowhere; make it first"):
        check_outputs(tmp_path / "nowhere" / "model.safetensors")


def test_a_file_where_a_folder_should_be_is_named(tmp_path):
    (tmp_path / "model.safetensors").write_text("")
    with pytest.raises(hs.FileError, match=r"model\.safetensors is a file, and nothing can be put into it"):
        check_outputs(tmp_path / "model.safetensors" / "x.safetensors")


def test_what_is_read_is_not_replaced(tmp_path):
    (tmp_path / "data.csv").write_text("x\n1\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "data.csv")
    with pytest.raises(hs.FileError, match=r"link\.csv is read by this command, and would be replaced"):
        check_outputs(tmp_path / "link.csv", reads=[str(tmp_path / "data.csv")])


@pytest.mark.parametrize("command", ["fit", "forecast", "score"])
def test_commands_leave_their_data_alone(command, fails, temps, weather, tmp_path):
    data = tmp_path / "data.csv"
    data.write_bytes(weather.read_bytes())
    words = [data, "--sequence", "town", "--columns", "temp"] if command == "fit" else [temps, data]
    assert "would be replaced" in fails(command, *words, "--out", data)
    assert data.read_bytes() == weather.read_bytes()


def test_a_stream_leaves_its_model_alone(fails, temps):
    before = temps.read_bytes()
    assert "would be replaced" in fails("stream", temps, "--save-state", temps, stdin="1.0\n")
    assert temps.read_bytes() == before


def test_endings_are_looked_at_before_the_work(fails, temps, weather, tmp_path):
    assert "a table is written as" in fails("forecast", temps, weather, "--out", tmp_path / "future.doc")
    assert "a table is written as" in fails("sample", temps, "--out", tmp_path / "drawn.doc")


@pytest.mark.parametrize("seed", [-1, 2**32, 10**20])
def test_seeds_that_would_be_cut_to_others_are_refused(run, temps, seed):
    result = run("sample", temps, "--length", 2, "--seed", seed)
    assert result.exit_code == 2
    assert ("greater than or equal to 0" if seed < 0 else "4294967295") in result.stderr


def test_a_comparison_of_nothing_leaves_no_folder(fails, tmp_path):
    fails("compare", "--task", "nonsense", "--out", tmp_path / "comparison")
    assert not (tmp_path / "comparison").exists()


def test_a_page_of_which_nothing_can_be_made_is_refused(fails, temps, tmp_path):
    gaps = tmp_path / "gaps.csv"
    gaps.write_text("town,day,temp\nA,1,10\nA,2,\nA,3,12\nA,4,11\n")
    assert "missing" in fails("inspect", temps, gaps, "--out", tmp_path / "page")


def test_advice_is_for_the_command_line(fails, weather, tmp_path):
    words = ["fit", weather, "--sequence", "town", "--time", "day", "--out", tmp_path / "model.safetensors"]
    assert "--method sgd" in fails(*words, "--columns", "temp", "--model", "gru", "--method", "em")
    assert "leave out --target" in fails(*words, "--columns", "temp", "--target", "sky", "--model", "hmm")
