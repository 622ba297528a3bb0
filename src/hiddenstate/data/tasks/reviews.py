"""Short reviews made of a small grammar, whose mood depends on the order of words."""

import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import Column, Pairs, Schema, Sequences
from hiddenstate.data.tasks.checks import check_sizes, generator

ARTICLES = ("the", "this", "their", "our")
NOUNS = ("food", "service", "room", "film", "music", "story", "staff", "place")
VERBS = ("was", "is", "seemed", "felt")
NEGATIONS = ("not", "never")
INTENSIFIERS = ("very", "really", "so")
NEGATIVE = ("bad", "awful", "dull", "poor", "slow", "cold", "boring", "dirty")
POSITIVE = ("good", "great", "lovely", "fine", "quick", "warm", "exciting", "clean")
TAILS = ("today", "here", "again", "overall")
JOINTS = ("and", "but")

VOCABULARY = tuple(
    sorted({*ARTICLES, *NOUNS, *VERBS, *NEGATIONS, *INTENSIFIERS, *NEGATIVE, *POSITIVE, *TAILS, *JOINTS})
)
CLAUSES = 3
"""The most clauses of a review."""

NEGATED, STRONG, CONTRAST = 0.15, 0.3, 0.4
"""The shares of clauses with a negation and with an intensifier, and of longer reviews with a "but"."""

_NOTHING = -1


def reviews(*, sequences: int, key: PRNGKeyArray) -> Pairs:
    """Reviews such as "the food was not very good but our room felt lovely", each with its mood, negative or positive.

    A review has one to three clauses, 3 to 23 words in all. A clause praises or blames; "not" and "never" turn that
    round, "very", "really" and "so" make it count twice. The mood is that of the clause behind "but", where there is
    one, otherwise that of the sum of all clauses, never a tie. Counting words is right in about four of five reviews
    (a logistic regression on counts in 0.79); the rest is in their order.
    """
    check_sizes(sequences=sequences)
    random = generator(key)
    shape = sequences, CLAUSES
    there = np.arange(CLAUSES) < random.integers(1, CLAUSES + 1, sequences)[:, None]
    last = there & ~np.roll(there, -1, axis=1)
    last[:, -1] = there[:, -1]
    praised, negated, strong, contrast = (random.random(shape) < p for p in (0.5, NEGATED, STRONG, CONTRAST))
    contrast &= last & (np.arange(CLAUSES) > 0)
    weight = np.where(contrast.any(axis=1, keepdims=True), contrast, there) * (1 + strong)
    mood = (weight * np.where(praised ^ negated, 1, -1)).sum(axis=1)
    praised ^= last & (np.asarray(mood) == 0)[:, None]
    mood = (weight * np.where(praised ^ negated, 1, -1)).sum(axis=1)
    words = _words(random, there, praised, negated, strong, contrast)
    kept = words != _NOTHING
    order = np.argsort(~kept, axis=1, kind="stable")
    lengths = kept.sum(axis=1)
    codes = np.take_along_axis(words, order, axis=1)[:, : lengths.max()].astype(np.int32)
    text = Schema((Column("text", "symbol", len(VOCABULARY), VOCABULARY),), scalar=True, text="tokens")
    moods = Schema((Column("mood", "symbol", 2, ("negative", "positive")),), scalar=True, outputs="sequence")
    sources = Sequences.padded(np.maximum(codes, 0), lengths, schema=text)
    return Pairs(sources, Sequences.padded((mood > 0).astype(np.int32)[:, None], names=sources.names, schema=moods))


def _words(
    random: np.random.Generator,
    there: np.ndarray,
    praised: np.ndarray,
    negated: np.ndarray,
    strong: np.ndarray,
    contrast: np.ndarray,
) -> np.ndarray:
    """The codes of all words, (review, place), with nothing where a word is left out."""

    def some(words: tuple[str, ...], where: np.ndarray) -> np.ndarray:
        codes = np.array([VOCABULARY.index(word) for word in words])
        return np.where(where, codes[random.integers(len(words), size=there.shape)], _NOTHING)

    follows = there & (np.arange(there.shape[1]) > 0)
    joint = np.where(contrast, some(("but",), follows), some(("and",), follows))
    adjective = np.where(praised, some(POSITIVE, there), some(NEGATIVE, there))
    slots = [
        joint,
        some(ARTICLES, there & (random.random(there.shape) < 0.7)),
        some(NOUNS, there),
        some(VERBS, there),
        some(NEGATIONS, there & negated),
        some(INTENSIFIERS, there & strong),
        adjective,
        some(TAILS, there & (random.random(there.shape) < 0.2)),
    ]
    return np.stack(slots, axis=2).reshape(len(there), -1)
