import jax.random as jr
import numpy as np

import hiddenstate as hs
from hiddenstate.data import to_text


def test_samples_are_those_of_the_library_and_can_be_read_again(run, records, tmp_path):
    out = tmp_path / "samples.csv"
    assert run("sample", records, "--length", 5, "--n", 2, "--seed", 4, "--out", out).exit_code == 0
    model = hs.load(records)
    expected = hs.sample(model, 5, key=jr.key(4), n=2)
    again = hs.read(out, schema=model.schema)
    assert again.shape == (2, 5, 3)
    np.testing.assert_allclose(again.values, expected.values, rtol=1e-5)


def test_without_a_file_the_table_is_printed_alone(run, skies):
    result = run("sample", skies, "--length", 3)
    lines = result.stdout.splitlines()
    assert lines[0] == "town,day,sky"
    assert len(lines) == 4
    assert all(line.split(",")[2] in ("dry", "rain", "sun") for line in lines[1:])


def test_models_of_text_write_text(run, words, tmp_path):
    expected = to_text(hs.sample(hs.load(words), 6, key=jr.key(0), n=2))
    assert run("sample", words, "--length", 6, "-n", 2).stdout == "\n\n".join(expected) + "\n"
    out = tmp_path / "samples.txt"
    run("sample", words, "--length", 6, "-n", 2, "--out", out)
    assert out.read_text() == "\n".join(expected) + "\n"
