"""Compiled programs are kept from one command to the next, in a folder that stays small."""

import os
import subprocess
import sys

import pytest

from hiddenstate.cli.programs import keep_programs, keep_small

VARIABLES = (
    "HIDDENSTATE_CACHE",
    "JAX_COMPILATION_CACHE_DIR",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES",
)


@pytest.fixture
def environment(monkeypatch):
    """The variables of the environment, of which those that matter here are not set, and are as before afterwards."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that it is put back, whatever happens to it
        monkeypatch.delenv(name)
    return os.environ


def test_programs_are_kept_where_the_user_keeps_caches(environment, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    keep_programs()
    kept = environment["JAX_COMPILATION_CACHE_DIR"]
    assert kept.startswith(str(tmp_path / "hiddenstate" / "programs-"))
    assert os.path.isdir(kept)
    assert environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] == "0"


def test_zero_keeps_nothing(environment, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    environment["HIDDENSTATE_CACHE"] = "0"
    keep_programs()
    assert "JAX_COMPILATION_CACHE_DIR" not in environment
    assert not list(tmp_path.iterdir())


def test_settings_of_jax_stay_as_they_are(environment, tmp_path):
    environment["HIDDENSTATE_CACHE"] = str(tmp_path / "ours")
    environment["JAX_COMPILATION_CACHE_DIR"] = str(tmp_path / "theirs")
    environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "3"
    keep_programs()
    assert environment["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "theirs")
    assert environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] == "3"
    assert not (tmp_path / "ours").exists()


def test_where_no_folder_can_be_made_nothing_is_kept(environment, tmp_path):
    (tmp_path / "file").write_text("in the way")
    environment["HIDDENSTATE_CACHE"] = str(tmp_path / "file")
    keep_programs()
    assert "JAX_COMPILATION_CACHE_DIR" not in environment


def filled(folder, sizes):
    """Files of so many bytes, the first the oldest."""
    for age, size in enumerate(sizes):
        path = folder / f"program-{age}"
        path.write_bytes(b"x" * size)
        os.utime(path, (age, age))


def names(folder):
    return sorted(path.name for path in folder.glob("program-*"))


def test_the_oldest_programs_are_removed_from_a_folder_that_is_full(tmp_path):
    filled(tmp_path, [40, 30, 20, 20])
    keep_small(tmp_path, 100)
    assert names(tmp_path) == ["program-2", "program-3"]  # 40 bytes: the first two had to go to come to 50


def test_a_folder_that_is_not_full_keeps_everything(tmp_path):
    filled(tmp_path, [40, 30, 20])
    keep_small(tmp_path, 100)
    assert len(names(tmp_path)) == 3


def test_the_folder_is_looked_at_once_a_day(tmp_path):
    keep_small(tmp_path, 100)
    filled(tmp_path, [80, 80])
    keep_small(tmp_path, 100)
    assert len(names(tmp_path)) == 2
    keep_small(tmp_path, 100, every=0)
    assert len(names(tmp_path)) == 0  # one file alone is beyond the half


def test_a_second_command_compiles_nothing_and_survives_programs_that_were_cut_off(tmp_path):
    command = [sys.executable, "-c", "from hiddenstate.cli import main; main()"]
    words = ["sample", str(tmp_path / "model.safetensors"), "--length", "4", "--seed", "1"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    # The order of the fields of some distributions, and with it a program, hangs on the seed of hashes.
    kept |= {"HIDDENSTATE_CACHE": str(tmp_path / "cache"), "PYTHONHASHSEED": "0"}

    def run(*words):
        done = subprocess.run([*command, *words], capture_output=True, text=True, env=kept, timeout=300)
        assert done.returncode == 0, done.stderr
        return done

    def programs():
        return {path.name: path.read_bytes() for path in tmp_path.glob("cache/programs-*/*-cache")}

    run("fit", "earthquakes", "--model", "unigram", "--out", words[1])
    first = run(*words)
    after_one = programs()
    assert after_one
    assert run(*words).stdout == first.stdout
    assert programs() == after_one

    for path in tmp_path.glob("cache/programs-*/*-cache"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    last = run(*words)
    assert (last.stdout, last.stderr) == (first.stdout, first.stderr)
