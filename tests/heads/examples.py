"""One small head of every kind, and an observation that it can predict."""

import jax.random as jr
import numpy as np

from hiddenstate.heads import (
    Bernoulli,
    Categorical,
    Columns,
    Gaussian,
    Head,
    Mixture,
    NegativeBinomial,
    Poisson,
    StudentT,
)

HIDDEN = 3
KEY = jr.key(7)

PLAIN: dict[str, tuple[Head, np.ndarray]] = {
    "categorical": (Categorical(HIDDEN, 4, key=KEY), np.array(2)),
    "bernoulli": (Bernoulli(HIDDEN, 3, key=KEY), np.array([1, 0, 1])),
    "bernoulli scalar": (Bernoulli(HIDDEN, None, key=KEY), np.array(1)),
    "gaussian": (
        Gaussian(HIDDEN, 2, location=[919.0, -1.0], scale=[170.0, 0.1], key=KEY),
        np.array([850.0, -0.9]),
    ),
    "gaussian scalar": (Gaussian(HIDDEN, None, location=3.0, scale=2.0, key=KEY), np.array(3.5)),
    "gaussian full": (Gaussian(HIDDEN, 2, "full", scale=[1.0, 2.0], key=KEY), np.array([0.5, -1.0])),
    "student-t": (StudentT(HIDDEN, 2, location=1.0, scale=[2.0, 3.0], key=KEY), np.array([1.5, -4.0])),
    "student-t scalar": (StudentT(HIDDEN, None, key=KEY), np.array(-0.7)),
    "poisson": (Poisson(HIDDEN, 2, rate=[5.0, 0.2], key=KEY), np.array([7, 0])),
    "poisson scalar": (Poisson(HIDDEN, None, rate=30.0, key=KEY), np.array(25)),
    "negative-binomial": (NegativeBinomial(HIDDEN, 2, rate=[5.0, 0.2], key=KEY), np.array([9, 0])),
    "negative-binomial scalar": (NegativeBinomial(HIDDEN, None, rate=30.0, key=KEY), np.array(41)),
}


def _records(*names: str) -> tuple[Head, np.ndarray]:
    head = Columns({name: PLAIN[name][0] for name in names})
    return head, np.concatenate([np.atleast_1d(PLAIN[name][1]).astype(float) for name in names])


def _mixed(name: str, components: int = 3) -> tuple[Head, np.ndarray]:
    head, x = {**PLAIN, **RECORDS}[name]
    return Mixture(head, components, key=KEY), x


RECORDS = {
    "columns": _records("categorical", "gaussian full", "bernoulli scalar", "negative-binomial scalar"),
}
MIXTURES = {f"mixture of {name}": _mixed(name) for name in (*PLAIN, *RECORDS) if "scalar" not in name}
MIXTURES["mixture of gaussian scalar"] = _mixed("gaussian scalar")
NESTED = {
    "mixture of mixtures": (Mixture(MIXTURES["mixture of gaussian"][0], 2, key=KEY), PLAIN["gaussian"][1]),
    "columns of mixtures": (
        Columns(
            [
                ("symbol", MIXTURES["mixture of categorical"][0]),
                ("reals", MIXTURES["mixture of gaussian full"][0]),
            ]
        ),
        np.array([2.0, 0.5, -1.0]),
    ),
}
HEADS = {**PLAIN, **RECORDS, **MIXTURES, **NESTED}
