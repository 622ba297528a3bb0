"""Distributions that are made when something is asked of them."""

from collections.abc import Callable
from functools import cache
from typing import Any

from numpyro.distributions import Distribution


class Awaited:
    """A distribution that is not made yet: at the first touch it becomes what it stands for.

    Who only follows the log-probability of a stream never touches its predictions, and pays nothing for them.
    """

    def __getattribute__(self, name: str) -> Any:
        _arrive(self)
        return getattr(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        _arrive(self)
        setattr(self, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the distribution gives when it is called."""
        _arrive(self)
        return self(*args, **kwargs)

    def __repr__(self) -> str:
        _arrive(self)
        return repr(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        _arrive(self)
        return self.__reduce_ex__(protocol)

    def tree_flatten(self) -> Any:
        """The distribution itself, which has its own class by then."""
        _arrive(self)
        return (self,), None

    @classmethod
    def tree_unflatten(cls, aux_data: Any, params: Any) -> Any:
        """The distribution itself."""
        del aux_data
        return params[0]


@cache
def awaited(family: type[Distribution]) -> type[Any]:
    """The class of distributions of that family that are not made yet, to be given to `await_`."""
    return type(family)(family.__name__, (Awaited, family), {"__doc__": family.__doc__, "__module__": __name__})


_new, _set, _get = object.__new__, object.__setattr__, object.__getattribute__


def await_(awaiting: type[Any], make: Callable[..., Distribution], *arguments: Any) -> Any:
    """The distribution that ``make(*arguments)`` will give, which is of the family of the class `awaiting`."""
    pending = _new(awaiting)
    _set(pending, "_awaited", (make, arguments))
    return pending


def _arrive(pending: Any) -> None:
    make, arguments = _get(pending, "_awaited")
    made = make(*arguments)
    held = _get(pending, "__dict__")
    _set(pending, "__class__", type(made))
    held.clear()
    held.update(vars(made))
