"""Rao-Blackwellised particles against every path of regimes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import norm

import hiddenstate as hs
from hiddenstate.core import partition
from hiddenstate.inference import arrays_for, masked_log_probs
from latent import switching_oracle as oracle
from latent.test_switching import line, values
from marks import quick


def estimates(model, xs, count):
    """The log-likelihoods under so many random keys."""
    arrays = arrays_for(model, hs.Sequences.of([xs]))

    @eqx.filter_jit
    def every(keys):
        return jax.vmap(lambda key: masked_log_probs(model.reseed(key), arrays, hs.Sequential())[0].sum())(keys)

    return np.asarray(every(jr.split(jr.key(1), count)))


def assert_unbiased(log_probs, exact):
    ratio = np.exp(log_probs - exact)
    assert ratio.std() > 0
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / np.sqrt(len(ratio))


@pytest.fixture(scope="module")
def data():
    return np.asarray(line().simulate(8, key=jr.key(2)).values[0])


@pytest.mark.parametrize("proposal", quick(["optimal", "bootstrap"]))
def test_the_likelihood_is_unbiased(data, proposal):
    exact = oracle.log_likelihood(oracle.every_path(line(), data))
    found = estimates(hs.RaoBlackwellised(line(), 6, proposal, key=jr.key(0)), data, 2000)
    assert_unbiased(found, exact)


def test_many_particles_come_close_to_all_paths(data):
    paths = oracle.every_path(line(), data)
    model = hs.RaoBlackwellised(line(), 3000, key=jr.key(0))
    assert hs.log_prob(model, [data])[0] == pytest.approx(oracle.log_likelihood(paths), abs=0.02)
    found = hs.filter(model, [data])
    np.testing.assert_allclose(found.marginals[0, -1], oracle.marginals(paths)[-1], atol=0.03)
    np.testing.assert_allclose(found.mean[0, -1], oracle.mean_state(paths)[-1], atol=0.03)
    assert np.all(np.asarray(found.covariance) > 0)
    assert np.all((np.asarray(found.effective_sample_size) > 300) & (np.asarray(found.effective_sample_size) < 3001))


def test_a_switch_that_looks_at_the_state_is_unbiased_too():
    slopes, xs = np.array([[0.0], [1.5]]), np.array([0.8, -0.3])
    grid = np.linspace(-8, 8, 4001)
    start = norm.pdf(grid) * norm.pdf(xs[0], grid, np.sqrt(0.3))
    total = 0.0
    for share, moves in ((0.6, [0.9, 0.1]), (0.4, [0.3, 0.7])):
        logits = np.log(moves)[:, None] + slopes * grid
        probs = np.exp(logits) / np.exp(logits).sum(0)
        for second, (a, q) in enumerate(((0.9, 0.2), (-0.5, 0.6))):
            total += share * np.trapezoid(start * probs[second] * norm.pdf(xs[1], a * grid, np.sqrt(q + 0.3)), grid)
    model = hs.RaoBlackwellised(line(recurrence=slopes), 4, key=jr.key(0))
    assert_unbiased(estimates(model, xs, 4000), np.log(total))


def test_one_regime_needs_no_chance():
    alone = {"initial": [1.0], "transition": [[1.0]], "dynamics": [[0.9]], "dynamics_noise": [[0.2]]}
    model = line(**alone)
    xs = [values(5, 0)]
    due = hs.step_log_probs(model, xs)
    np.testing.assert_allclose(hs.step_log_probs(hs.RaoBlackwellised(model, 2, key=jr.key(0)), xs), due, atol=1e-10)


@pytest.mark.slow
def test_gradients_are_finite_and_near_those_of_all_paths(data):
    """With many particles the gradient of the estimate is near that of the sum over all paths."""
    model = hs.RaoBlackwellised(line(), 4000, key=jr.key(0))
    learned, rest = partition(model)
    sequences = hs.Sequences.of([data])
    slope = jax.grad(lambda p: hs.log_prob(eqx.combine(p, rest), sequences, total=True))(learned)
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(slope))

    def exact(by):
        moved = line(dynamics=[[[0.9 + by]], [[-0.5]]])
        return oracle.log_likelihood(oracle.every_path(moved, data))

    found = float(slope.model.parameters.dynamics[0, 0, 0])
    assert found == pytest.approx((exact(1e-4) - exact(-1e-4)) / 2e-4, abs=0.1)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"particles": 0}, "particles is 0; it must be a whole number of at least 1"),
        ({"proposal": "guided"}, "proposal is 'guided'; it must be 'optimal' or 'bootstrap'"),
        ({"resampling": "none"}, "resampling is 'none'"),
        ({"threshold": 2}, "threshold is 2"),
        ({"model": None}, "model is NoneType; it must be an hs.SwitchingLinearGaussian"),
    ],
)
def test_bad_options_are_refused(changed, sentence):
    with pytest.raises(hs.HiddenStateError, match=sentence):
        hs.RaoBlackwellised(**{"model": line(), "particles": 3, "key": jr.key(0), **changed})
