r"""Structured variational inference for switching linear Gaussian models, with a bound that never falls.

The posterior over regimes and states together is approximated by a product of two exact ones,
:math:`q(z_{1:T})\, q(s_{1:T})`: a Markov chain over regimes, and a Gaussian over all states whose precision is block
tridiagonal. Each is best, the other being given, when it is

.. math::

    \log q(s) &= E_{q(z)}[\log p(x, s \mid z)] + \text{const}, \\
    \log q(z) &= \log p(z) + \sum_t \ell_t(z_t) + \text{const}, \qquad
    \ell_t(k) = E_{q(s)}[\log N(s_t; A_k s_{t-1} + a_k, Q_k) + \log N(x_t; C_k s_t + c_k, R_k)].

The first is a smoother whose precisions are averages of the regimes' (not one of averaged parameters), the second the
forward-backward recursion with expected log-likelihoods. Right after the second update the bound on the log-likelihood
is :math:`\log \sum_z p(z) e^{\sum_t \ell_t(z_t)} + H[q(s)]`. Ghahramani and Hinton (2000) take a product
over their parallel chains as well; here all chains are one Gaussian, which lets them depend on each other and makes the
bound at least as tight.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.core import Steps
from hiddenstate.latent.hmm import recursions
from hiddenstate.latent.hmm.operators import Dense
from hiddenstate.latent.switching.regimes import Regimes
from hiddenstate.ops.block_tridiagonal import chain_moments
from hiddenstate.ops.gaussian import LOG_TWO_PI, symmetric
from hiddenstate.ops.sums import sum_over_time


class RegimeChain(NamedTuple):
    """The chain that regimes follow: the probabilities of the first one, and of each one given the last."""

    initial: Float[Array, " regime"]
    transition: Float[Array, "regime regime"]


class StatePosterior(NamedTuple):
    """q(s_1 .. s_T): its moments and its entropy. Behind the end of a sequence they are of no meaning."""

    mean: Float[Array, "time state"]
    covariance: Float[Array, "time state state"]
    cross_covariance: Float[Array, "earlier state state"]
    """Of each step with the next one."""
    entropy: Float[Array, ""]


class RegimePosterior(NamedTuple):
    """q(z_1 .. z_T): its marginals, the sum over time of its pairs, and what it adds to the bound."""

    marginals: Float[Array, "time regime"]
    moves: Float[Array, "regime regime"]
    bound: Float[Array, ""]


class VariationalPosterior(NamedTuple):
    """Both halves of q, and the bound on the log-likelihood that they give."""

    regimes: RegimePosterior
    states: StatePosterior
    bound: Float[Array, ""]


class VariationalSmoothed(NamedTuple):
    """What all observations say of regimes and states, by structured variational inference."""

    marginals: Float[Array, "*sequence time regime"]
    """q(z_t) at every step."""
    mean: Float[Array, "*sequence time state"]
    covariance: Float[Array, "*sequence time state state"]
    cross_covariance: Float[Array, "*sequence earlier state state"]
    """Of each state with the next one."""
    bound: Float[Array, "*sequence"]
    """At most the log-probability of the sequence."""


def ascended(
    switch: RegimeChain,
    regimes: Regimes,
    steps: Steps,
    marginals: Float[Array, "time regime"],
    sweeps: int,
    temperature: Any = 1.0,
) -> VariationalPosterior:
    """The posterior after so many sweeps of coordinate ascent from given marginals of the regimes."""
    parts = prepared(regimes, steps)

    def again(_, marginals):
        return swept(switch, parts, marginals, temperature).regimes.marginals

    marginals = jax.lax.fori_loop(0, sweeps - 1, again, marginals)
    return swept(switch, parts, marginals, temperature)


def swept(
    switch: RegimeChain, parts: "Prepared", marginals: Float[Array, "time regime"], temperature: Any = 1.0
) -> VariationalPosterior:
    """The best q(s) given marginals of the regimes, and then the best q(z) given that."""
    states = state_posterior(parts, marginals)
    found = regime_posterior(switch, expected_log_likelihoods(parts, states), parts.valid, temperature)
    return VariationalPosterior(found, states, found.bound + states.entropy)


# -- what does not change from sweep to sweep ------------------------------------------------------------------


class Quadratic(NamedTuple):
    r"""The parts of a regression y = M r + o + noise, whose log-density is a quadratic form: all with a regime axis.

    `weighted` is :math:`W M` with W the precision of the noise, `squared` is :math:`M^\top W M`.
    """

    precision: Float[Array, "*time regime target target"]
    matrix: Float[Array, "regime target regressor"]
    offset: Float[Array, "regime target"]
    weighted: Float[Array, "*time regime target regressor"]
    squared: Float[Array, "*time regime regressor regressor"]
    constant: Float[Array, "*time regime"]
    """The logarithm of the density where y is as expected."""


class Prepared(NamedTuple):
    """The three regressions of the model, and the data."""

    first: Quadratic
    moves: Quadratic
    seen: Quadratic
    x: Float[Array, "time event"]
    valid: Shaped[Array, " time"]


def prepared(regimes: Regimes, steps: Steps) -> Prepared:
    """All that is computed once, before the first sweep."""
    count, n = regimes.initial_mean.shape
    dtype = regimes.dynamics.dtype
    x = jnp.asarray(steps.values, dtype).reshape(steps.length, -1)
    valid = jnp.ones(steps.length, bool) if steps.valid is None else steps.valid
    first = _quadratic(regimes.initial_root, jnp.zeros((count, n, 0), dtype), regimes.initial_mean)
    moves = _quadratic(regimes.dynamics_root, regimes.dynamics, regimes.dynamics_offset)
    if steps.observed is None:
        seen = _quadratic(regimes.observation_root, regimes.observation, regimes.observation_offset)
    else:
        observed = steps.observed.reshape(x.shape)
        seen = jax.vmap(lambda mask: _partial(regimes, mask))(observed)
        seen = seen._replace(matrix=regimes.observation, offset=regimes.observation_offset)
    return Prepared(first, moves, seen, x, valid)


@jax.vmap
def _quadratic(root: Array, matrix: Array, offset: Array) -> Quadratic:
    precision = symmetric(cho_solve((root, True), jnp.eye(len(root), dtype=root.dtype)))
    rows = solve_triangular(root, matrix, lower=True)
    log_scale = jnp.log(jnp.abs(jnp.diagonal(root))).sum()
    constant = -log_scale - 0.5 * LOG_TWO_PI * len(root)
    return Quadratic(precision, matrix, offset, precision @ matrix, rows.T @ rows, constant)


def _partial(regimes: Regimes, observed: Array) -> Quadratic:
    """What one step says of which only some entries are known: the density of those."""
    eye = jnp.eye(len(observed), dtype=regimes.observation.dtype)
    noise = jnp.where(observed[:, None] & observed, regimes.observation_noise, eye)
    found = _quadratic(
        jnp.linalg.cholesky(noise), jnp.where(observed[:, None], regimes.observation, 0.0), regimes.observation_offset
    )
    precision = jnp.where(observed[:, None] & observed, found.precision, 0.0)
    missing = (~observed).sum().astype(eye.dtype)
    return found._replace(precision=precision, constant=found.constant + 0.5 * LOG_TWO_PI * missing)


# -- the two updates -------------------------------------------------------------------------------------------


def state_posterior(parts: Prepared, marginals: Float[Array, "time regime"]) -> StatePosterior:
    """The best q(s) given marginals of the regimes: a smoother whose precisions are the regimes' averages."""
    first, moves, seen, x, valid = parts
    weights = jnp.where(valid[:, None], marginals, 0.0)
    later = weights[1:]
    timed = "t" if seen.precision.ndim == 4 else ""
    diagonal = jnp.einsum(f"tk,{timed}kij->tij", weights, seen.squared)
    apart = x[:, None] - seen.offset
    vector = jnp.einsum(f"tk,{timed}kei,tke->ti", weights, seen.weighted, apart)
    diagonal = diagonal.at[0].add(jnp.einsum("k,kij->ij", weights[0], first.precision))
    vector = vector.at[0].add(jnp.einsum("k,kij,kj->i", weights[0], first.precision, first.offset))
    diagonal = diagonal.at[1:].add(jnp.einsum("tk,kij->tij", later, moves.precision))
    diagonal = diagonal.at[:-1].add(jnp.einsum("tk,kij->tij", later, moves.squared))
    vector = vector.at[1:].add(later @ jnp.einsum("kij,kj->ki", moves.precision, moves.offset))
    vector = vector.at[:-1].add(-later @ jnp.einsum("kij,ki->kj", moves.weighted, moves.offset))
    following = -jnp.einsum("tk,kij->tji", later, moves.weighted)
    n = vector.shape[1]
    diagonal = jnp.where(valid[:, None, None], diagonal, jnp.eye(n, dtype=vector.dtype))
    mean, covariance, crossed, log_determinants = chain_moments(symmetric(diagonal), following, vector)
    entropies = jnp.where(valid, 0.5 * (n * (LOG_TWO_PI + 1) - log_determinants), 0.0)
    return StatePosterior(mean, covariance, crossed, sum_over_time(entropies))


