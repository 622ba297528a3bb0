"""`hiddenstate stream`."""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hiddenstate.cli.console import note
from hiddenstate.cli.errors import fail
from hiddenstate.cli.options import ModelFile
from hiddenstate.cli.outputs import check_outputs
from hiddenstate.cli.reading import load_model

if TYPE_CHECKING:
    from hiddenstate.inference import Stream


def stream(
    model: ModelFile,
    restore: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Go on from a state that --save-state has written.")
    ] = None,
    save_state: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Keep the state in this file: at the end, and on the way."),
    ] = None,
    save_every: Annotated[int, typer.Option(min=1, help="Observations between two writings of the state.")] = 100,
) -> None:
    """Read observations from standard input, one a line, and predict the next after each.

    A model that answers gives its answer to what was read so far instead.

    A line holds a number, the name of a symbol, or JSON: an array for several
    columns, a string for a symbol such as " ". A model with inputs takes
    objects {"x": ..., "u": [...], "next_u": [...]} and predicts where next_u
    is given.

    One JSON object a line comes back at once: "step" is how many observations
    were seen and "log_prob" the logarithm of the probability of the last one
    (null where that was zero).
    The rest says what is expected next: "mean" and "sd", or for symbols
    "probs" and "entropy" (in nats). The first line comes before any
    observation.

    [bold]Example:[/bold] tail -f sky.log | hiddenstate stream model.safetensors
    """
    import hiddenstate as hs
    from hiddenstate.core import has
    from hiddenstate.report.lines import parse_line, prediction_line

    check_outputs(save_state, reads=[model])
    network = load_model(model)
    if isinstance(network, hs.ConditionalModel) and not has(network, "answer"):
        raise hs.HiddenStateError(
            f"{model} answers when it has read a whole sequence, and standard input has no end that it could wait for: "
            "use predict on a file."
        )
    running = hs.Stream(network) if restore is None else hs.Stream.restore(network, restore)
    if restore is not None:
        note(f"goes on after step {running.steps}")
    told = False
    try:
        with _kept(running, save_state):
            if not running.answers:
                _print(prediction_line(running, None if network.inputs else running.predictive()))
            for number, line in enumerate(sys.stdin, 1):
                try:
                    x, u, next_u = parse_line(line, network)
                    predicted = running.push(x, u, next_u=next_u)
                except hs.HiddenStateError as error:
                    fail(f"line {number}: {error}")
                _print(prediction_line(running, predicted, running.last_log_prob))
                if running.last_log_prob == -math.inf and not told:
                    told = True
                    note(f"line {number} has probability zero under the model: do not rely on predictions after it")
                if save_state is not None and running.steps % save_every == 0:
                    running.save(save_state)
    except BrokenPipeError:
        _leave_quietly()


@contextmanager
def _kept(running: "Stream", path: Path | None) -> Iterator[None]:
    """The state is saved in the end, however it comes: the observations before a bad line were seen."""
    try:
        yield
    finally:
        if path is not None:
            running.save(path)


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _leave_quietly() -> Any:
    """Nobody reads on: that is no error, and nothing is left to be written when Python ends."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(0)
