"""The project's errors: each sentence names the argument, what it got and what it takes."""


class HiddenStateError(ValueError):
    """Something the caller can put right; every error the library raises on bad input is one."""


class DataError(HiddenStateError):
    """Observations, lengths or inputs that a model or a function cannot take."""


class MissingDataError(DataError):
    """Missing observations under a model that cannot marginalise them."""


class StrategyError(HiddenStateError):
    """An unroll strategy that this recurrence cannot follow."""


class FileError(HiddenStateError):
    """A file that is unreadable, truncated, of another version or not ours."""


class RegistryError(HiddenStateError):
    """A name that nothing is registered under, or that is taken already."""
