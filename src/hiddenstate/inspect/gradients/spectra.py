"""Singular values and eigenvalues: of the Jacobian of every step, and of their products over a lag."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hiddenstate.core import HiddenStateError, SequenceModel
from hiddenstate.inspect.gradients.linearisation import blanked, linearised, prepared_data
from hiddenstate.inspect.gradients.products import products_at


@dataclass(frozen=True, eq=False)
class Spectra:
    r"""What one step does to small differences, at every step: arrays (sequence, time, state), NaN behind the end.

    `singular_values` of :math:`\partial h_{t+1} / \partial h_t`, the greatest first: by how much a difference of
    states is stretched in the direction that is stretched most, and so on. `eigenvalues` are complex, the greatest
    modulus first; they say what happens to a difference where the same step is repeated.
    """

    singular_values: np.ndarray
    eigenvalues: np.ndarray


@dataclass(frozen=True, eq=False)
class Products:
    r"""The product of the Jacobians of `lag` steps, :math:`\partial h_{t+\text{lag}} / \partial h_t`, for every t.

    `matrices` (sequence, time, later, earlier) are scaled to a greatest entry of 1 and `log_scales` (sequence, time)
    are the logarithms of what they were divided by, so that neither vanishes nor overflows in float32. Both are NaN at
    the steps from which `lag` more lead beyond the end. A product that is exactly zero has the scale :math:`-\infty`.
    """

    lag: int
    matrices: np.ndarray
    log_scales: np.ndarray

    @property
    def log_singular_values(self) -> np.ndarray:
        """The logarithms of the singular values (sequence, time, state), the greatest first."""
        return self._logs(_singular_values(self.matrices))

    @property
    def log_norms(self) -> np.ndarray:
        """The logarithm of the spectral norm (sequence, time): the greatest singular value."""
        return self.log_singular_values[..., 0]

    @property
    def log_moduli(self) -> np.ndarray:
        """The logarithms of the moduli of the eigenvalues (sequence, time, state), the greatest first."""
        return self._logs(np.abs(_eigenvalues(self.matrices)))

    def _logs(self, sizes: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(sizes) + self.log_scales[..., None]


def jacobian_spectra(model: SequenceModel, data: Any) -> Spectra:
    """The singular values and eigenvalues of the Jacobian of every step along the data.

    >>> spectra = hs.inspect.gradients.jacobian_spectra(model, data)  # doctest: +SKIP
    """
    data, arrays = prepared_data(model, data)
    jacobians = blanked(linearised(model, arrays).jacobians, data.valid)
    return Spectra(_singular_values(jacobians), _eigenvalues(jacobians))


def products(model: SequenceModel, data: Any, lag: int) -> Products:
    """The derivative of each state with respect to the one `lag` steps before it, as a product of Jacobians."""
    data, arrays = prepared_data(model, data)
    longest = int(data.lengths.max()) - 1
    if isinstance(lag, bool) or not isinstance(lag, int | np.integer) or not 1 <= lag <= longest:
        raise HiddenStateError(
            f"lag is {lag!r}; it must be a whole number from 1 to {longest}, one less than the longest sequence has "
            "steps."
        )
    starts = np.broadcast_to(np.arange(data.length - lag), (len(data), data.length - lag))
    found = products_at(linearised(model, arrays).jacobians, starts, np.array([lag]))
    inside = starts + lag < data.lengths[:, None]
    return Products(int(lag), blanked(found.matrix[0], inside), blanked(found.log_scale[0], inside))


def _singular_values(matrices: np.ndarray) -> np.ndarray:
    return _of_known(lambda known: np.linalg.svd(known, compute_uv=False), matrices, float)


def _eigenvalues(matrices: np.ndarray) -> np.ndarray:
    def sorted_eigenvalues(known: np.ndarray) -> np.ndarray:
        values = np.linalg.eigvals(known)
        return np.take_along_axis(values, np.argsort(-np.abs(values), axis=-1, kind="stable"), axis=-1)

    return _of_known(sorted_eigenvalues, matrices, complex)


def _of_known(function: Any, matrices: np.ndarray, dtype: type) -> np.ndarray:
    """A function of the matrices that are not NaN, in float64; NaN for the others."""
    known = ~np.isnan(matrices).any(axis=(-2, -1))
    out = np.full(matrices.shape[:-1], np.nan, dtype)
    out[known] = function(matrices[known].astype(np.float64))
    return out