def regime_posterior(
    switch: RegimeChain,
    log_likelihoods: Float[Array, "time regime"],
    valid: Shaped[Array, " time"],
    temperature: Any = 1.0,
) -> RegimePosterior:
    """The best q(z) given expected log-likelihoods; above temperature one it believes less in them."""
    scaled = log_likelihoods / temperature
    chain = recursions.Chain(Dense(switch.transition))
    found = recursions.forward(chain, switch.initial, scaled, valid)
    marginals = recursions.smooth(chain, found, valid)
    moves = chain.operator.counts(found.filtered[:-1], recursions.ratios(found, marginals, valid)).matrix
    held_back = jnp.where(marginals > 0, marginals * (log_likelihoods - scaled), 0.0).sum(1)
    bound = sum_over_time(found.evidence + jnp.where(valid, held_back, 0.0))
    return RegimePosterior(marginals, moves, bound)


def expected_log_likelihoods(parts: Prepared, states: StatePosterior) -> Float[Array, "time regime"]:
    """What each regime's log-density of every state and observation is expected to be, under q(s)."""
    mean, covariance, crossed, _ = states
    first, moves, seen, x, valid = parts
    start = _expected(
        first, mean[:1], covariance[:1], mean[:1, :0], covariance[:1, :0, :0], crossed=covariance[:1, :, :0]
    )
    moved = _expected(moves, mean[1:], covariance[1:], mean[:-1], covariance[:-1], jnp.swapaxes(crossed, 1, 2))
    m = x.shape[1]
    exact = jnp.zeros((len(x), m, m), x.dtype)
    looked = _expected(seen, x, exact, mean, covariance, jnp.zeros((len(x), m, mean.shape[1]), x.dtype))
    return jnp.where(valid[:, None], jnp.concatenate([start, moved]) + looked, 0.0)


def _expected(
    form: Quadratic, target: Array, spread: Array, regressor: Array, regressor_spread: Array, crossed: Array
) -> Float[Array, "time regime"]:
    """The expected log-density of every step under every regime; `crossed` is the targets' with the regressors."""
    residual = target[:, None] - jnp.einsum("kij,tj->tki", form.matrix, regressor) - form.offset
    timed = "t" if form.precision.ndim == 4 else ""
    quadratic = jnp.einsum(f"tki,{timed}kij,tkj->tk", residual, form.precision, residual)
    quadratic += jnp.einsum(f"{timed}kij,tij->tk", form.precision, spread)
    quadratic -= 2 * jnp.einsum(f"{timed}kij,tij->tk", form.weighted, crossed)
    quadratic += jnp.einsum(f"{timed}kij,tij->tk", form.squared, regressor_spread)
    return form.constant - 0.5 * quadratic
