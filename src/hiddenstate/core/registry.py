"""Names for classes (what model files store) and for recipes (what `hs.build` and the command line take)."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar

from hiddenstate.core.errors import RegistryError

Class = TypeVar("Class", bound=type)
Recipe = TypeVar("Recipe", bound=Callable[..., Any])

_classes: dict[str, type] = {}
_recipes: dict[str, Callable[..., Any]] = {}
_taken: dict[str, tuple[str, ...]] = {}


def register(name: str) -> Callable[[Class], Class]:
    """Class decorator: model files may hold objects of this class, under this name.

    Loading builds only registered classes and runs none of their code.
    """

    def add(cls: Class) -> Class:
        known = _classes.get(name)
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise RegistryError(f"the name {name!r} is taken already, by {known.__module__}.{known.__qualname__}.")
        _classes[name] = cls
        return cls

    return add


def recipe(
    name: str, *, takes: tuple[Literal["sequences", "pairs"], ...] = ("sequences",)
) -> Callable[[Recipe], Recipe]:
    """Function decorator: ``hs.build(name, data, key=key, **options)`` calls this function.

    `takes` says for which data it makes a model: `Sequences`, `Pairs`, or both.
    """

    def add(function: Recipe) -> Recipe:
        _recipes[name] = function
        _taken[name] = takes
        return function

    return add


def registered_class(name: str) -> type:
    """The class of that name, for reading a file."""
    if name not in _classes:
        raise RegistryError(f"there is no class registered as {name!r} here; import the module that defines it first.")
    return _classes[name]


def registered_name(cls: type) -> str:
    """The name of that class, for writing a file."""
    for name, known in _classes.items():
        if known is cls:
            return name
    raise RegistryError(
        f"{cls.__qualname__} has no registered name; decorate the class with @hs.register('some-name')."
    )


def recipe_named(name: str) -> Callable[..., Any]:
    """The recipe of that name."""
    if name not in _recipes:
        raise RegistryError(f"there is no model named {name!r}; known are {_listed(recipe_names())}.")
    return _recipes[name]


def recipe_names(takes: Literal["sequences", "pairs"] | None = None) -> tuple[str, ...]:
    """The names of all recipes, in alphabetical order; or of those for one kind of data."""
    return tuple(sorted(name for name in _recipes if takes is None or takes in _taken[name]))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
