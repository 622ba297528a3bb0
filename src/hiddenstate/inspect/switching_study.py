"""When is the rule of the minimal GRU good inference? A study over how much an observation tells about the switch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax.random as jr
import numpy as np
import polars as pl

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import HiddenStateError, checked_key
from hiddenstate.inference import sample
from hiddenstate.inspect.posteriors import compare_posteriors
from hiddenstate.inspect.variational import variational_update
from hiddenstate.latent import SwitchCopy, emissions
from hiddenstate.latent.checks import whole

STATES = 4
RESET = 0.2
RIGHT = 0.7
"""How probably a state shows the symbol of its own."""

RULES = ("one_pass", "mean_field", "resets_only")


@dataclass(frozen=True, eq=False)
class SwitchingStudy:
    """How far each rule is from exact inference, against what an observation tells about the switch.

    `frame` has one row a level: `information`, I(x; z) in nats, and `share`, the same over the entropy of z. Then come
    means over sequences in nats per step, each with its standard error as `_error`. `one_pass`, `mean_field` and
    `resets_only` are divergences from the exact belief (see `hs.inspect.compare_posteriors`); `gate_bound` and `bound`
    are what the bound of `hs.inspect.variational_update` lacks, with gates that see one observation and after sweeps.
    """

    frame: pl.DataFrame

    def __str__(self) -> str:
        first, last = self.frame.row(0, named=True), self.frame.row(-1, named=True)
        return (
            f"The one-pass rule of minGRU is {first['one_pass']:.3f} ± {first['one_pass_error']:.3f} nats per step "
            f"from exact inference where x tells nothing about z, and {last['one_pass']:.3f} ± "
            f"{last['one_pass_error']:.3f} where it tells all {last['information']:.3f} nats. Mean field goes from "
            f"{first['mean_field']:.3f} to {last['mean_field']:.3f}; a rule that learns from resets only, from "
            f"{first['resets_only']:.3f} to {last['resets_only']:.3f}."
        )


def switching_study(
    *,
    key: PRNGKeyArray,
    sequences: int = 200,
    length: int = 50,
    levels: int = 9,
    kept: Literal["seen", "unseen"] = "seen",
    announce: Callable[[int], None] = lambda _: None,
) -> SwitchingStudy:
    r"""The gap between the rule of the minimal GRU and exact inference, as observations come to tell the switch.

    Each observation is a symbol with a flag. One of four states, drawn afresh with probability 0.2, shows the symbol of
    its own with probability 0.7; with ``kept="unseen"`` only where it is fresh, and otherwise any symbol. The flag is
    the switch, wrong with a probability that goes from a half to zero, in such steps that the mutual information
    :math:`I(x_t; z_t)`, which is computed exactly, goes evenly from zero to the entropy of the switch. At each of these
    `levels` that many `sequences` of `length` steps are drawn from the model, and beliefs compared; `announce` is told
    the number of each level, from one, when it begins.

    Where kept states are unseen, no observation depends on the past, so that a gate that sees one observation is exact:
    all that is left is that minGRU mixes logarithms.
    """
    for name, value in (("sequences", sequences), ("length", length), ("levels", levels)):
        if whole(name, value) < 2:
            raise HiddenStateError(f"{name} is {value}; it must be at least 2.")
    if kept not in ("seen", "unseen"):
        raise HiddenStateError(f"kept is {kept!r}; it must be 'seen' or 'unseen'.")
    keys = jr.split(checked_key(key), levels)
    models = [study_model(float(flag), kept) for flag in _flags(levels)]
    rows = []
    for number, (model, each) in enumerate(zip(models, keys, strict=True), 1):
        announce(number)
        rows.append(_level(model, each, sequences, length))
    return SwitchingStudy(pl.DataFrame(rows))


def study_model(flag: float, kept: Literal["seen", "unseen"] = "seen") -> SwitchCopy:
    """The model of the study: symbol 2 s + f is that of state s with the flag f, which is right by chance `flag`."""
    fresh_shows = RIGHT * np.eye(STATES) + (1 - RIGHT) / (STATES - 1) * (1 - np.eye(STATES))
    kept_shows = fresh_shows if kept == "seen" else np.full((STATES, STATES), 1 / STATES)
    probs = np.concatenate([np.kron(kept_shows, [flag, 1 - flag]), np.kron(fresh_shows, [1 - flag, flag])])
    return SwitchCopy(RESET, np.full(STATES, 1 / STATES), emissions.Categorical(probs=probs))


def switch_information(reset: float, prior: Any, kept: Any, fresh: Any) -> float:
    r"""The mutual information between one observation and its switch, in nats, where nothing else is known.

    .. math::

        I(x; z) = \sum_{z, x} P(z) P(x \mid z) \log \frac{P(x \mid z)}{P(x)}, \qquad
        P(x \mid z) = \sum_s P(s) P(x \mid s, z)

    `kept` and `fresh` are the probabilities (state, symbol) of observations at z = 0 and at z = 1.
    """
    given = np.stack([np.asarray(prior) @ np.asarray(kept), np.asarray(prior) @ np.asarray(fresh)])
    joint = np.array([1 - reset, reset])[:, None] * given
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(joint > 0, joint * np.log(given / joint.sum(0)), 0.0).sum())


def _flags(levels: int) -> np.ndarray:
    """Probabilities of a right flag at which the information goes evenly from nothing to all."""
    grid = 1 - np.geomspace(0.5, 1e-9, 2001)
    of_grid = [_flag_information(flag) for flag in grid]
    inner = np.interp(np.linspace(0, _flag_information(1.0), levels)[1:-1], of_grid, grid)
    return np.concatenate([[0.5], inner, [1.0]])


def _flag_information(flag: float) -> float:
    return switch_information(RESET, [1.0], [[flag, 1 - flag]], [[1 - flag, flag]])


def _level(model: SwitchCopy, key: PRNGKeyArray, sequences: int, length: int) -> dict[str, float]:
    data = sample(model, length, key=key, n=sequences)
    compared, bounded = compare_posteriors(model, data), variational_update(model, data)
    probs = np.asarray(model.emission.probs, np.float64)  # pyright: ignore[reportAttributeAccessIssue]
    information = switch_information(RESET, np.full(STATES, 1 / STATES), probs[:STATES], probs[STATES:])
    values = {name: compared.divergences[name].mean(axis=1) for name in RULES}
    values["gate_bound"] = (bounded.log_prob - bounded.bounds[:, 0]) / length
    values["bound"] = bounded.gap / length
    row = {"information": information, "share": information / _flag_information(1.0)}
    for name, each in values.items():
        row |= {name: float(each.mean()), f"{name}_error": float(each.std(ddof=1) / np.sqrt(sequences))}
    return row
