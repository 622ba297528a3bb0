r"""Lower bounds on the log-likelihood of models with random hidden states, all of them by the particle filter.

With :math:`\hat p` for the filter's unbiased estimate of the likelihood, Jensen's inequality says

.. math::

    \mathbb E \log \hat p(x_{1:T}) \le \log \mathbb E\, \hat p(x_{1:T}) = \log p(x_{1:T})

One particle gives the evidence lower bound (Sohl-Dickstein and Kingma 2015, equation 12), K particles that are never
resampled the importance-weighted bound (Burda, Grosse and Salakhutdinov 2016), K with resampling the filtering bound
(Maddison et al. 2017). Where the hidden state is certain all are the log-likelihood itself (equation 15).

Gradients flow through the draws, which are smooth in the parameters. Resampling counts as the particle filter has it:
by the derivative of its log-probability, as a factor of the weights (Ścibior and Wood 2021). Maddison et al. leave
these terms out, since the plain score function is too noisy.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from hiddenstate._types import Array, Float, PRNGKeyArray, State
from hiddenstate.core import Arrays, HiddenStateError, checked_key, has, name_of, with_noise
from hiddenstate.inference import steps_of
from hiddenstate.inference.observations import arrays_for, sequences_for
from hiddenstate.latent import ParticleFilter
from hiddenstate.learn.minibatches import counting
from hiddenstate.ops.sums import sum_over_time
from hiddenstate.strategies import Auto, Strategy, resolved


def elbo(
    model: Any, inference: Any, data: Any, *, key: PRNGKeyArray, samples: int = 1, strategy: Strategy = Auto()
) -> Float[Array, " sequence"]:
    r"""The evidence lower bound of each sequence, by the mean of so many draws of the hidden states.

    .. math::

        \log p(x_{1:T}) \ge \mathbb E_{q(h_{1:T})}\Big[\sum_t \log p(x_t \mid h_t)
        + \log \frac{p(h_t \mid h_{t-1}, x_{t-1})}{q(h_t \mid h_{t-1}, x_{t-1}, x_t)}\Big]

    `model` is any whose hidden state has a distribution: an `hs.RNN` (of an `hs.cells.Noisy`, or of a cell without
    noise, for which this is its log-probability), an `hs.HMM`, an `hs.StateSpace`. `inference` is q: an object with
    ``posterior(prior, x, u)`` such as an `hs.Correction`, or None for the model itself, q = p (Sohl-Dickstein and
    Kingma 2015, equation 6), where only the first term is left (equation 14).

    Where the data have a context, it is the bound of all steps without those of the context: no bound any more.
    """
    return _bound(model, inference, data, key, 1, 0.0, samples, strategy)


def iwae(
    model: Any,
    inference: Any,
    data: Any,
    *,
    key: PRNGKeyArray,
    particles: int,
    samples: int = 1,
    strategy: Strategy = Auto(),
) -> Float[Array, " sequence"]:
    r"""The importance-weighted bound (Burda, Grosse and Salakhutdinov 2016), tighter with more particles on average.

    .. math::

        \log p(x_{1:T}) \ge \mathbb E \log \frac1K \sum_{k=1}^K
        \frac{p(x_{1:T}, h^k_{1:T})}{q(h^k_{1:T} \mid x_{1:T})}

    It is the mean of `samples` such bounds; `model`, `inference` and `data` as for `elbo`, which has one particle.
    """
    return _bound(model, inference, data, key, particles, 0.0, samples, strategy)


def fivo(
    model: Any,
    inference: Any,
    data: Any,
    *,
    key: PRNGKeyArray,
    particles: int,
    threshold: float = 0.5,
    samples: int = 1,
    strategy: Strategy = Auto(),
) -> Float[Array, " sequence"]:
    """The filtering bound (Maddison et al. 2017): particles are resampled where their weights have become uneven.

    That is, where the effective sample size falls below `threshold` times the particles: 1 is at every step, and 0,
    never, is `iwae`. On long sequences it is much the tighter one. All else as for `iwae`.
    """
    return _bound(model, inference, data, key, particles, threshold, samples, strategy)


def filter_for(model: Any, particles: int | None, threshold: float | None, inference: Any = None) -> Any:
    """The particle filter whose estimate is the bound: over a model of hidden states, or the model where it is one."""
    if has(model, "with_key") and has(model, "score_sequence"):
        for name, value in (("particles", particles), ("threshold", threshold), ("inference", inference)):
            if value is not None:
                raise HiddenStateError(f"{name} is {value!r}, but {name_of(model)} has its own; leave it out.")
        return model
    if not has(model, "latent_emission"):
        raise HiddenStateError(
            f"{name_of(model)} has no hidden states with distributions: a bound takes an hs.RNN, an hs.HMM, an "
            "hs.LinearGaussian, an hs.StateSpace, or an hs.ParticleFilter of one."
        )
    if inference is not None and not has(inference, "posterior"):
        raise HiddenStateError(
            f"inference is {inference!r}; it must be an object with posterior(prior, x, u), such as an hs.Correction, "
            "or None for the model itself."
        )
    # Its key is never drawn from: every sequence brings its own.
    key = jr.key(0)
    proposal = "bootstrap" if inference is None else inference
    count = 1 if particles is None else particles
    return ParticleFilter(model, count, proposal, threshold=0.0 if threshold is None else threshold, key=key)


def bound_log_probs(
    filter: Any, arrays: Arrays, strategy: Strategy, state: State, keys: Any, samples: int, noise: Any = None
) -> tuple[Float[Array, "sequence time"], State]:
    """What every step adds to the bound, the mean over `samples`, and the filters' last states.

    `keys` are one for each sequence; `state` are the filters' states to go on from, or None.
    """

    def one(steps, state, key, noise):
        run = filter if noise is None else with_noise(filter, noise)

        def sample(key, state):
            fresh = run.with_key(key)
            start = fresh.initial() if state is None else state
            return fresh.score_sequence(start, steps, resolved(strategy, fresh, steps.length))

        out, final = jax.vmap(sample)(jr.split(key, samples), state)
        return out.mean(0), final

    out, final = jax.vmap(one)(steps_of(arrays), state, keys, noise)
    return jnp.where(counting(arrays, jnp), out, 0.0), final


def check_samples(samples: Any) -> None:
    """Raise HiddenStateError unless it is a whole number from 1 on."""
    if isinstance(samples, bool) or not isinstance(samples, int | np.integer) or samples < 1:
        raise HiddenStateError(f"samples is {samples!r}; it must be a whole number from 1 on.")


def _bound(
    model: Any,
    inference: Any,
    data: Any,
    key: PRNGKeyArray,
    particles: int,
    threshold: float,
    samples: int,
    strategy: Strategy,
) -> Float[Array, " sequence"]:
    check_samples(samples)
    filter = filter_for(model, particles, threshold, inference)
    data = sequences_for(filter, data)
    return _sums(filter, arrays_for(filter, data), strategy, jr.split(checked_key(key), len(data)), samples)


@eqx.filter_jit
def _sums(filter, arrays, strategy, keys, samples):
    return sum_over_time(bound_log_probs(filter, arrays, strategy, None, keys, samples)[0])
