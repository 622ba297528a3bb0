import pytest
import typer

from hiddenstate.cli.errors import in_flags, told
from hiddenstate.core import DataError
from hiddenstate.native.library import SettingError


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("read the column as words with kinds='symbol'.", "read the column as words with --kind symbol."),
        ("name it as time='day', or", "name it as --time day, or"),
        ("read it with header=False.", "read it with --no-header."),
        ("Read with unknown='skip' to leave them out.", "Read with --skip-unknown to leave them out."),
        (
            "is read with text='characters' or text='tokens'.",
            "is read with --text characters or --text tokens.",
        ),
        ("give it to hs.fit(..., checkpoint=).", "give it to fit --checkpoint."),
        ("there is no column 'kinds'.", "there is no column 'kinds'."),
    ],
)
def test_sentences_name_options_in_place_of_arguments(said, expected):
    assert in_flags(said) == expected


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (DataError("it is wrong."), 2, "error: it is wrong."),
        (SettingError("HIDDENSTATE_THREADS is 'two'."), 2, "error: HIDDENSTATE_THREADS is 'two'."),
        (
            FileNotFoundError(2, "No such file or directory", "x.csv"),
            2,
            "error: x.csv: No such file or directory.",
        ),
        (KeyboardInterrupt(), 130, "interrupted."),
    ],
)
def test_what_a_caller_can_put_right_is_a_sentence(error, code, said, capsys):
    with pytest.raises(typer.Exit) as left, told():
        raise error
    assert left.value.exit_code == code
    assert capsys.readouterr().err.strip() == said


def test_a_fault_of_the_program_keeps_its_traceback():
    with pytest.raises(ValueError, match="a bug"), told():
        raise ValueError("a bug")
