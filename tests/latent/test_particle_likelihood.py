"""The likelihood estimate is unbiased, its error falls like one over the square root of the particles."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest

import hiddenstate as hs
from hiddenstate.latent.particle import ParticleFilter, StateSpace
from latent.particle_examples import (
    CHAIN,
    REALS,
    SYMBOLS,
    Halfway,
    chain,
    chain_exact,
    line,
    line_exact,
    relative,
)
from marks import quick

STORED = np.load(Path(__file__).parents[1] / "reference" / "particles.npz")


def assert_unbiased(ratios: np.ndarray) -> None:
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / np.sqrt(len(ratios)), (ratios.mean(), ratios.std())


@pytest.mark.parametrize("resampling", quick(["systematic", "stratified", "multinomial", "residual"]))
def test_the_estimate_is_unbiased_under_every_resampling_scheme(resampling):
    model = ParticleFilter(line(), 10, resampling=resampling, threshold=0.7, key=jr.key(0))
    assert_unbiased(relative(model, REALS, line_exact(REALS)[0], 5000))


@pytest.mark.parametrize("proposal", quick(["guided", "auxiliary", "auxiliary, guessed", "own"]))
def test_the_estimate_is_unbiased_under_every_proposal(proposal):
    known = proposal in ("guided", "auxiliary")
    kind = Halfway() if proposal == "own" else proposal.split(",")[0]
    model = ParticleFilter(line(known), 10, kind, threshold=0.7, key=jr.key(0))
    ratios = relative(model, REALS, line_exact(REALS)[0], 5000)
    assert_unbiased(ratios)
    bootstrap = relative(ParticleFilter(line(), 10, threshold=0.7, key=jr.key(0)), REALS, line_exact(REALS)[0], 5000)
    if known:
        assert ratios.std() < 0.7 * bootstrap.std()


@pytest.mark.parametrize("proposal", quick(["bootstrap", "guided", "auxiliary"]))
def test_the_estimate_is_unbiased_for_hidden_symbols(proposal):
    model = ParticleFilter(chain(), 5, proposal, threshold=0.9, key=jr.key(0))
    assert_unbiased(relative(model, SYMBOLS, chain_exact(SYMBOLS)[0], 5000))


@pytest.mark.parametrize("proposal", quick(["bootstrap", "guided", "auxiliary", "own"]))
def test_missing_steps_are_left_out(proposal):
    gaps = np.isin(np.arange(len(REALS)), (0, 3))
    data = hs.Sequences.of([REALS], missing=[gaps])
    kind = Halfway() if proposal == "own" else proposal
    model = ParticleFilter(line(proposal == "guided"), 10, kind, threshold=1.0, key=jr.key(0))
    assert_unbiased(relative(model, data, line_exact(REALS, (0, 3))[0], 5000))
    steps = hs.step_log_probs(model, data)[0]
    assert (np.asarray(steps == 0) == gaps).all()
    assert not hs.states(model, data).information.resampled[0, [1, 4]].any()


@pytest.mark.slow
def test_the_error_falls_like_one_over_the_square_root_of_the_particles():
    exact = line_exact(REALS)[0]
    sizes = np.array([8, 32, 128])
    errors = []
    for size in sizes:
        model = ParticleFilter(line(), int(size), resampling="multinomial", threshold=1.0, key=jr.key(0))
        errors.append(np.sqrt(((relative(model, REALS, exact, 1000) - 1) ** 2).mean()))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert abs(slope + 0.5) < 0.08, (errors, slope)


@pytest.mark.parametrize(
    "name", quick(["volatility/bootstrap", "linear/bootstrap", "linear/guided", "linear/auxiliary"])
)
def test_the_library_particles_finds_the_same_mean_and_spread(name):
    """Random numbers differ, so means and standard deviations are compared, within their joint standard errors."""
    family, proposal = name.split("/")
    if family == "volatility":
        model = StateSpace(
            dist.Normal(-1.0, 0.8),
            lambda z, u: dist.Normal(-1.0 + 0.9 * (z + 1.0), 0.5),
            lambda z, u: dist.Normal(0.0, jnp.exp(z / 2)),
        )
    else:
        model = StateSpace(
            dist.Normal(0.0, 1.0),
            lambda z, u: dist.Normal(0.9 * z, 0.7),
            lambda z, u: dist.Normal(z, 0.5),
            linear_emission=True,
        )
    theirs = STORED[f"{name}/log_likelihoods"]
    ours = np.log(
        relative(ParticleFilter(model, 100, proposal, key=jr.key(0)), STORED[f"{family}/observed"], 0.0, 1000)
    )

    def error(a):
        return a.std() / np.sqrt(len(a))

    assert abs(ours.mean() - theirs.mean()) < 4 * np.hypot(error(ours), error(theirs))
    spread = [error((a - a.mean()) ** 2) for a in (ours, theirs)]
    assert abs(ours.var() - theirs.var()) < 4 * np.hypot(*spread)
    if family == "linear":
        assert_unbiased(np.exp(ours - STORED["linear/exact"]))


@pytest.mark.parametrize("proposal", quick(["bootstrap", "guided"]))
def test_with_many_particles_the_gradient_is_that_of_the_log_likelihood(proposal):
    """Also for hidden symbols, whose draws have no derivative of their own."""
    data = hs.Sequences.of([SYMBOLS])
    logits, model = np.log(CHAIN[1]), ParticleFilter(chain(), 300, proposal, threshold=0.9, key=jr.key(1))

    def total(logits, key):
        return hs.log_prob(eqx.tree_at(lambda m: m.model.transition.logits, model.reseed(key), logits), data)[0]

    each = jax.jit(jax.vmap(jax.grad(total), (None, 0)))(jnp.asarray(logits), jr.split(jr.key(2), 200))
    due, step = np.zeros((2, 2)), 1e-5
    for place in np.ndindex(2, 2):
        for sign in (1, -1):
            moved = logits.copy()
            moved[place] += sign * step
            rows = np.exp(moved) / np.exp(moved).sum(1, keepdims=True)
            due[place] += sign * chain_exact(SYMBOLS, transition=rows)[0] / (2 * step)
    error = each.std(0) / np.sqrt(len(each))
    assert (np.abs(each.mean(0) - due) < 4 * error + 0.005).all(), (each.mean(0), due, error)  # biased by about 1 / M
    assert np.abs(due).min() > 0.15
