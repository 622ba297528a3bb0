r"""How fast an observer comes to know the hidden state: uncertainty against the number of steps seen.

Before anything was seen the belief is the initial one; with every observation its mean entropy
:math:`H(z_t \mid x_1 \ldots x_{t-1})` comes nearer to what can be known at all, and the entropy of the next
observation nearer to the entropy rate. Crutchfield and Feldman (2003) call this synchronisation. Where the next state
is a matter of chance even for one who knows the last, the entropy of the belief :math:`p(z_t \mid x_{<t})` stays above
zero: that of the state behind the last observation, :math:`H(z_{t-1} \mid x_{<t})`, need not.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import polars as pl

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import DataError, HiddenStateError, SequenceModel, Sequences, checked_key, has, name_of
from hiddenstate.inference import predictive, states, step_log_probs
from hiddenstate.inference.observations import prototype, sequences_for
from hiddenstate.inference.posterior import filter as exact_filter
from hiddenstate.inspect.hidden_vectors import as_beliefs, beliefs_of, layer_of, vectors_of
from hiddenstate.inspect.regression import parted, softmax_regression

TAIL = 0.25
"""What curves settle to is their mean over the last part of the steps."""

REACHED = 0.25
"""Steps that a smaller share of the sequences reaches are not judged: there a few sequences speak for all."""

QUANTILES = {"low": 0.1, "median": 0.5, "high": 0.9}


@dataclass(frozen=True, eq=False)
class Synchronisation:
    """Uncertainty against the number of steps seen, in nats; means are over sequences.

    `frame` has one row for each number of observations `seen`, from none. `belief_entropy` is the mean entropy of the
    belief over the next hidden state, with its standard error `belief_entropy_error` and the quantiles `belief_low`,
    `belief_median` and `belief_high` (0.1, 0.5 and 0.9) over sequences; `state_entropy` is that of the belief over the
    state behind the last observation, where the model can filter; `predictive_entropy` that of the distribution of the
    next observation, where these are symbols; `cross_entropy`, with `cross_entropy_error`, what the next observation
    costs. A column is all null where there is no such thing. `sequences` says how many reach so far.

    The first `judged` rows are those that at least a quarter of the sequences reach; `belief_limit` and `entropy_rate`
    are the means of `belief_entropy` and `cross_entropy` over the last quarter of these, in which every observation
    counts the same. `belief_after` and `prediction_after` are the numbers of steps to be seen from which on each mean
    stays within `tolerance` nats of that, but for two of its standard errors; None where it does not before that
    quarter. `name` says whose belief it is, and how it was had.
    """

    name: str
    frame: pl.DataFrame
    judged: int
    tolerance: float
    belief_limit: float | None
    entropy_rate: float
    belief_after: int | None
    prediction_after: int | None

    def __str__(self) -> str:
        said = [f"{self.name}:"]
        if self.belief_limit is not None:
            begun = self.frame["belief_entropy"][0]
            said.append(f"belief {begun:.4f} to {self.belief_limit:.4f} nats, {_settled(self.belief_after)};")
        begun = self.frame["cross_entropy"][0]
        said.append(f"prediction {begun:.4f} to {self.entropy_rate:.4f} nats, {_settled(self.prediction_after)}")
        return " ".join(said)


def synchronisation(
    model: SequenceModel,
    data: Any,
    *,
    hmm: SequenceModel | None = None,
    key: PRNGKeyArray | None = None,
    tolerance: float = 0.05,
    weights: Any = None,
    layer: int = -1,
) -> Synchronisation:
    """The entropy of the belief and of the prediction against the number of steps seen, and when they settle.

    Of a model whose state is a belief, such as `HMM`, the belief is its own. Of a network it is the belief of `hmm` as
    softmax regression reads it from the hidden vector of a `layer`: this is learned from three quarters of the
    sequences, drawn with `key`, and all that comes out is of the others. Without an `hmm` only the predictions of a
    network are looked at.

    Where an `hmm` is given and observations are symbols, `cross_entropy` is the expectation under its predictions, and
    not what the symbols in the data happen to cost: with the same mean and less noise. `weights`, one for each
    sequence, make all means weighted ones: with every word of one length, weighted by its probability, they are exact
    (and there are no standard errors).

    >>> print(hs.inspect.beliefs.synchronisation(hmm, data))  # doctest: +SKIP
    """
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not tolerance > 0:
        raise HiddenStateError(f"tolerance is {tolerance!r}; it must be a positive number of nats.")
    data = sequences_for(model, data if hmm is None else sequences_for(hmm, data))
    shares = _checked_weights(weights, data)
    name, own = name_of(model), as_beliefs(states(model, data))
    if own is None and hmm is not None:
        if shares is not None:
            raise HiddenStateError(
                "weights are given, but a belief is read from a part of the data only; leave them out."
            )
        name, own, data = _read(model, hmm, data, key, layer)
    means = _Means(data.valid, shares)
    columns: dict[str, Any] = {"seen": np.arange(data.length), "sequences": data.valid.sum(axis=0)}
    columns |= _belief_columns(means, own)
    columns["state_entropy"] = _behind(means, model, data) if own is not None and has(model, "filter") else None
    columns |= _prediction_columns(means, model, hmm, data)
    frame = pl.DataFrame(columns, nan_to_null=True).with_columns(pl.col(pl.Null).cast(pl.Float64))
    return _summed_up(name, frame, float(tolerance))


def entropy(probs: np.ndarray) -> np.ndarray:
    """The entropy of distributions along the last axis, in nats."""
    return -np.where(probs > 0, probs * np.log(np.where(probs > 0, probs, 1.0)), 0.0).sum(-1)


def _read(
    model: SequenceModel, hmm: SequenceModel, data: Sequences, key: PRNGKeyArray | None, layer: int
) -> tuple[str, np.ndarray, Sequences]:
    """The belief that a probe reads from a layer, whose it is, and the held-out sequences that it is about."""
    if key is None:
        raise HiddenStateError(
            "key is None; the belief of hmm is read from a network after learning from a part of the data that is "
            "drawn by chance, so give a key, jr.key(0)."
        )
    known, held_out = parted(data, key=checked_key(key))
    name, vectors = layer_of(vectors_of(model, known), layer)
    read = softmax_regression(vectors[known.valid], beliefs_of(hmm, known)[known.valid])
    return f"{name}, read by a probe", np.exp(read(vectors_of(model, held_out)[name])), held_out


@dataclass(frozen=True, eq=False)
class _Means:
    """Means over the sequences that reach each step, weighted or not."""

    valid: np.ndarray
    weights: np.ndarray | None

    @property
    def shares(self) -> np.ndarray:
        """What each sequence counts at each step, (sequence, time); at each step they sum to one."""
        counts = self.valid * (1.0 if self.weights is None else self.weights[:, None])
        return counts / counts.sum(axis=0)

    def of(self, values: np.ndarray) -> np.ndarray:
        """The mean at each step of values (sequence, time)."""
        return (self.shares * np.where(self.valid, values, 0.0)).sum(axis=0)

    def errors(self, values: np.ndarray) -> np.ndarray | None:
        """Standard errors of the means; none with weights, and NaN where a single sequence is left."""
        if self.weights is not None:
            return None
        count = self.valid.sum(axis=0)
        squares = np.where(self.valid, (values - self.of(values)) ** 2, 0.0).sum(axis=0)
        return np.sqrt(squares / np.where(count > 1, (count - 1) * count, np.nan))

    def quantile(self, values: np.ndarray, share: float) -> np.ndarray:
        """The smallest value that at least such a share of the sequences does not exceed, at each step."""
        order = np.argsort(np.where(self.valid, values, np.inf), axis=0)
        reached = np.cumsum(np.take_along_axis(self.shares, order, axis=0), axis=0)
        place = (reached < share - 1e-12).sum(axis=0)
        return np.take_along_axis(np.take_along_axis(values, order, axis=0), place[None], axis=0)[0]


def _checked_weights(weights: Any, data: Sequences) -> np.ndarray | None:
    if weights is None:
        return None
    weights = np.asarray(weights, np.float64)
    if weights.shape != (len(data),) or not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise DataError(
            f"weights have the shape {weights.shape}; there must be one for each of the {len(data)} sequences, finite, "
            "none negative, and not all zero."
        )
    if data.ragged:
        raise DataError("weights are given for sequences of different lengths; they must all have the same length.")
    return weights


def _belief_columns(means: _Means, beliefs: np.ndarray | None) -> dict[str, Any]:
    names = ("belief_entropy", "belief_entropy_error", *(f"belief_{name}" for name in QUANTILES))
    if beliefs is None:
        return dict.fromkeys(names)
    each = entropy(beliefs)
    quantiles = [means.quantile(each, share) for share in QUANTILES.values()]
    return dict(zip(names, (means.of(each), means.errors(each), *quantiles), strict=True))


def _behind(means: _Means, model: SequenceModel, data: Sequences) -> np.ndarray | None:
    """The mean entropy of the state behind the last observation; NaN before the first."""
    filtered = as_beliefs(exact_filter(model, data))
    return None if filtered is None else np.append(np.nan, means.of(_before(entropy(filtered)))[1:])


def _before(values: np.ndarray) -> np.ndarray:
    """Values (sequence, time) of the step before; the first stands twice."""
    return np.concatenate([values[:, :1], values[:, :-1]], axis=1)


def _prediction_columns(
    means: _Means, model: SequenceModel, hmm: SequenceModel | None, data: Sequences
) -> dict[str, Any]:
    log_probs = _symbol_log_probs(model, data)
    cost = -np.asarray(step_log_probs(model, replace(data, context=None)), np.float64)
    if hmm is not None and log_probs is not None:
        truth = _symbol_log_probs(hmm, data)
        if truth is not None:
            cost = -np.where(truth > -np.inf, np.exp(truth) * np.where(truth > -np.inf, log_probs, 0.0), 0.0).sum(-1)
    return {
        "predictive_entropy": None if log_probs is None else means.of(entropy(np.exp(log_probs))),
        "cross_entropy": means.of(cost),
        "cross_entropy_error": means.errors(cost),
    }


def _symbol_log_probs(model: SequenceModel, data: Sequences) -> np.ndarray | None:
    """The log-probability of every symbol at every step, (sequence, time, symbol); None where there are no symbols."""
    expected = prototype(model)
    most = getattr(expected.support, "upper_bound", None)
    if expected.event_shape or not isinstance(most, int | np.integer):
        return None
    symbols = jnp.arange(int(most) + 1)[:, None, None]
    return np.moveaxis(np.asarray(predictive(model, data).log_prob(symbols), np.float64), 0, -1)


# -- when curves settle --------------------------------------------------------------------------------------


def _summed_up(name: str, frame: pl.DataFrame, tolerance: float) -> Synchronisation:
    reach = frame["sequences"].to_numpy()
    judged = int((reach >= REACHED * reach[0]).sum())  # it only falls
    rows = frame.head(judged)

    def settles(column: str) -> tuple[Any, int | None]:
        if rows[column].is_null().all():
            return None, None
        near = tolerance + 2 * rows[f"{column}_error"].fill_null(0.0).to_numpy()
        return settled(rows[column].to_numpy(), near, reach[:judged])

    (limit, after), (rate, prediction_after) = settles("belief_entropy"), settles("cross_entropy")
    return Synchronisation(name, frame, judged, tolerance, limit, rate, after, prediction_after)


def settled(curve: np.ndarray, tolerance: Any, weights: np.ndarray | None = None) -> tuple[float, int | None]:
    """The mean of the last quarter of a curve, and from which place on it stays so near: None if not before that."""
    tail = len(curve) - max(1, round(TAIL * len(curve)))
    limit = float(np.average(curve[tail:], weights=None if weights is None else weights[tail:]))
    far = np.flatnonzero(np.abs(curve - limit) > tolerance)
    place = int(far[-1]) + 1 if len(far) else 0
    return limit, place if place <= tail else None


def _settled(place: int | None) -> str:
    return "not settled" if place is None else f"settled after {place} step{'' if place == 1 else 's'}"
