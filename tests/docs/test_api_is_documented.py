"""Every public name has a docstring and an entry on the API pages."""

import inspect
import re
from types import ModuleType

import pytest

import hiddenstate as hs
from docs.pages import API, ROOT

ENTRIES = {entry for page in API for entry in re.findall(r"^::: (\S+)", page.read_text(encoding="utf-8"), re.MULTILINE)}


def members(module: ModuleType) -> list[str]:
    """What a public module offers: what it lists, or the functions of its own."""
    listed = getattr(module, "__all__", None)
    own = [n for n, f in inspect.getmembers(module, inspect.isfunction) if f.__module__ == module.__name__]
    return [name for name in listed or own if not name.startswith("_")]


def public_names() -> dict[str, object]:
    """All public names, those of public modules with the module's before them, and what they stand for."""
    names = {}
    for name in hs.__all__:
        names |= named(name, getattr(hs, name))
    return names


def named(name: str, value: object) -> dict[str, object]:
    """A name and what it stands for; of a module, all that it offers."""
    if not isinstance(value, ModuleType):
        return {name: value}
    return {
        path: found
        for inner in members(value)
        for path, found in named(f"{name}.{inner}", getattr(value, inner)).items()
    }


NAMES = public_names()


@pytest.mark.parametrize("name", NAMES)
def test_name_has_an_entry(name: str):
    assert f"hiddenstate.{name}" in ENTRIES, f"add `::: hiddenstate.{name}` to a page in docs/api/"


@pytest.mark.parametrize("name", NAMES)
def test_name_has_a_docstring(name: str):
    value = NAMES[name]
    said = vars(value).get("__doc__") if isinstance(value, type) else value.__doc__
    made_up = f"{name.rpartition('.')[2]}("  # what a dataclass writes for itself
    assert said and not said.startswith(made_up), f"hs.{name} has no docstring"


def test_entries_are_public():
    known = {f"hiddenstate.{name}" for name in NAMES}
    also = {
        entry
        for entry in ENTRIES
        if entry.startswith(
            ("hiddenstate.strategies.", "hiddenstate.learn.", "hiddenstate.data.", "hiddenstate.report.")
        )
    }
    assert ENTRIES - known == also, "an entry that no public name stands for"


def test_every_api_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [page.name for page in API if f"api/{page.name}" not in navigation] == []
