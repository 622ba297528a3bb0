"""Write what full runs of the papers gave into their pages, from the folder of `hiddenstate reproduce all --full`.

    hiddenstate reproduce all --full --out reproduced
    python benchmarks/record_papers.py reproduced

Each page in docs/papers ends in a section that holds the claims of the last run that was recorded, with its plot.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
HEADING = "## What a full run gave\n"


def section(name: str, result: dict[str, Any]) -> str:
    """The section for one paper, as Markdown."""
    held = sum(claim["holds"] for claim in result["claims"])
    lines = [
        HEADING,
        f"By `{result['command']}`, with version {result['hiddenstate']}: {held} of {len(result['claims'])} claims "
        "hold.\n",
    ]
    for claim in result["claims"]:
        lines.append(f"- **{'Holds' if claim['holds'] else 'Does not hold'}.** {plain(claim['statement'])}")
        lines.append(f"  *{plain(claim['measured'])}*" + (f" {plain(claim['note'])}" if claim["note"] else ""))
    lines.append(f"\n![The charts of that run](../images/papers/{name}.png)\n")
    return "\n".join(lines)


def plain(text: str) -> str:
    """Words that Markdown leaves as they are."""
    for sign in "\\*_`<":
        text = text.replace(sign, f"\\{sign}")
    return text


def record(name: str, folder: Path) -> bool:
    """Put the section of one paper into its page; False where there was no full run of it."""
    path = folder / name / "result.json"
    if not path.exists():
        return False
    result = json.loads(path.read_text())
    if result["size"] != "full":
        return False
    page = DOCS / "papers" / f"{name}.md"
    before = page.read_text().split(HEADING)[0].rstrip("\n")
    page.write_text(f"{before}\n\n{section(name, result)}")
    images = DOCS / "images" / "papers"
    images.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / name / "plot.png", images / f"{name}.png")
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where `hiddenstate reproduce --full` wrote to")
    folder = parser.parse_args().folder
    for page in sorted((DOCS / "papers").glob("*.md")):
        if page.stem != "index":
            print(f"{page.stem}: {'recorded' if record(page.stem, folder) else 'no full run'}")


if __name__ == "__main__":
    main()
