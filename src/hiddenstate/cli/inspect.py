"""`hiddenstate inspect`: commands that look inside a model."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from hiddenstate.cli.console import note, say
from hiddenstate.cli.errors import Commands, command_line
from hiddenstate.cli.inspect_cost import cost
from hiddenstate.cli.options import Data, Given, ModelFile, Seed, expanded
from hiddenstate.cli.outputs import check_outputs
from hiddenstate.cli.reading import Rereading, load_model


class Inspections(Commands):
    """Commands of which `page` need not be named: it is meant where the first word is no command."""

    def parse_args(self, ctx, args):
        """Put `page` before words that begin with no command."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["page", *args]
        return super().parse_args(ctx, args)


inspect = typer.Typer(cls=Inspections, name="inspect", no_args_is_help=True, rich_markup_mode="rich")


@inspect.callback()
def about() -> None:
    """Look inside a model: [bold]hiddenstate inspect MODEL DATA[/bold] writes a page for the browser.

    Other words say what is independent in a model, and how minGRU infers a
    switch. A model file that is called as one of the commands is given with
    its folder: ./graph.

    [bold]Example:[/bold] hiddenstate inspect gru.safetensors held-out.csv --out inspection

    [bold]Example:[/bold] hiddenstate inspect graph rnn --out graph.svg
    """


@inspect.command()
@expanded(Rereading, "reading")
def page(
    ctx: typer.Context,
    model: ModelFile,
    data: Data,
    reading: Rereading,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for report.html and plots.")] = Path(
        "inspection"
    ),
    plots: Annotated[
        Literal["png", "svg"] | None, typer.Option(help="Write every chart as a file, too.", show_default="none")
    ] = None,
    given: Given = 0,
    seed: Seed = 0,
) -> None:
    """Write a page that shows what a model does on data; the word `page` can be left out.

    Its score, predictions beside what came, forecasts, calibration, hidden
    states and beliefs over time, gradients and dynamics. What the model or
    the data do not allow is left out, and the page says why.

    [bold]Example:[/bold] hiddenstate inspect gru.safetensors held-out.csv --out inspection
    """
    import jax.random as jr

    from hiddenstate.inference import data_for
    from hiddenstate.learn.compare import given_words
    from hiddenstate.report.drawing import draw_sections
    from hiddenstate.report.model_page import model_page
    from hiddenstate.report.model_sections import LEFT_OUT
    from hiddenstate.report.page import write_page
    from hiddenstate.report.selection import make_folder

    network = load_model(model)
    sequences = reading.read(data, network)
    make_folder(out)
    if given:
        sequences = data_for(network, sequences, given)
        note(given_words(given))
    note(f"looks at {model.name}; seed {seed}")
    command = command_line(ctx, seed=seed)
    made = model_page(
        network,
        sequences,
        key=jr.key(seed),
        name=model.stem,
        source=data,
        command=command,
        announce=lambda title: note(f"  {title}"),
    )
    absent = [section.title for section in made.sections if section.text.startswith(LEFT_OUT)]
    if absent:
        note(f"left out: {', '.join(absent)}; the page says why")
    write_page(made, out / "report.html")
    if plots is not None:
        for path in draw_sections(made.sections, out, plots):
            say(f"drawn in {path}")
    say(f"open {out / 'report.html'} in a browser")


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
    check_outputs(out, reads=[model])
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


@inspect.command()
def switching(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where switching.csv and switching.png go.", show_default=False)
    ],
    steps: Annotated[int, typer.Option(min=2, help="How long the sequences are.")] = 50,
    sequences: Annotated[int, typer.Option(min=2, help="How many are drawn at each level.")] = 200,
    levels: Annotated[int, typer.Option(min=2, help="How many amounts of information there are.")] = 9,
    kept: Annotated[
        Literal["seen", "unseen"], typer.Option(help="Whether a state that was kept is seen, as a fresh one is.")
    ] = "seen",
    seed: Seed = 0,
) -> None:
    """Say how far the rule of minGRU is from exact inference in a switching model, and draw it.

    Data are drawn from switch-copy models whose observations tell more
    and more about the switch. At each level the belief over the hidden
    state by minGRU's rule is compared with the exact one.

    [bold]Example:[/bold] hiddenstate inspect switching --out switching
    """
    import jax.random as jr

    import hiddenstate as hs
    from hiddenstate.report.selection import make_folder
    from hiddenstate.report.switching import write_switching_study

    make_folder(out)
    say(f"seed {seed}: {sequences} sequences of {steps} steps at each of {levels} levels, kept states {kept}")
    study = hs.inspect.switching_study(
        key=jr.key(seed),
        sequences=sequences,
        length=steps,
        levels=levels,
        kept=kept,
        announce=lambda number: note(f"  level {number} of {levels}"),
    )
    write_switching_study(study, out)
    say(str(study))
    say(f"written to {out / 'switching.csv'} and {out / 'switching.png'}")


inspect.command()(cost)


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
