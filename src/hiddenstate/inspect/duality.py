r"""Linear layers read as generative models, and back.

A layer with a softmax is discriminative. By Bayes' rule it is also the posterior of a generative model:

.. math::

    \log P(y \mid x) &= W_y \cdot x + b_y + \text{const} \\
    \log P(y \mid x) &= \log P(x \mid y) + \log P(y) + \text{const}

with constants that do not depend on the class y (the note that reads minGRU as a switching state space model,
"Log-linear models"; for Gaussian inputs the equivalence of logistic regression and Gaussian naive Bayes, see Ng and
Jordan 2001).
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from hiddenstate.core import HiddenStateError
from hiddenstate.latent.checks import covariance_matrices, distributions, numbers


class Layer(NamedTuple):
    r"""A linear layer, below a softmax or a sigmoid.

    With a softmax, :math:`P(y \mid x) = \mathrm{softmax}(W x + b)_y`, `weight` is (class, input) and `bias` (class,).
    With a sigmoid, :math:`P(y = 1 \mid x) = \sigma(w \cdot x + b)`, they are (input,) and ().
    """

    weight: np.ndarray
    bias: np.ndarray

    def centred(self) -> "Layer":
        """The softmax layer with the same probabilities whose weights and biases sum to zero over the classes."""
        return Layer(self.weight - self.weight.mean(0), self.bias - self.bias.mean())


class _Classes:
    """What both generative models share: the layer that is their posterior, and what it gives."""

    def layer(self) -> Layer:
        raise AssertionError("each model has its own")

    def log_odds(self) -> Layer:
        r"""The layer whose sigmoid is :math:`P(y = 1 \mid x)`, where there are two classes, 0 and 1."""
        weight, bias = self.layer()
        if len(bias) != 2:
            raise HiddenStateError(f"there are {len(bias)} classes; log-odds, and a sigmoid, are for two.")
        return Layer(weight[1] - weight[0], bias[1] - bias[0])


@dataclass(frozen=True, eq=False)
class SymbolClasses(_Classes):
    r"""Classes that draw symbols: `prior` is :math:`P(y)`, `likelihood` (class, symbol) is :math:`P(x \mid y)`.

    Its posterior is a layer on one-hot inputs, in which the weights are likelihood and the biases prior logits:
    :math:`W_{yx} = \log P(x \mid y),\; b_y = \log P(y)`. A symbol that a class never draws has the
    weight minus infinity.
    """

    prior: np.ndarray
    likelihood: np.ndarray
    unidentified: ClassVar[str] = (
        "how often each symbol comes, P(x): a number added to the weights of one symbol in all classes changes no "
        "P(y | x)"
    )

    def __init__(self, prior: Any, likelihood: Any):
        likelihood = numbers("likelihood", likelihood, 2)
        object.__setattr__(self, "prior", _prior(prior, len(likelihood)))
        object.__setattr__(self, "likelihood", distributions("likelihood", likelihood, likelihood.dtype))

    def layer(self) -> Layer:
        r"""The weights :math:`\log P(x \mid y)` and the biases :math:`\log P(y)`."""
        return Layer(_log(self.likelihood), _log(self.prior))

    def log_likelihoods(self, x: Any) -> np.ndarray:
        r""":math:`\log P(x \mid y)` of symbols, with a last axis for the classes."""
        symbols = np.asarray(x)
        count = self.likelihood.shape[1]
        if not np.issubdtype(symbols.dtype, np.integer) or ((symbols < 0) | (symbols >= count)).any():
            raise HiddenStateError(
                f"x holds something else than symbols; they are whole numbers from 0 to {count - 1}."
            )
        return np.moveaxis(_log(self.likelihood)[:, symbols], 0, -1)

    def posterior(self, x: Any) -> np.ndarray:
        r""":math:`P(y \mid x)` of symbols by Bayes' rule, with a last axis for the classes."""
        return _softmax(self.log_likelihoods(x) + _log(self.prior))


