"""Tasks of memory: copying after a delay, copying what matters, parity, adding."""

from math import comb, log

import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import Column, DataError, Schema, Sequences
from hiddenstate.data.tasks.checks import check_sizes, generator
from hiddenstate.data.tasks.labelled import LabelledTask


def copying(*, symbols: int = 8, memory: int = 10, delay: int = 100, sequences: int, key: PRNGKeyArray) -> LabelledTask:
    """Repeat what was read before a delay: random symbols, a wait, a sign to go, the same symbols again.

    After Hochreiter and Schmidhuber (1997), in the form of Arjovsky, Shah and Bengio (2016): `memory` symbols
    of `symbols` kinds, ``delay - 1`` blanks, the sign, `memory` blanks; the answers are blanks up to the
    sign, then the symbols. A model without memory pays ``memory * log(symbols) / (delay + 2 * memory)`` nats
    per step. The codes are 0 to ``symbols - 1``, then the blank, then the sign.
    """
    check_sizes(symbols=symbols, memory=memory, delay=delay, sequences=sequences)
    schema = _schema(symbols)
    blank, go = symbols, symbols + 1
    kept = generator(key).integers(symbols, size=(sequences, memory), dtype=np.int32)
    wait = np.full((sequences, delay), blank, np.int32)
    wait[:, -1] = go
    blanks = np.full_like(kept, blank)
    targets = np.concatenate([np.full((sequences, memory + delay), blank, np.int32), kept], axis=1)
    return LabelledTask(
        data=Sequences.padded(np.concatenate([kept, wait, blanks], axis=1), schema=schema),
        targets=targets,
        scored=_last(targets, memory),
        baseline=memory * log(symbols) / (delay + 2 * memory),
        stream=Sequences.padded(np.concatenate([kept, wait, kept], axis=1), schema=schema),
        optimal_log_prob=-memory * log(symbols),
    )


def selective_copying(
    *, length: int = 4096, tokens: int = 16, symbols: int = 16, sequences: int, key: PRNGKeyArray
) -> LabelledTask:
    """Repeat the `tokens` symbols that stand at random places among `length` steps of blanks.

    Gu and Dao (2023, section 4.1.1): unlike plain copying it cannot be solved by a fixed delay, the model
    must choose by content what to keep. After the `length` steps comes the sign to go, and then the answers,
    in their order. The codes are 0 to ``symbols - 1``, then the blank, then the sign.
    """
    check_sizes(length=length, tokens=tokens, symbols=symbols, sequences=sequences)
    if tokens > length:
        raise DataError(f"tokens is {tokens}; there is place for {length}, the length.")
    schema = _schema(symbols)
    blank, go = symbols, symbols + 1
    random = generator(key)
    kept = random.integers(symbols, size=(sequences, tokens), dtype=np.int32)
    # The places of the `tokens` smallest of `length` random numbers are a uniform choice among all.
    places = np.sort(np.argpartition(random.random((sequences, length)), tokens - 1, axis=1)[:, :tokens], axis=1)
    body = np.full((sequences, length), blank, np.int32)
    np.put_along_axis(body, places, kept, axis=1)
    sign = np.full((sequences, 1), go, np.int32)
    targets = np.concatenate([np.full((sequences, length + 1), blank, np.int32), kept], axis=1)
    return LabelledTask(
        data=Sequences.padded(np.concatenate([body, sign, np.full_like(kept, blank)], axis=1), schema=schema),
        targets=targets,
        scored=_last(targets, tokens),
        baseline=tokens * log(symbols) / (length + 1 + tokens),
        stream=Sequences.padded(np.concatenate([body, sign, kept], axis=1), schema=schema),
        optimal_log_prob=-(log(comb(length, tokens)) + tokens * log(symbols)),
    )


def parity(*, length: int, sequences: int, key: PRNGKeyArray) -> LabelledTask:
    """Say after each random bit whether the number of ones so far is odd.

    One bit of memory suffices, yet no answer can be given from less than the whole past, and no linear
    recurrence with gates between 0 and 1 counts modulo two at every length (Grazzi et al. 2024). In the
    stream each bit is followed by its answer.
    """
    check_sizes(length=length, sequences=sequences)
    bits = generator(key).integers(2, size=(sequences, length), dtype=np.int32)
    odd = np.bitwise_xor.accumulate(bits, axis=1)
    schema = Schema((Column("bit", "symbol", 2),), scalar=True)
    return LabelledTask(
        data=Sequences.padded(bits, schema=schema),
        targets=odd,
        scored=None,
        baseline=log(2),
        stream=Sequences.padded(np.stack([bits, odd], axis=2).reshape(sequences, 2 * length), schema=schema),
        optimal_log_prob=-length * log(2),
    )


def adding(*, length: int, sequences: int, key: PRNGKeyArray) -> LabelledTask:
    """Add the two numbers that are marked, one in either half of a sequence of random numbers.

    The adding problem of Hochreiter and Schmidhuber (1997, experiment 4) in the form of Arjovsky, Shah and
    Bengio (2016): an observation is a number, uniform between 0 and 1, and a mark, 1 at two
    steps and 0 at all others. The target is the sum of the marked numbers; always answering 1 has a mean
    squared error of 1/6.
    """
    check_sizes(least=2, length=length)
    check_sizes(sequences=sequences)
    random = generator(key)
    numbers = random.random((sequences, length))
    half = length // 2
    marked = np.stack([random.integers(half, size=sequences), random.integers(half, length, size=sequences)], axis=1)
    marks = np.zeros((sequences, length))
    np.put_along_axis(marks, marked, 1.0, axis=1)
    schema = Schema((Column("number", "real"), Column("mark", "bit")), scalar=False)
    return LabelledTask(
        data=Sequences.padded(np.stack([numbers, marks], axis=2), schema=schema),
        targets=(numbers * marks).sum(axis=1),
        scored=None,
        baseline=1 / 6,
    )


def _schema(symbols: int) -> Schema:
    names = (*(str(i) for i in range(symbols)), "blank", "go")
    return Schema((Column("symbol", "symbol", symbols + 2, names),), scalar=True)


def _last(targets: np.ndarray, steps: int) -> np.ndarray:
    return np.broadcast_to(np.arange(targets.shape[1]) >= targets.shape[1] - steps, targets.shape)
