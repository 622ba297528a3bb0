"""The tasks that ask for another sequence: every target is the right one, by another way of finding it."""

import re
from datetime import date, datetime

import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.data import to_text

FORMS = {
    r"\d+ [A-Z][a-z]{2,} \d{4}": "%d %B %Y",
    r"[A-Z][a-z]{2,} \d+, \d{4}": "%B %d, %Y",
    r"[A-Z][a-z]{2} \d+, \d{4}": "%b %d, %Y",
    r"\d+ [A-Z][a-z]{2} \d{2}": "%d %b %y",
    r"\d{2}/\d{2}/\d{2}": "%d/%m/%y",
    r"\d+\.\d+\.\d{4}": "%d.%m.%Y",
    r"[A-Z][a-z]+day, \d+ [A-Z][a-z]+ \d{4}": "%A, %d %B %Y",
}


def parsed(text: str) -> tuple[str, date]:
    """The form that a text has and the day it means, by the standard library's parser."""
    for pattern, form in FORMS.items():
        if re.fullmatch(pattern, text):
            try:
                day = datetime.strptime(text, form).date()
            except ValueError:
                continue
            return form, day.replace(year=day.year - 100) if day.year > 2049 else day
    raise AssertionError(f"{text!r} has none of the forms")


def test_reversals_are_reversed():
    pairs = hs.tasks.reversing(length=5, symbols=4, sequences=400, key=jr.key(0))
    sources, targets = to_text(pairs.sources), to_text(pairs.targets)
    assert targets == [text[::-1] for text in sources]
    counts = np.bincount([len(text) for text in sources], minlength=6)
    assert counts[0] == 0 and (np.abs(counts[1:] - 80) < 4 * np.sqrt(400 * 0.2 * 0.8)).all()
    assert set("".join(sources)) == set("abcd")


def test_many_symbols_are_numbers():
    pairs = hs.tasks.reversing(length=3, symbols=30, sequences=20, key=jr.key(0))
    assert to_text(pairs.targets) == [" ".join(reversed(text.split())) for text in to_text(pairs.sources)]


def test_dates_mean_their_targets():
    pairs = hs.tasks.dates(sequences=700, key=jr.key(1))
    seen = {}
    for text, target in zip(to_text(pairs.sources), to_text(pairs.targets), strict=True):
        form, day = parsed(text)
        seen[form] = seen.get(form, 0) + 1
        assert target == f"{day.year}-{day.month:02}-{day.day:02}"
        assert 1950 <= day.year <= 2049
    # May is as long as its abbreviation, so that two of the forms can be read as one another.
    assert len(seen) == 7 and min(seen.values()) > 60


@pytest.mark.parametrize("make", [hs.tasks.reversing, hs.tasks.dates])
def test_the_vocabulary_does_not_depend_on_the_draw(make):
    few, many = (make(sequences=n, key=jr.key(2)) for n in (1, 200))
    assert few.sources.schema == many.sources.schema and few.targets.schema == many.targets.schema
    assert (many.sources.values[0] == make(sequences=200, key=jr.key(2)).sources.values[0]).all()
    with pytest.raises(hs.DataError, match="sequences is 0"):
        make(sequences=0, key=jr.key(0))
