"""`hiddenstate inspect`: commands that look inside a model."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from hiddenstate.cli.console import say
from hiddenstate.cli.errors import Commands

inspect = typer.Typer(cls=Commands, name="inspect", no_args_is_help=True, rich_markup_mode="rich")


@inspect.callback()
def about() -> None:
    """Look inside a model: its graphical model and what is independent in it.

    [bold]Example:[/bold] hiddenstate inspect graph rnn --out graph.svg
    """


@inspect.command()
def graph(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A model that `fit` or `compare` has saved, or an example: rnn, hmm, particle-filter, switching.",
            show_default=False,
        ),
    ],
    steps: Annotated[int, typer.Option(min=1, help="How many steps the graph has.")] = 4,
    form: Annotated[
        Literal["unfolded", "loop"], typer.Option(help="Drawn step by step, or as a loop with delays.")
    ] = "unfolded",
    view: Annotated[
        Literal["generative", "recurrence"],
        typer.Option(help="Hidden variables that are drawn, or the belief over them as the state of a network."),
    ] = "generative",
    out: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Where to draw it (.svg, .png, .pdf); without it not at all."),
    ] = None,
) -> None:
    """Say what depends on what in a model, and draw it.

    It prints the arrows of the graphical model and which variables are
    independent given others: by the structure of the graph, or only since
    the states of a network are computed. H is the state of a network, Z
    that of a latent model; at step t it predicts X_t.

    [bold]Example:[/bold] hiddenstate inspect graph gru.safetensors --steps 4 --form loop --out graph.svg
    """
    import hiddenstate as hs
    from hiddenstate.inspect.graphs import EXAMPLES
    from hiddenstate.report.graphs import draw_graph
    from hiddenstate.report.style import check_ending

    if out is not None:
        check_ending(out)
    source = model if model in EXAMPLES else _loaded(model, EXAMPLES)
    example = isinstance(source, str)
    made = hs.inspect.example_graph(source, steps) if example else hs.inspect.graph(source, steps, view=view)
    say(f"{made.graph['pattern'].name}, {steps} step{'' if steps == 1 else 's'}: {_arrows(made)}")
    for statement in hs.inspect.independences(made):
        if statement.cases:
            say(str(statement))
    if out is not None:
        draw_graph(source, out, steps, form, view=view)
        say(f"drawn in {out}")


def _loaded(model: str, examples: tuple[str, ...]) -> Any:
    """The model of a file; where there is none, the sentence also names the examples."""
    import hiddenstate as hs
    from hiddenstate.cli.reading import load_sequence_model

    if not Path(model).exists():
        raise hs.FileError(f"{model} is no file and no example; examples are {', '.join(examples)}.")
    return load_sequence_model(Path(model), "inspect")


def _arrows(made: Any) -> str:
    """What repeats itself, in words: H_t -> X_t, H_t -> H_t+1."""
    arrows = made.graph["pattern"].arrows
    return ", ".join(f"{a.source}_t -> {a.target}_t{f'+{a.lag}' if a.lag else ''}" for a in arrows)
