"""Everything that can be reproduced has a page, in the index and in the navigation."""

import re

import hiddenstate as hs
from docs.pages import ROOT


def test_every_paper_has_a_page():
    index = (ROOT / "docs" / "papers" / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[(\S+)\]\(\1\.md\)", index, re.MULTILINE) == list(hs.papers.PAPERS)
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for name in hs.papers.PAPERS:
        assert (ROOT / "docs" / "papers" / f"{name}.md").exists()
        assert f"papers/{name}.md" in navigation
