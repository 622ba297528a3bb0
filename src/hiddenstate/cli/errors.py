"""What a person can put right becomes one sentence on standard error and exit code 2, without a traceback."""

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from hiddenstate.cli.console import notes

_FLAGS = (
    (r"\bkinds='(\w+)'", r"--kind \1"),
    (r"\bkinds (names|as)\b", r"--kind \1"),
    (r"\bunknown='skip'", "--skip-unknown"),
    (r"\b(text|time|outputs|target)='(.*?)'", r"--\1 \2"),
    (r"\bheader=False", "--no-header"),
    (r"\bseparator='(\\t)'", r"--separator $'\1'"),
    (r"\bseparator=('.')", r"--separator \1"),
    (r"or another path to start anew", "or --restart to begin anew"),
    (r"\bcolumns=(?!\w)", "--columns"),
    (r"hs\.fit\(\.\.\., checkpoint=\)", "fit --checkpoint"),
    (r"hs\.Stream\.restore", "stream --restore"),
    (r"hs\.SGD\(\) and hs\.LBFGS\(\) learn any model", "--method sgd and --method lbfgs learn any model"),
    (r"use hs\.SGD\(\)", "use --method sgd"),
    (r"but the data are Pairs; give it pairs\.sources\b", "but --target makes pairs of the data; leave out --target"),
    (
        r"call jax\.config\.update\('jax_enable_x64', True\) first, or .*?(?=\.$)",
        "set JAX_ENABLE_X64=1 first",
    ),
)
"""Arguments of the library's functions that its sentences name, and the options that give them here."""


_WORDS = "hiddenstate.words"


def command_line(ctx: typer.Context, **options: Any) -> str:
    """What was typed, with the options that were left out and decide what comes of it."""
    words = ["hiddenstate", *ctx.meta.get(_WORDS, [])]
    for name, value in options.items():
        if not any(word == f"--{name}" or word.startswith(f"--{name}=") for word in words):
            words += [f"--{name}", str(value)]
    return shlex.join(words)


class Commands(TyperGroup):
    """The commands, with the library's errors told as sentences."""

    def parse_args(self, ctx, args):
        """Leave --help to the command, where one is named: typer loads pydantic to see that it was not given here."""
        ctx.meta.setdefault(_WORDS, list(args))
        if args and args[0] in self.commands:
            self.add_help_option = False
        return super().parse_args(ctx, args)

    def invoke(self, ctx):
        """Run the command; leave with code 2 on what the caller can put right, 130 when interrupted."""
        with told():
            return super().invoke(ctx)


@contextmanager
def told() -> Iterator[None]:
    """Turn the errors that a caller can put right into a sentence and an exit code."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of standard output has left: typer ends the process without a word
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        fail(f"{where}{error.strerror or error}.")
    except ValueError as error:
        from hiddenstate.core import HiddenStateError
        from hiddenstate.native.library import SettingError

        if not isinstance(error, HiddenStateError | SettingError):
            raise
        fail(str(error))
    except KeyboardInterrupt:
        notes.print("interrupted.")
        raise typer.Exit(130) from None


def fail(sentence: str) -> NoReturn:
    """Print the sentence and leave with code 2."""
    notes.print(f"error: {in_flags(sentence)}", soft_wrap=True)
    raise typer.Exit(2) from None


def in_flags(sentence: str) -> str:
    """A sentence of the library with the options of the command line in place of Python arguments."""
    for pattern, flag in _FLAGS:
        sentence = re.sub(pattern, flag, sentence)
    return sentence
