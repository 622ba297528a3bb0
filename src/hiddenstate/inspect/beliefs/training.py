"""How the belief comes into a hidden state while a network learns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import HiddenStateError, SequenceModel, checked_key
from hiddenstate.inference import step_log_probs
from hiddenstate.inference.observations import sequences_for
from hiddenstate.inspect.probes import probe
from hiddenstate.learn import SGD, fit


@dataclass(frozen=True, eq=False)
class ProbesOverTraining:
    """What each layer knows of the belief after more and more updates.

    `frame` has one row for each number of `updates`, `network` (numbered from 0, where there are several) and `layer`:
    `belief_r_squared`, `hidden_r_squared` and `divergence` as in `hs.inspect.LayerProbe`, `mean_divergence` as in
    `hs.inspect.Probe`; `nats_per_step` of the network, and `above_optimum`, what these are above those of the hidden
    Markov model on the same sequences, with its standard error `above_optimum_error` over sequences.
    """

    frame: pl.DataFrame

    def __str__(self) -> str:
        first, last = (self.frame.filter(pl.col("updates") == n) for n in (self.updates[0], self.updates[-1]))
        lines = [f"{'':28}{'R2 of belief':>14}{'KL, nats':>12}{'nats above the optimum':>26}"]
        for rows in (first, last):
            for row in rows.group_by("layer", maintain_order=True).median().iter_rows(named=True):
                said = f"{rows['updates'][0]} updates, {row['layer']}"
                lines.append(f"{said:28}{row['belief_r_squared']:14.4f}{row['divergence']:12.2g}")
                lines[-1] += f"{row['above_optimum']:26.4f}"
        return "\n".join(lines)

    @property
    def updates(self) -> list[int]:
        """The numbers of updates, rising."""
        return sorted(set(self.frame["updates"].to_list()))


def over_training(
    models: Mapping[int, SequenceModel | Sequence[SequenceModel]],
    hmm: SequenceModel,
    data: Any,
    *,
    key: PRNGKeyArray,
    whole_state: bool = False,
) -> ProbesOverTraining:
    """Probe networks after more and more updates: what they know of the belief, and what they lack in prediction.

    `models` are networks by the number of updates that they have learned for, one or several at each, such as
    `snapshots` makes. `data` are sequences that they have not learned from. All probes have the same held-out part of
    these, drawn with `key`; the nats are of all.

    >>> models = hs.inspect.beliefs.snapshots(gru, train, hs.SGD(), (0, 30, 300), key=key)  # doctest: +SKIP
    >>> print(hs.inspect.beliefs.over_training(models, hmm, test, key=key))  # doctest: +SKIP
    """
    if not models:
        raise HiddenStateError("models holds none; it must hold one or more networks by the number of their updates.")
    data = sequences_for(hmm, data)
    optimal = np.asarray(step_log_probs(hmm, data), np.float64).sum(axis=1)
    scored = data.lengths - (0 if data.context is None else data.context)
    rows = []
    for updates in sorted(models):
        each = models[updates]
        for number, model in enumerate([each] if isinstance(each, SequenceModel) else each):
            found = probe(model, hmm, data, key=key, whole_state=whole_state)
            nats = -np.asarray(step_log_probs(model, data), np.float64).sum(axis=1)
            above, error = _rate(nats + optimal, scored)
            common = {
                "mean_divergence": found.mean_divergence,
                "nats_per_step": float(nats.sum() / data.scored_steps),
                "above_optimum": above,
                "above_optimum_error": error,
            }
            for layer in found.layers:
                named = {"updates": int(updates), "network": number, "layer": layer.name}
                names = ("belief_r_squared", "hidden_r_squared", "divergence")
                rows.append(named | {name: getattr(layer, name) for name in names} | common)
    return ProbesOverTraining(pl.DataFrame(rows))


def snapshots(
    model: SequenceModel, data: Any, method: SGD, updates: Sequence[int], *, key: PRNGKeyArray
) -> dict[int, SequenceModel]:
    """A model after each of these numbers of updates by `method`, whose own budget and patience are set aside.

    One key gives the same updates, so a shorter run is the long one, interrupted; each is run from the beginning,
    which for numbers that grow by a factor costs little more than the longest. A learning rate that falls towards the
    end of a run would make runs differ, so the method may have none.
    """
    if not isinstance(method, SGD):
        raise HiddenStateError(f"the method is {method!r}; snapshots takes hs.SGD(...).")
    if method.decay is not None:
        raise HiddenStateError(
            f"decay is {method.decay!r}: the learning rate would depend on how long a run is, so that a shorter one is "
            "no part of a longer one. Leave it out, or give a schedule as learning_rate."
        )
    counts = sorted(set(updates))
    for count in counts:
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
            raise HiddenStateError(f"updates holds {count!r}; they must be whole numbers from 0 on.")
    key = checked_key(key)
    return {int(count): _after(model, data, method, int(count), key) for count in counts}


def _after(model: SequenceModel, data: Any, method: SGD, count: int, key: PRNGKeyArray) -> SequenceModel:
    """The model after so many updates: one look at the end, so that the last is also the best."""
    if count == 0:
        return model
    whole = replace(method, steps=count, epochs=None, patience=None, evaluate_every=None, evaluate_steps=count)
    return fit(model, data, whole, key=key, progress=False).model


def _rate(totals: np.ndarray, lengths: np.ndarray) -> tuple[float, float]:
    """The sum of totals over the sum of lengths, and its standard error over sequences."""
    rate = totals.sum() / lengths.sum()
    count = len(totals)
    spread = ((totals - rate * lengths) ** 2).sum() * count / max(count - 1, 1)
    return float(rate), float(np.sqrt(spread) / lengths.sum())
