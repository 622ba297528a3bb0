"""Models that were fitted with hmmlearn, taken over as they are. hmmlearn itself is not needed."""

from typing import Any

import numpy as np

from hiddenstate.core import HiddenStateError
from hiddenstate.latent import HMM, emissions

_KINDS = {"full": "full", "diag": "diagonal", "spherical": "spherical", "tied": "tied"}


def from_hmmlearn(estimator: Any) -> HMM:
    """The `hs.HMM` with the parameters of a fitted hmmlearn estimator.

    It takes a CategoricalHMM, a PoissonHMM, a GaussianHMM or a GMMHMM, with covariances of any type. Log-probabilities,
    posteriors and most likely states are the same numbers. Observations are vectors, as in hmmlearn, except for
    symbols: where hmmlearn takes a column (time, 1), the model takes (time,).

    >>> model = hs.from_hmmlearn(estimator)  # doctest: +SKIP
    """
    parameters = {name: _parameter(estimator, name) for name in ("startprob_", "transmat_")}
    emission = _emission(estimator)
    return HMM(initial=parameters["startprob_"], transition=parameters["transmat_"], emission=emission)


def _parameter(estimator: Any, name: str) -> np.ndarray:
    value = getattr(estimator, name, None)
    if value is None:
        raise HiddenStateError(
            f"the estimator, a {type(estimator).__name__}, has no {name}; it must be a fitted CategoricalHMM, "
            "PoissonHMM, GaussianHMM or GMMHMM of hmmlearn."
        )
    return np.asarray(value, np.float64)


def _emission(estimator: Any) -> emissions.Emission:
    kind = type(estimator).__name__
    known = {base.__name__ for base in type(estimator).__mro__}
    if "CategoricalHMM" in known:
        return emissions.Categorical(probs=_parameter(estimator, "emissionprob_"))
    if "PoissonHMM" in known:
        return emissions.Poisson(rates=_parameter(estimator, "lambdas_"))
    if "GaussianHMM" in known:
        means = _parameter(estimator, "means_")
        covariance = _kind(estimator)
        return emissions.Gaussian(means, _covariances(estimator, means, covariance), covariance=covariance)
    if "GMMHMM" in known:
        return _mixture(estimator)
    raise HiddenStateError(
        f"the estimator is a {kind}; hs.from_hmmlearn takes a CategoricalHMM, PoissonHMM, GaussianHMM or GMMHMM."
    )


def _kind(estimator: Any) -> Any:
    given = getattr(estimator, "covariance_type", None)
    if given not in _KINDS:
        raise HiddenStateError(f"covariance_type is {given!r}; it must be one of {', '.join(_KINDS)}.")
    return _KINDS[given]


def _covariances(estimator: Any, means: np.ndarray, kind: str) -> np.ndarray:
    """The covariances in the shape that says what is free in them.

    hmmlearn shows matrices for every type and keeps what is free in `_covars_` (and, once fitted, spherical ones
    repeated for each column).
    """
    states, columns = means.shape
    kept = getattr(estimator, "_covars_", None)
    given = _parameter(estimator, "covars_") if kept is None else np.asarray(kept, np.float64)
    matrices = given.shape == (states, columns, columns)
    if kind == "full" and matrices:
        return given
    if kind == "tied" and given.ndim in (2, 3):
        return given[0] if given.ndim == 3 else given
    if kind == "diagonal":
        return np.diagonal(given, axis1=-2, axis2=-1) if matrices else given.reshape(states, columns)
    if kind == "spherical":
        variances = np.diagonal(given, axis1=-2, axis2=-1) if matrices else given.reshape(states, -1)
        return variances.mean(axis=1)
    raise HiddenStateError(f"covars_ has shape {given.shape}, which is none of a {kind} covariance.")


def _mixture(estimator: Any) -> emissions.Emission:
    """A mixture of Gaussians for each state."""
    weights, means, given = (_parameter(estimator, name) for name in ("weights_", "means_", "covars_"))
    columns = means.shape[-1]
    match _kind(estimator):
        case "tied":  # one matrix a state, the same for all its parts
            given = np.broadcast_to(given[:, None], (*means.shape, columns))
        case "spherical":
            given = np.broadcast_to(given[..., None], means.shape)
        case _:
            pass
    return emissions.GaussianMixture(weights=weights, means=means, covariances=given)
