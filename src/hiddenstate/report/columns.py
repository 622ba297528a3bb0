"""A table on the screen, in which no number is cut however narrow the screen is."""

from collections.abc import Collection, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table


def print_columns(
    columns: Mapping[str, Sequence[str]],
    words: Sequence[str],
    *,
    spare: Sequence[str] = (),
    dim: Collection[int] = (),
) -> None:
    """Print columns of cells beside each other, those of `words` to the left and numbers to the right.

    Where the room is little words wrap, the last of `words` first, then headings; if that is not enough, columns are
    left out in the order of `spare`. Rows whose number is in `dim` are dimmed.
    """
    console = Console(highlight=False, markup=False, emoji=False)
    widths = fitted_widths(columns, words, spare, console.width)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name, width in widths.items():
        table.add_column(name, justify="left" if name in words else "right", width=width, overflow="fold")
    for number, row in enumerate(zip(*(columns[name] for name in widths), strict=True)):
        table.add_row(*row, style="dim" if number in dim else "")
    console.print(table)


def fitted_widths(
    columns: Mapping[str, Sequence[str]], words: Sequence[str], spare: Sequence[str], room: int
) -> dict[str, int]:
    """How wide each column is that is shown."""
    widths = {name: max(map(len, (name, *cells))) for name, cells in columns.items()}
    least = {
        name: _longest_word((name, *cells)) if name in words else max(_longest_word((name,)), *map(len, cells))
        for name, cells in columns.items()
    }
    shrinking = (*reversed(words), *(name for name in columns if name not in words))
    for gone in ("", *spare):
        if _excess(widths, room) <= 0:
            break
        widths.pop(gone, None)
        for name in shrinking:
            if name in widths:
                widths[name] = max(widths[name] - max(0, _excess(widths, room)), least[name])
    return widths


def _longest_word(texts: Sequence[str]) -> int:
    return max((len(word) for text in texts for word in text.split()), default=1)


def _excess(widths: Mapping[str, int], room: int) -> int:
    return sum(widths.values()) + 2 * len(widths) - room
