"""Hidden Markov models as scikit-learn estimators. scikit-learn is used where it is installed, and not needed."""

from collections.abc import Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

import jax.random as jr
import numpy as np

from hiddenstate.catalogue import build
from hiddenstate.core import DataError, HiddenStateError, Sequences
from hiddenstate.inference import log_prob, most_likely_states, sample, smooth
from hiddenstate.learn import EM, Fit, fit

if TYPE_CHECKING:

    class _Base:
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Any: ...

    class _NotFitted(HiddenStateError): ...

else:
    try:
        from sklearn.base import BaseEstimator as _Base
        from sklearn.exceptions import NotFittedError as _Unfitted
    except ImportError:

        class _Base:
            """What scikit-learn asks of an estimator's parameters."""

            def get_params(self, deep=True):
                """The arguments of the constructor."""
                del deep
                return {
                    name: getattr(self, name) for name in signature(type(self).__init__).parameters if name != "self"
                }

            def set_params(self, **params):
                """Set some arguments of the constructor."""
                known = self.get_params()
                for name, value in params.items():
                    if name not in known:
                        raise HiddenStateError(f"there is no parameter {name!r}; known are {', '.join(known)}.")
                    setattr(self, name, value)
                return self

        class _Unfitted(ValueError, AttributeError):
            """An estimator that was not fitted yet."""

    class _NotFitted(HiddenStateError, _Unfitted):
        """An estimator that was not fitted yet."""


class HMMEstimator(_Base):
    """A hidden Markov model that fits where scikit-learn's estimators fit: in `clone`, pipelines and GridSearchCV.

    `X` is an array (step, column) with `lengths`, how many of its rows each sequence has (without them it is one
    sequence), or a list of such arrays, one a sequence, which is what GridSearchCV can split. NaN is missing.

    `states` is the number of hidden states; `emission` a family of `hs.emissions` by name, such as ``"gaussian"``
    (with `covariance` ``"full"``, ``"diagonal"``, ``"spherical"`` or ``"tied"``), ``"poisson"`` or ``"categorical"``
    (one column of symbols 0, 1, 2 ...); None chooses by the data: whole numbers in one column are symbols. `initial` is
    ``"free"``, ``"uniform"`` or ``"stationary"``. Learning is `hs.EM` with so many `iterations`, `tolerance` in nats
    per step, and `restarts`. `random_state` is a whole number, a NumPy generator, or None for another result each time.

    After `fit`, `model_` is the `hs.HMM`, `fit_` the `hs.Fit`, and `converged_` whether EM has converged.

    >>> GridSearchCV(HMMEstimator(restarts=3), {"states": [1, 2, 3]}).fit(sequences)  # doctest: +SKIP
    """

    def __init__(
        self,
        states: int = 2,
        emission: str | None = None,
        covariance: str | None = None,
        initial: str = "free",
        iterations: int = 100,
        tolerance: float = 1e-6,
        restarts: int = 1,
        random_state: Any = None,
    ):
        self.states = states
        self.emission = emission
        self.covariance = covariance
        self.initial = initial
        self.iterations = iterations
        self.tolerance = tolerance
        self.restarts = restarts
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, lengths: Sequence[int] | None = None) -> "HMMEstimator":
        """Learn from sequences; `y` is not used."""
        del y
        symbols = self.emission == "categorical" or (self.emission is None and _is_symbols(_parts(X, lengths)))
        data = _sequences(X, lengths, symbols, None)
        build_key, fit_key = jr.split(_key(self.random_state))
        options = {} if self.covariance is None else {"covariance": self.covariance}
        model: Any = build(
            "hmm", data, key=build_key, states=self.states, emission=self.emission, initial=self.initial, **options
        )
        method = EM(iterations=self.iterations, tolerance=self.tolerance, restarts=self.restarts)
        self.fit_: Fit = fit(model, data, method, key=fit_key, progress=False)
        self.model_: Any = self.fit_.model
        self.converged_ = self.fit_.converged
        self.n_features_in_ = 1 if data.schema.scalar else len(data.schema.columns)
        return self

    def score(self, X: Any, y: Any = None, lengths: Sequence[int] | None = None) -> float:
        """The mean log-probability of a step, in nats: higher is better.

        hmmlearn's `score` is the sum of `score_samples`; the mean compares parts of different lengths fairly.
        """
        del y
        data = self._data(X, lengths)
        return float(np.asarray(log_prob(self._model, data), np.float64).sum() / data.steps)

    def score_samples(self, X: Any, lengths: Sequence[int] | None = None) -> np.ndarray:
        """The log-probability of each sequence."""
        return np.asarray(log_prob(self._model, self._data(X, lengths)), np.float64)

    def predict(self, X: Any, lengths: Sequence[int] | None = None) -> Any:
        """The most likely hidden states (Viterbi): of all rows of an array, or one array a sequence for a list."""
        data = self._data(X, lengths)
        return _unpadded(most_likely_states(self._model, data).states, data, X)

    def predict_proba(self, X: Any, lengths: Sequence[int] | None = None) -> Any:
        """The probability of each hidden state given the whole sequence, in the form of `predict`."""
        data = self._data(X, lengths)
        return _unpadded(smooth(self._model, data).marginals, data, X)

    def fit_predict(self, X: Any, y: Any = None, lengths: Sequence[int] | None = None) -> Any:
        """Fit, and predict the same."""
        return self.fit(X, y, lengths).predict(X, lengths)

    def sample(self, length: int = 1, n: int = 1, random_state: Any = None) -> list[np.ndarray]:
        """`n` new sequences of `length` steps, each an array (step, column)."""
        drawn = sample(self._model, length, key=_key(self.random_state if random_state is None else random_state), n=n)
        return [np.asarray(values).reshape(length, -1) for values in drawn]

    @property
    def _model(self) -> Any:
        if not hasattr(self, "model_"):
            raise _NotFitted("this HMMEstimator is not fitted yet; call fit first.")
        return self.model_

    def _data(self, X: Any, lengths: Sequence[int] | None) -> Sequences:
        schema = self._model.schema
        return _sequences(X, lengths, schema.scalar, schema)


