"""Which cases of a test run in `make test`, and which only in `make test-slow`."""

from collections.abc import Iterable
from typing import Any

import pytest


def quick(values: Iterable[Any], count: int = 1) -> list[Any]:
    """The first so many cases as they are, and the others marked slow: they show the same of further models."""
    cases = [value if _is_param(value) else pytest.param(value, id=_name(value)) for value in values]
    return [*cases[:count], *(case._replace(marks=(*case.marks, pytest.mark.slow)) for case in cases[count:])]


def _is_param(value: Any) -> bool:
    return hasattr(value, "marks") and hasattr(value, "_replace")


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) else None
