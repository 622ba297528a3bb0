"""Networks: every cell, every read-out, stacks, several particles, and baselines."""

import jax.random as jr
import numpy as np

import hiddenstate as hs
from laws.cases.parts import (
    CELLS,
    HEADS,
    SYMBOLS,
    Case,
    baseline,
    line,
    network,
    perturbed,
    positive_start,
    stack,
    turn,
)

CASES: dict[str, Case] = {}
for number, name in enumerate(CELLS):
    both = ("categorical", "gaussian")
    for head in both if name in hs.recipe_names() else both[number % 2 :][:1]:  # one head for variants
        learned = (number + (head == "gaussian")) % 2 == 0
        make = network(name, head, "learned" if learned else "zero")
        CASES[f"{name}, {head}"] = Case(
            name.split()[0],
            positive_start(make) if "log" in name else make,
            HEADS[head][1],
            precisions=turn(number + (head == "gaussian")),
        )
for number, head in enumerate(head for head in HEADS if head not in ("categorical", "gaussian")):
    make = network("vanilla", head, "learned")
    CASES[f"vanilla, {head}"] = Case("vanilla", make, HEADS[head][1], precisions=turn(number))

BETWEEN = ({}, {"residual": True}, {"norm": True, "residual": True, "feedforward": 2}, {"softmax": True})
for number, name in enumerate(name for name in CELLS if name in hs.recipe_names()):
    for learned in (False, True):  # stacks in one precision each, heads and what is between layers by turns
        head = ("categorical", "gaussian")[(number + learned) % 2]
        options = BETWEEN[(number + 2 * learned) % 4]
        make = stack(name, head, "learned" if learned else "zero", **options)
        CASES[f"stack of {name}, {head}"] = Case(name, make, HEADS[head][1], precisions=turn(number // 2 + learned))


def multi_particle(make, **options):
    """Three particles under the dynamics of a network."""
    return lambda key: perturbed(hs.MultiParticle(make(key), 3, **options, key=key), key)


for number, (name, make, head, options) in enumerate(
    (
        ("gru", network("gru", "categorical", "zero"), "categorical", {"weighting": "trajectory", "mixing": "learned"}),
        ("mingru", network("mingru", "gaussian", "zero"), "gaussian", {"bias": True}),
        ("stack of mingru", stack("mingru", "mixture-categorical", "zero"), "mixture-categorical", {}),
    )
):
    CASES[f"multi-particle {name}, {head}"] = Case(
        "multi-particle", multi_particle(make, **options), HEADS[head][1], precisions=turn(number)
    )

for number, (name, make, head) in enumerate(
    (
        ("gru", network("gru", "categorical", "learned", inputs=2), "categorical"),
        ("mingru", network("mingru", "gaussian", "learned", inputs=1), "gaussian"),
        ("lstm", network("lstm peepholes", "gaussian", "zero", inputs=2), "gaussian"),
        ("vanilla", network("vanilla", "bernoulli", "learned", inputs=2), "bernoulli"),
        ("skip", network("skip", "categorical", "zero", inputs=2), "categorical"),
        ("output-feedback", network("output-feedback", "categorical", "zero", inputs=2), "categorical"),
        ("stack of minlstm", stack("minlstm", "categorical", "learned", inputs=2, residual=True), "categorical"),
        (
            "multi-particle mingru",
            multi_particle(network("mingru", "categorical", "zero", inputs=2), bias=True),
            "categorical",
        ),
    )
):
    CASES[f"{name} with inputs, {head}"] = Case("inputs", make, HEADS[head][1], precisions=turn(number))

for number, (name, make, head) in enumerate(
    (
        ("gru", network("gru", "categorical", "learned"), "categorical"),
        ("mingru with inputs", network("mingru", "gaussian", "zero", inputs=2), "gaussian"),
        ("linear", network("linear", "mixture-gaussian", "zero"), "mixture-gaussian"),
        ("stack of lstm", stack("lstm", "bernoulli", "learned"), "bernoulli"),
    )
):
    make_first = lambda key, make=make: perturbed(hs.FirstStep(make(key)), jr.fold_in(key, 1))  # noqa: E731
    CASES[f"first step of {name}, {head}"] = Case("first-step", make_first, HEADS[head][1], precisions=turn(number))

SYMBOL_DATA = [np.array([0, 1, 2, 1, 0, 0, 2])]
REAL_DATA = [np.array([0.3, -1.0, 0.4, 1.2, 0.1])]
for number, (name, data, grid) in enumerate(
    (
        ("unigram", SYMBOL_DATA, SYMBOLS),
        ("last", SYMBOL_DATA, SYMBOLS),
        ("bigram", SYMBOL_DATA, SYMBOLS),
        ("unigram", REAL_DATA, line()),
        ("last", REAL_DATA, line()),
        ("ar1", REAL_DATA, line()),
    )
):
    kind = "symbols" if data is SYMBOL_DATA else "real"
    make = baseline(name, lambda d=data: hs.Sequences.of(d))
    CASES[f"{name}, {kind}"] = Case(name, make, grid, precisions=turn(number))