@dataclass(frozen=True, eq=False)
class GaussianClasses(_Classes):
    r"""Classes that draw vectors around a mean of their own, with a covariance they share.

    `prior` is :math:`P(y)`, `means` are (class, input), `covariance` is (input, input); it may be given as one variance
    or as one for each input. Its posterior is a layer:

    .. math::

        W_y = \Sigma^{-1} \mu_y, \qquad b_y = \log P(y) - \tfrac12 \mu_y^\top \Sigma^{-1} \mu_y

    For two classes and one input the log-odds of y = 1 are :math:`w x + b` with

    .. math::

        w = \frac{\mu_1 - \mu_0}{\sigma^2}, \qquad
        b = \log \frac{P(y=1)}{P(y=0)} + \frac{\mu_0^2 - \mu_1^2}{2 \sigma^2}

    The note prints the signs of y = 0, and in w a factor x that belongs behind it.
    """

    prior: np.ndarray
    means: np.ndarray
    covariance: np.ndarray
    unidentified: ClassVar[str] = (
        "the shared covariance, and where the classes lie together: for every covariance, and every mean of the first "
        "class, there are means of the others and a prior with the same P(y | x)"
    )

    def __init__(self, prior: Any, means: Any, covariance: Any):
        means = numbers("means", means, 1, 2)
        means = means[:, None] if means.ndim == 1 else means
        object.__setattr__(self, "prior", _prior(prior, len(means)))
        object.__setattr__(self, "means", means)
        object.__setattr__(self, "covariance", _covariance(covariance, means.shape[1]))

    def layer(self) -> Layer:
        r"""The weights :math:`W_y = \Sigma^{-1} \mu_y` and the biases :math:`\log P(y) - W_y \cdot \mu_y / 2`."""
        weight = np.linalg.solve(self.covariance, self.means.T).T
        return Layer(weight, _log(self.prior) - (weight * self.means).sum(1) / 2)

    def log_likelihoods(self, x: Any) -> np.ndarray:
        r""":math:`\log P(x \mid y)` of vectors (..., input), with a last axis for the classes."""
        x = np.asarray(x, np.float64)
        size = self.means.shape[1]
        if x.shape[-1:] != (size,):
            raise HiddenStateError(f"x has shape {x.shape}; its last axis must be {size}, the number of inputs.")
        apart = x[..., None, :] - self.means
        squares = (apart * np.linalg.solve(self.covariance, apart[..., None])[..., 0]).sum(-1)
        return -(squares + np.linalg.slogdet(2 * np.pi * self.covariance)[1]) / 2

    def posterior(self, x: Any) -> np.ndarray:
        r""":math:`P(y \mid x)` of vectors by Bayes' rule, with a last axis for the classes."""
        return _softmax(self.log_likelihoods(x) + _log(self.prior))


def log_linear(
    weight: Any,
    bias: Any,
    *,
    inputs: Literal["one-hot", "gaussian"],
    marginal: Any = None,
    covariance: Any = None,
    mean: Any = None,
) -> SymbolClasses | GaussianClasses:
    r"""The generative model that a linear layer implies; its `layer()` and `log_odds()` lead back.

    A `weight` (class, input) with a `bias` (class,) is a softmax layer. A `weight` (input,) with one number as `bias`
    is a sigmoid layer, whose classes are 0 and 1: it is the softmax layer with the rows 0 and `weight`.

    With ``inputs="one-hot"`` the result is an `hs.inspect.SymbolClasses`,

    .. math::

        P(x \mid y) \propto_x \exp W_{yx}, \qquad P(y) \propto \exp(b_y + \textstyle\log\sum_x \exp W_{yx})

    so that what each row of weights lacks to be normalised goes to the prior. A layer says nothing about P(x), which
    depends on a number in each column of W that no P(y | x) shows. Where P(x) is known, give it as `marginal`: then
    :math:`P(y) = \sum_x P(x) P(y \mid x)`, :math:`P(x \mid y) = P(x) P(y \mid x) / P(y)`, and nothing is left open.

    With ``inputs="gaussian"`` it is an `hs.inspect.GaussianClasses`. Neither the shared `covariance` (one variance, one
    for each input, or a matrix) nor the `mean` of the first class can be seen from a layer: both are due. Then

    .. math::

        \mu_y = \mu_0 + \Sigma (W_y - W_0), \qquad
        P(y) \propto \exp(b_y + \tfrac12 (\mu_y + \mu_0)^\top (W_y - W_0))

    `unidentified` of the result says in words what a layer leaves open. From a generative model to its layer and back,
    nothing changes. From a layer to its generative model and back, no P(y | x) changes; weights and biases do by what
    no P(y | x) shows (with Gaussian inputs, their `centred` values agree).
    """
    weight, bias = _layer(weight, bias, inputs)
    if inputs == "one-hot":
        _unused(inputs, covariance=covariance, mean=mean)
        return _symbol_classes(weight, bias, marginal)
    _unused(inputs, marginal=marginal)
    if covariance is None or mean is None:
        raise HiddenStateError(
            f"{'covariance' if covariance is None else 'mean'} is missing; a layer on Gaussian inputs leaves open "
            f"{GaussianClasses.unidentified}. Give both, mean being that of class 0."
        )
    return _gaussian_classes(weight, bias, covariance, mean)


