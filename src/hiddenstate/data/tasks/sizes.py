"""The check that every task makes of its sizes."""

from hiddenstate.core import DataError


def check_sizes(least: int = 1, **sizes: int) -> None:
    """DataError if one of the named sizes is no whole number of at least `least`."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < least:
            raise DataError(f"{name} is {size!r}; it must be a whole number of at least {least}.")
