"""How a model is fitted: one command-line option a field."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hiddenstate.cli.console import note, plural

if TYPE_CHECKING:
    from hiddenstate.core import Pairs, Sequences

WHOLE = 10
"""From so many sequences on whole ones are held out for validation; fewer are cut in time."""

LONG = 512
"""Longer sequences are learned from in chunks of half as many steps, unless --truncate says otherwise."""

UPDATES = 1500
"""Without --epochs a run may take at least this many updates, and at least 100 epochs."""

_PANEL = "Training"


@dataclass(frozen=True)
class Training:
    """How to learn; what is None is as the description of the model says, or as it is by default."""

    method: Annotated[
        Literal["sgd", "em", "lbfgs"] | None,
        typer.Option(
            rich_help_panel=_PANEL,
            help="Gradient steps, expectation maximisation (for latent-state models), or quasi-Newton steps.",
            show_default="em where the model can, else sgd",
        ),
    ] = None
    restarts: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", rich_help_panel=_PANEL, help="Starts of EM; the best counts.", show_default="1"
        ),
    ] = None
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            rich_help_panel=_PANEL,
            help="The most passes over the data (iterations of EM).",
            show_default="100, or as many as give 1500 updates",
        ),
    ] = None
    learning_rate: Annotated[
        float | None, typer.Option(rich_help_panel=_PANEL, help="Adam's step size.", show_default="0.005")
    ] = None
    batch_size: Annotated[
        int | None, typer.Option(min=1, rich_help_panel=_PANEL, help="Sequences in an update.", show_default="32")
    ] = None
    truncate: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            rich_help_panel=_PANEL,
            help="Steps that a gradient flows back through; 0 is all.",
            show_default="256 if longer than 512",
        ),
    ] = None
    patience: Annotated[
        int | None,
        typer.Option(
            min=1, rich_help_panel=_PANEL, help="Evaluations without improvement before it stops.", show_default="20"
        ),
    ] = None
    validation: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=0.9,
            metavar="SHARE",
            rich_help_panel=_PANEL,
            help="The share of the data that decides when to stop; 0 is none.",
            show_default="0.1; none for em",
        ),
    ] = None

    def following(self, described: dict[str, Any]) -> "tuple[Training, dict[str, Any]]":
        """The same with what a description says where nothing was given, and the rest of what it says."""
        rest = dict(described)
        said = {name: rest.pop(name) for name in list(rest) if name in self.__dataclass_fields__}
        return replace(self, **{name: value for name, value in said.items() if getattr(self, name) is None}), rest

    def share(self, method: str) -> float:
        """The share of the data that decides when to stop."""
        if self.validation is not None:
            return self.validation
        return 0.0 if method == "em" else 0.1

    def how(self, method: str, model: str, train: "Sequences | Pairs", **rest: Any) -> Any:
        """The method, with a budget that fits the data."""
        import hiddenstate as hs

        if self.restarts is not None and method != "em":
            raise hs.HiddenStateError(f"--restarts is for --method em; {model} learns by {method}.")
        if method == "em":
            return hs.EM(**{"iterations": self.epochs or 200, "restarts": self.restarts or 1, **rest})
        if method == "lbfgs":
            return hs.LBFGS(**{"iterations": self.epochs or 200, **rest})
        return hs.SGD(**{**self._budget(train), **rest})

    def _budget(self, train: "Sequences | Pairs") -> dict[str, Any]:
        """Options of gradient steps; one short sequence is not starved of updates, pairs are never cut in time."""
        import hiddenstate as hs

        size = self.batch_size or 32
        chunk = self.truncate or None
        length = 0 if isinstance(train, hs.Pairs) else train.length
        if self.truncate is None and length > LONG:
            chunk = LONG // 2
        updates = -(-len(train) // size) * (1 if chunk is None else max(1, -(-length // chunk)))
        return {
            "epochs": self.epochs or max(100, -(-UPDATES // updates)),
            "learning_rate": 5e-3 if self.learning_rate is None else self.learning_rate,
            "batch_size": size,
            "truncate": chunk,
            "patience": self.patience or 20,
            "evaluate_steps": max(10, updates),
        }


def parts(data: Any, share: float, key: Any) -> tuple[Any, Any]:
    """What is learned from, and what decides when to stop (None where the share is 0)."""
    import hiddenstate as hs

    if share == 0:
        return data, None
    answers = isinstance(data, hs.Pairs)
    if len(data) >= WHOLE:
        train, held = data.split(1 - share, key=key)
        note(f"{plural(len(train), 'sequence')} to learn from, {len(held)} to stop by")
        return train, held
    if answers:
        note(f"{plural(len(data), 'sequence')} with answers: too few to keep one to stop by (that begins at {WHOLE})")
        return data, None
    shortest = int(data.lengths.min())
    if min(round(shortest * (1 - share)), shortest - round(shortest * (1 - share))) < 1:
        raise hs.DataError(
            f"{plural(shortest, 'step')} in the shortest sequence: not enough to learn from most and stop by the rest. "
            "--validation 0 learns from all."
        )
    train, held = data.split_time(1 - share, context=True)
    note(f"{plural(train.steps, 'step')} to learn from, the last {held.scored_steps} to stop by")
    return train, held