def _parts(X: Any, lengths: Sequence[int] | None) -> list[np.ndarray]:
    """The sequences, each an array (step, column)."""
    several = isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and (X.dtype == object or X.ndim == 3))
    if several and lengths is not None:
        raise DataError("X is a list of sequences, which have their own lengths; leave out lengths.")
    if several:
        given = [np.asarray(part) for part in X]
    else:
        array = np.asarray(X)
        ends = np.cumsum([len(array)] if lengths is None else lengths)
        if len(ends) == 0 or ends[-1] != len(array):
            raise DataError(f"lengths sum to {ends[-1] if len(ends) else 0}, but X has {len(array)} rows.")
        given = np.split(array, ends[:-1])
    if not given:
        raise DataError("X holds no sequence; give at least one.")
    for i, part in enumerate(given):
        if part.ndim not in (1, 2):
            raise DataError(f"sequence {i} of X has shape {part.shape}; it must be (step, column).")
    return [part[:, None] if part.ndim == 1 else part for part in given]


def _is_symbols(parts: list[np.ndarray]) -> bool:
    whole = all(np.issubdtype(part.dtype, np.integer) for part in parts)
    return whole and parts[0].shape[1] == 1 and min(part.min(initial=0) for part in parts) >= 0


def _sequences(X: Any, lengths: Sequence[int] | None, scalar: bool, schema: Any) -> Sequences:
    parts = _parts(X, lengths)
    if scalar:
        wide = next((i for i, part in enumerate(parts) if part.shape[1] != 1), None)
        if wide is not None:
            raise DataError(f"sequence {wide} of X has {parts[wide].shape[1]} columns; symbols come in one.")
        parts = [_whole(part[:, 0]) for part in parts]
    return Sequences.of(parts, schema=schema)


def _whole(column: np.ndarray) -> np.ndarray:
    """Symbols that came as floats without a fraction, as whole numbers."""
    if np.issubdtype(column.dtype, np.floating) and (column % 1 == 0).all():
        return column.astype(np.int64)
    return column


def _unpadded(padded: Any, data: Sequences, X: Any) -> Any:
    """One array a sequence where X was a list, otherwise all rows one behind the other."""
    arrays = [np.asarray(padded)[i, :n] for i, n in enumerate(data.lengths)]
    several = isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and (X.dtype == object or X.ndim == 3))
    return arrays if several else np.concatenate(arrays)


def _key(random_state: Any) -> Any:
    """A key from what scikit-learn calls a random state."""
    if random_state is None:
        return jr.key(int(np.random.SeedSequence().generate_state(1)[0]))
    if isinstance(random_state, np.random.Generator):
        return jr.key(int(random_state.integers(2**31)))
    if isinstance(random_state, np.random.RandomState):
        return jr.key(int(random_state.randint(2**31 - 1)))
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer):
        raise HiddenStateError(
            f"random_state is {random_state!r}; it must be a whole number, a NumPy generator or None."
        )
    return jr.key(int(random_state))
