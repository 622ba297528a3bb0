"""The library's docstrings as Markdown: what mkdocstrings asks of every object it shows.

Docstrings are plain sentences with three things that Markdown has other words for: ``.. math::`` blocks and
``:math:`` roles, and sessions after ``>>>``.
"""

import re
import textwrap

import griffe

_BLOCK = re.compile(r"^(?P<indent> *)\.\. math::\n\s*\n(?P<body>(?:(?P=indent) +\S.*\n?|[ \t]*\n)+)", re.MULTILINE)
_ROLE = re.compile(r":math:`([^`]+)`")
_SESSION = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


def to_markdown(text: str) -> str:
    """A docstring with its maths and sessions in Markdown."""
    text = _SESSION.sub(_session, text)
    text = _BLOCK.sub(_display, text)
    return _ROLE.sub(lambda role: rf"\({' '.join(role[1].split())}\)", text)


def _display(block: re.Match[str]) -> str:
    body = textwrap.dedent(block["body"]).strip()
    aligned = rf"\begin{{aligned}}{body}\end{{aligned}}" if "&" in body or r"\\" in body else body
    return f"\n\\[\n{aligned}\n\\]\n\n"


def _session(session: re.Match[str]) -> str:
    lines = [line.split("# doctest:")[0].rstrip() for line in session[0].splitlines()]
    return "\n".join(["```pycon", *lines, "```"])


class Docstrings(griffe.Extension):
    """Rewrites every docstring as it is read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: object) -> None:
        """Called for each object once it is complete."""
        del kwargs
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)