def _symbol_classes(weight: np.ndarray, bias: np.ndarray, marginal: Any) -> SymbolClasses:
    if marginal is None:
        rows = np.logaddexp.reduce(weight, axis=1)
        if (rows == -np.inf).any():
            raise HiddenStateError(f"row {int(rows.argmin())} of weight is all -inf: that class could draw no symbol.")
        return SymbolClasses(_softmax(bias + rows), _softmax(weight))
    given = numbers("marginal", marginal, 1)
    if given.shape != weight.shape[1:]:
        raise HiddenStateError(f"marginal has {len(given)} probabilities; weight speaks of {weight.shape[1]} symbols.")
    joint = distributions("marginal", given, given.dtype)[:, None] * _softmax((weight + bias[:, None]).T)
    prior = joint.sum(0)
    if (prior == 0).any():
        raise HiddenStateError(f"under this marginal class {int(prior.argmin())} never occurs; its likelihood is open.")
    return SymbolClasses(prior, (joint / prior).T)


def _gaussian_classes(weight: np.ndarray, bias: np.ndarray, covariance: Any, mean: Any) -> GaussianClasses:
    matrix = _covariance(covariance, weight.shape[1])
    first = np.atleast_1d(numbers("mean", mean))
    if first.shape != weight.shape[1:]:
        raise HiddenStateError(f"mean has shape {first.shape}; it must be ({weight.shape[1]},), one for each input.")
    steeper = weight - weight[0]
    means = first + steeper @ matrix
    return GaussianClasses(_softmax(bias + ((means + first) * steeper).sum(1) / 2), means, matrix)


def _layer(weight: Any, bias: Any, inputs: str) -> Layer:
    """A checked softmax layer; a sigmoid layer as the softmax layer it stands for."""
    if inputs not in ("one-hot", "gaussian"):
        raise HiddenStateError(f"inputs is {inputs!r}; it must be 'one-hot' or 'gaussian'.")
    try:
        weight, bias = (np.asarray(value, np.float64) for value in (weight, bias))
    except (TypeError, ValueError):
        raise HiddenStateError("weight and bias must be arrays of numbers.") from None
    if (weight.ndim, bias.ndim) not in ((1, 0), (2, 1)) or weight.shape[:-1] != bias.shape or not weight.size:
        raise HiddenStateError(
            f"weight has shape {weight.shape} and bias {bias.shape}; a softmax layer has (class, input) and (class,), "
            "a sigmoid layer (input,) and ()."
        )
    for name, array in (("weight", weight), ("bias", bias)):
        zeros = inputs == "one-hot" and name == "weight"  # a probability of zero has the logarithm -inf
        if (~np.isfinite(array) & ~((array == -np.inf) & zeros)).any():
            raise HiddenStateError(f"{name} holds a number that is not finite.")
    if weight.ndim == 1:
        return Layer(np.stack([np.zeros_like(weight), weight]), np.stack([np.zeros_like(bias), bias]))
    return Layer(weight, bias)


def _unused(inputs: str, **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise HiddenStateError(f"{name} is given, but a layer on {inputs} inputs takes none.")


def _prior(prior: Any, classes: int) -> np.ndarray:
    prior = numbers("prior", prior, 1)
    if len(prior) != classes:
        raise HiddenStateError(f"prior is for {len(prior)} classes, but there are {classes}.")
    return distributions("prior", prior, prior.dtype)


def _covariance(covariance: Any, size: int) -> np.ndarray:
    """One variance, one for each input, or a matrix: as a positive definite matrix."""
    array = numbers("covariance", covariance)
    if array.shape not in ((), (size,), (size, size)):
        raise HiddenStateError(
            f"covariance has shape {array.shape}; for {size} inputs it must be (), ({size},) or ({size}, {size})."
        )
    return covariance_matrices("covariance", array if array.ndim == 2 else array * np.eye(size), array.dtype)


def _log(probs: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(probs)


def _softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities along the last axis."""
    total = np.logaddexp.reduce(logits, axis=-1, keepdims=True)
    if (total == -np.inf).any():
        raise HiddenStateError("x holds something that no class could have drawn: it has no posterior.")
    return np.exp(logits - total)
