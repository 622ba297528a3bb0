"""The pages of the documentation, and the blocks of code in them."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
_FOUND = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "papers").glob("*.md")))
PAGES = tuple(page for page in _FOUND if page.exists())
API = tuple(sorted((ROOT / "docs" / "api").glob("*.md")))

_FENCE = re.compile(
    r"^(?P<indent> *)```[ ]?(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```[ ]*$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A fenced block: the words after the fence, its content, and the line that this starts at."""

    info: str
    body: str
    line: int

    @property
    def runs(self) -> bool:
        words = re.sub(r"[{}.]", " ", self.info).split()
        return words[:1] == ["python"] and "no-run" not in words


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            fence["info"].strip(),
            re.sub(rf"^{fence['indent']}", "", fence["body"], flags=re.MULTILINE),
            text.count("\n", 0, fence.start()) + 2,
        )
        for fence in _FENCE.finditer(text)
    ]
