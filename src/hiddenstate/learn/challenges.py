"""Tasks of memory with a mark that says whether a network has solved them, and who is to try."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax.random as jr

from hiddenstate._types import PRNGKeyArray
from hiddenstate.catalogue import build
from hiddenstate.core import HiddenStateError, Pairs
from hiddenstate.data import tasks
from hiddenstate.learn.compare import Comparison, Parts, ranked
from hiddenstate.learn.fit import fit
from hiddenstate.learn.method import Fit
from hiddenstate.learn.sgd import SGD

HELD_OUT = 1000
"""How many pairs decide when to stop, and as many say in the end whether a task is solved."""


@dataclass(frozen=True)
class Challenge:
    """A task, how many examples there are to learn from and how, what counts as solved, and who tries.

    `contenders` are recipes with their options, under the names that they have in the table. `make` draws so many pairs
    by a key. `test` draws what is held out where that is not to be like the rest: a task with its `pairs`, whose
    ``optimal(pairs)`` knows the best possible answers.
    """

    about: str
    make: Callable[[int, PRNGKeyArray], Pairs]
    solved: float
    contenders: Mapping[str, tuple[str, Mapping[str, Any]]]
    sequences: int
    method: SGD
    test: Callable[[int, PRNGKeyArray], Any] | None = None


_METHOD = SGD(steps=3000, batch_size=64, learning_rate=1e-2, evaluate_steps=250, patience=6, tolerance=1e-3)

_clock = partial(tasks.clock, hours=12, slip=0.01)

CHALLENGES: dict[str, Challenge] = {
    "adding": Challenge(
        "the sum of two marked numbers among 100 (squared error below 0.01)",
        lambda n, key: tasks.adding(length=100, sequences=n, key=key).pairs,
        0.01,
        {"lstm": ("lstm", {"hidden": 32, "forget_bias": 3.0})},
        8000,
        _METHOD,
    ),
    "parity": Challenge(
        "after each of 40 bits, whether the ones so far are odd (accuracy above 0.99)",
        lambda n, key: tasks.parity(length=40, sequences=n, key=key).pairs,
        0.99,
        {
            "gru": ("gru", {"hidden": 16}),
            "mingru": ("mingru", {"hidden": 64}),
            "mingru (2 layers)": ("mingru", {"hidden": 32, "layers": 2, "residual": True, "norm": True}),
        },
        4000,
        _METHOD,
    ),
    "selective-copying": Challenge(
        "4 symbols among 60 blanks, repeated in their order (accuracy above 0.95)",
        lambda n, key: tasks.selective_copying(length=64, tokens=4, symbols=16, sequences=n, key=key).pairs,
        0.95,
        {
            "mingru": ("mingru", {"hidden": 64}),
            "mingru (3 layers)": ("mingru", {"hidden": 64, "layers": 3, "residual": True, "norm": True}),
        },
        8000,
        replace(_METHOD, learning_rate=5e-3),
    ),
    "reversing": Challenge(
        "strings of 1 to 12 letters backwards (exact match above 0.98)",
        lambda n, key: tasks.reversing(length=12, symbols=10, sequences=n, key=key),
        0.98,
        {"encoder-decoder": ("encoder-decoder", {"cell": "gru", "hidden": 128, "bidirectional": True})},
        40_000,
        replace(_METHOD, steps=2500, learning_rate=5e-3, decay="cosine", patience=None),
    ),
    "clock": Challenge(
        "what a clock shows that was last seen some steps ago (accuracy above 0.75; the best possible is 0.82)",
        lambda n, key: _clock(sequences=n, key=key, length=40, reset=0.1).pairs,
        0.75,
        {
            "turning": ("turning", {"hidden": 16}),
            "turning (P)": ("turning", {"hidden": 24, "between": "stochastic"}),
            "mingru": ("mingru", {"hidden": 32}),
            "mingru (x2)": ("mingru", {"hidden": 32, "layers": 2, "residual": True, "norm": True}),
            "gru": ("gru", {"hidden": 32}),
        },
        2000,
        replace(_METHOD, steps=1500, patience=None, decay="cosine"),
        lambda n, key: _clock(sequences=n, key=key, length=200, reset=0.04),
    ),
}
"""The tasks of `hiddenstate compare --task`, by their names."""


def attempt(
    name: str,
    contenders: Sequence[str] | None = None,
    *,
    key: PRNGKeyArray,
    progress: bool = True,
    announce: Callable[[str], None] | None = None,
    sequences: int | None = None,
    steps: int | None = None,
) -> Comparison:
    """Let networks learn a task from its examples and see on new ones who has solved it.

    `contenders` are some of the challenge's own, or recipes, which then take the options of its first one that they
    know. `sequences` and `steps` shorten it.
    """
    challenge = CHALLENGES[name]
    tried = chosen(name, challenge.contenders, contenders)
    train_key, validation_key, test_key, *keys = jr.split(key, 3 + len(tried))
    count = sequences or challenge.sequences
    held = min(HELD_OUT, count)
    known = None if challenge.test is None else challenge.test(held, test_key)
    parts = Parts(
        challenge.make(count, train_key),
        challenge.make(held, validation_key),
        challenge.make(held, test_key) if known is None else known.pairs,
        f"{count} pairs to learn from, {held} to stop by, {held} held out.",
    )
    method = challenge.method if steps is None else replace(challenge.method, steps=steps)
    found: dict[str, tuple[Fit, float]] = {}
    for (label, (recipe, options)), own_key in zip(tried.items(), keys, strict=True):
        if announce is not None:
            announce(label)
        build_key, fit_key = jr.split(own_key)
        began = time.perf_counter()
        model = build(recipe, parts.train, key=build_key, **options)
        result = fit(model, parts.train, method, key=fit_key, validation=parts.validation, progress=progress)
        found[label] = result, time.perf_counter() - began
    return ranked(found, parts, known, key=key, threshold=challenge.solved)


def chosen(
    name: str, contenders: Mapping[str, tuple[str, Mapping[str, Any]]], names: Sequence[str] | None
) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """The contenders of a task, or those that are named; a recipe takes the size of the first contender."""
    if names is None:
        return dict(contenders)
    unknown = [label for label in names if label not in contenders and "(" in label]
    if unknown:
        known = ", ".join(contenders)
        raise HiddenStateError(f"{name} has no contender {unknown[0]!r}; it has {known}, or takes the name of a model.")
    hidden = next(iter(contenders.values()))[1]["hidden"]
    return {label: contenders.get(label, (label, {"hidden": hidden})) for label in names}
