"""Fences as the site's Markdown takes them: the words that only the tests read become classes."""

import re

_NOT_RUN = re.compile(r"^( *```)python no-run *$", re.MULTILINE)
_OUTPUT = re.compile(r"^( *```)output *$", re.MULTILINE)


def on_page_markdown(markdown: str, **kwargs: object) -> str:
    """Called by mkdocs for every page, before its Markdown is read."""
    del kwargs
    return _OUTPUT.sub(r"\1 {.text .output}", _NOT_RUN.sub(r"\1python", markdown))
