"""Tasks that ask for another sequence: a string backwards, a date in one form for all."""

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from string import ascii_lowercase

import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import Column, Pairs, Schema, Sequences
from hiddenstate.data.tasks.checks import check_sizes, generator

_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_FIRST, _LAST = date(1950, 1, 1), date(2049, 12, 31)

_FORMS: tuple[Callable[[date], str], ...] = (
    lambda day: f"{day.day} {_month(day)} {day.year}",
    lambda day: f"{_month(day)} {day.day}, {day.year}",
    lambda day: f"{_month(day)[:3]} {day.day}, {day.year}",
    lambda day: f"{day.day} {_month(day)[:3]} {day.year % 100:02}",
    lambda day: f"{day.day:02}/{day.month:02}/{day.year % 100:02}",
    lambda day: f"{day.day}.{day.month}.{day.year}",
    lambda day: f"{_WEEKDAYS[day.weekday()]}, {day.day} {_month(day)} {day.year}",
)


def reversing(*, length: int = 12, symbols: int = 26, sequences: int, key: PRNGKeyArray) -> Pairs:
    """Random strings of 1 to `length` symbols, every length as often, each with its reversal.

    The last symbol read is the first to be written, and the first one must be kept longest: the whole string has to be
    in the state when writing begins. The symbols are letters, or numbers where there are more than 26.
    """
    check_sizes(length=length, symbols=symbols, sequences=sequences)
    random = generator(key)
    lengths = random.integers(1, length + 1, size=sequences)
    values = random.integers(symbols, size=(sequences, length), dtype=np.int32)
    backwards = np.maximum(lengths[:, None] - 1 - np.arange(length), 0)
    few = symbols <= len(ascii_lowercase)
    names = tuple(ascii_lowercase[:symbols]) if few else tuple(str(i) for i in range(symbols))
    schema = Schema((Column("text", "symbol", symbols, names),), scalar=True, text="characters" if few else "tokens")
    longest = lengths.max()
    targets = np.take_along_axis(values, backwards, axis=1)
    return Pairs(
        Sequences.padded(values[:, :longest], lengths, schema=schema),
        Sequences.padded(targets[:, :longest], lengths, schema=schema),
    )


def dates(*, sequences: int, key: PRNGKeyArray) -> Pairs:
    """Days from 1950 to 2049 as people write them, each with the date of ISO 8601, character by character.

    Seven ways of writing, each as often: ``3 March 1998``, ``March 3, 1998``, ``Mar 3, 1998``, ``3 Mar 98``,
    ``03/03/98`` (the day first), ``3.3.1998`` and ``Tuesday, 3 March 1998``; all stand for ``1998-03-03``. Years of two
    digits are those from 1950 to 2049, so that every text has one answer.
    """
    check_sizes(sequences=sequences)
    random = generator(key)
    offsets = random.integers((_LAST - _FIRST).days + 1, size=sequences)
    forms = random.integers(len(_FORMS), size=sequences)
    days = [_FIRST + timedelta(days=int(offset)) for offset in offsets]
    sources = [_FORMS[form](day) for form, day in zip(forms, days, strict=True)]
    return Pairs(
        _characters(sources, "".join((*_MONTHS, *_WEEKDAYS, "0123456789 ,./"))),
        _characters([day.isoformat() for day in days], "0123456789-"),
    )


def _month(day: date) -> str:
    return _MONTHS[day.month - 1]


def _characters(texts: Sequence[str], alphabet: str) -> Sequences:
    """Texts as sequences of characters of a given alphabet, whichever of them occur."""
    names = tuple(sorted(set(alphabet)))
    codes = {name: code for code, name in enumerate(names)}
    schema = Schema((Column("text", "symbol", len(names), names),), scalar=True, text="characters")
    return Sequences.of([np.array([codes[c] for c in text], np.int32) for text in texts], schema=schema)
