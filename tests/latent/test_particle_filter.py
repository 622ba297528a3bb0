"""Particle filters obey the laws, approach exact answers, and say in sentences what they cannot do."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest

import hiddenstate as hs
from hiddenstate.core import cast
from hiddenstate.inference import filter as filter_states
from hiddenstate.inference import sample_states, smooth
from hiddenstate.latent.linear_gaussian import LinearGaussian
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
)
from laws import laws
from laws.cases.parts import line as _line
from marks import quick

FILTERS = {  # others are among the library's cases
    "auxiliary": (lambda: ParticleFilter(line(True), 5, "auxiliary", threshold=1.0, key=jr.key(1)), "float64"),
}


@pytest.mark.parametrize("name", quick([pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in FILTERS]))
@pytest.mark.slow
def test_the_laws_hold_for_a_state_space_of_modules(name):
    (make, precision), grid = FILTERS[name], _line()
    model = cast(cast(make(), jnp.float32), jnp.dtype(precision))
    laws.normalised(model, grid)
    laws.same_answer(model)
    laws.streaming_equals_batch(model)
    laws.chunked_equals_whole(model)
    laws.padding_is_invisible(model)
    laws.combine_is_associative(model)
    laws.saving_changes_nothing(model)
    laws.samples_come_from_the_model(model, grid)
    laws.missing_is_marginalised_or_refused(model, grid, laws.Limits(exact=False))


def test_the_same_key_gives_the_same_bits_and_another_key_others():
    model = ParticleFilter(line(), 50, key=jr.key(3))
    again = ParticleFilter(line(), 50, key=jr.key(3))
    assert hs.log_prob(model, REALS)[0] == hs.log_prob(again, REALS)[0]
    assert hs.log_prob(model.reseed(jr.key(4)), REALS)[0] != hs.log_prob(model, REALS)[0]
    assert eqx.tree_equal(model.reseed(jr.key(3)), model)


@pytest.mark.parametrize("proposal", quick(["bootstrap", "guided"]))
@pytest.mark.slow
def test_with_many_particles_states_of_a_chain_are_the_exact_ones(proposal):
    model = ParticleFilter(chain(), 600, proposal, key=jr.key(5), trajectories=200)
    data = hs.Sequences.of([SYMBOLS, SYMBOLS[:3]])
    known, behind = filter_states(model, data), smooth(model, data)
    assert known.particles.dtype == behind.trajectories.dtype == jnp.int32
    for i, xs in enumerate((SYMBOLS, SYMBOLS[:3])):
        total, filtered, smoothed = chain_exact(xs)
        np.testing.assert_allclose(known.marginals[i, : len(xs)], filtered, atol=0.09)
        np.testing.assert_allclose(behind.marginals[i, : len(xs)], smoothed, atol=0.14)
        np.testing.assert_allclose(known.log_evidence[i, : len(xs)].sum(), total, atol=0.2)
    np.testing.assert_array_equal(known.particles[1, 3:], known.particles[1, [2, 2, 2]])
    np.testing.assert_array_equal(behind.trajectories[1, :, 3:], behind.trajectories[1][:, [2, 2, 2]])
    assert behind.trajectories.shape == (2, 200, 6)


@pytest.mark.parametrize("proposal", quick(["auxiliary", "own"]))
@pytest.mark.slow
def test_with_many_particles_states_of_a_linear_model_are_the_exact_ones(proposal):
    kind = Halfway() if proposal == "own" else proposal
    model = ParticleFilter(line(True), 500, kind, key=jr.key(6), trajectories=150)
    known, behind = filter_states(model, REALS), smooth(model, REALS)
    _, filtered, smoothed = line_exact(REALS)
    np.testing.assert_allclose(known.mean[0], filtered, atol=0.14)
    np.testing.assert_allclose(behind.mean[0], smoothed, atol=0.24)
    weights = np.exp(known.log_weights[0])
    np.testing.assert_allclose(weights.sum(-1), 1)
    np.testing.assert_allclose(known.effective_sample_size[0], 1 / (weights**2).sum(-1))
    drawn = sample_states(model, REALS, key=jr.key(7), n=60)
    assert drawn.shape == (1, 60, 6)
    np.testing.assert_allclose(drawn[0].mean(0), smoothed, atol=0.4)


def test_particles_descend_from_their_ancestors():
    """Moves without noise: a particle is what its ancestor was, one more."""
    model = StateSpace(dist.Normal(0.0, 1.0), lambda z, u: dist.Normal(z + 1, 1e-9), lambda z, u: dist.Normal(z, 1.0))
    for proposal in ("bootstrap", "auxiliary"):
        known = filter_states(ParticleFilter(model, 8, proposal, threshold=0.8, key=jr.key(8)), REALS)
        assert known.resampled[0].any() and not known.resampled[0].all()
        for t in range(1, 6):
            parents = known.particles[0, t - 1][known.ancestors[0, t]]
            np.testing.assert_allclose(known.particles[0, t], parents + 1, atol=1e-6)


@pytest.mark.slow
def test_library_models_and_per_entry_gaps():
    """An HMM and a linear Gaussian model of vectors, whose own answers are exact, with single entries missing."""
    hmm = hs.HMM(*CHAIN[:2], hs.emissions.Categorical(CHAIN[2]))
    found = hs.log_prob(ParticleFilter(hmm, 1500, key=jr.key(9)), SYMBOLS)[0]
    np.testing.assert_allclose(found, chain_exact(SYMBOLS)[0], atol=0.15)

    model = LinearGaussian(
        transition=[[0.9, 0.2], [0.0, 0.8]],
        transition_noise=[[0.3, 0.1], [0.1, 0.2]],
        transition_input=[[1.0], [0.0]],
        emission=[[1.0, 0.0], [0.5, 1.0]],
        emission_noise=[[0.2, 0.05], [0.05, 0.3]],
        emission_input=[[0.0], [0.5]],
    )
    rng = np.random.default_rng(0)
    xs, us = rng.normal(size=(5, 2)), rng.normal(size=(5, 1))
    gaps = np.zeros((5, 2), bool)
    gaps[1, 0] = gaps[3] = True
    data = hs.Sequences.of([xs], missing=[gaps], inputs=[us])
    for proposal in ("guided", "bootstrap"):
        found = hs.step_log_probs(ParticleFilter(model, 1500, proposal, key=jr.key(10)), data)[0]
        np.testing.assert_allclose(found, hs.step_log_probs(model, data)[0], atol=0.25)


@pytest.mark.slow
def test_forecasts_and_simulations_follow_the_model():
    model = ParticleFilter(line(), 1000, key=jr.key(11))
    ahead = hs.forecast(model, REALS, 3, key=jr.key(12), n=20)
    last = line_exact(REALS)[1][-1]
    np.testing.assert_allclose(ahead.mean[0], last * 0.9 ** np.arange(1, 4), atol=0.1)
    drawn = line().simulate(3, key=jr.key(13), n=4000)
    np.testing.assert_allclose(drawn.states.var(0), [1.0, 0.9**2 + 0.49, 0.81 * 1.3 + 0.49], rtol=0.1)
    np.testing.assert_allclose((drawn.values - drawn.states).std(0), 0.8, rtol=0.05)


def test_an_impossible_observation_has_probability_zero_and_is_named():
    model = StateSpace(
        dist.Categorical(jnp.array([0.5, 0.5])),
        lambda z, u: dist.Categorical(jnp.array([0.5, 0.5])),
        lambda z, u: dist.CategoricalLogits(jnp.array([0.0, -jnp.inf, 0.0])),
    )
    for proposal in ("bootstrap", "guided"):
        found = ParticleFilter(model, 10, proposal, key=jr.key(14))
        steps = hs.step_log_probs(found, np.array([0, 1, 2]))[0]
        np.testing.assert_allclose(steps, [-np.log(2), -np.inf, -np.log(2)])
        with pytest.raises(hs.DataError, match="holds 1 at step 2, which has probability zero"):
            filter_states(found, np.array([0, 1, 2]))


def test_a_posterior_that_the_model_names_is_used():
    class Named(eqx.Module):
        inner: StateSpace

        def latent_initial(self):
            return self.inner.latent_initial()

        def latent_next(self, z, u=None):
            return self.inner.latent_next(z, u)

        def latent_emission(self, z, u=None):
            return self.inner.latent_emission(z, u)

        def latent_posterior(self, z, x, u):
            return self._known(0.9 * z, 0.49, x)

        def latent_first_posterior(self, x, u):
            return self._known(0.0, 1.0, x)

        def _known(self, mean, variance, x):
            gain = variance / (variance + 0.64)
            away = dist.Normal(mean, jnp.sqrt(variance + 0.64)).log_prob(x)
            return dist.Normal(mean + gain * (x - mean), jnp.sqrt((1 - gain) * variance)), away

    model = ParticleFilter(Named(line()), 1000, "guided", key=jr.key(15))
    np.testing.assert_allclose(hs.log_prob(model, REALS)[0], line_exact(REALS)[0], atol=0.1)


def test_functions_cannot_be_saved_and_the_error_says_where_they_are(tmp_path):
    model = StateSpace(
        lambda: dist.Normal(0.0, 1.0), lambda z, u: dist.Normal(z, 1.0), lambda z, u: dist.Normal(z, 1.0)
    )
    with pytest.raises(hs.FileError, match=r"'model.initial'.*function.*cannot hold"):
        hs.save(ParticleFilter(model, 10, key=jr.key(0)), tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"particles": 0}, "particles is 0; it must be a whole number of at least 1"),
        ({"particles": 2.5}, "particles is 2.5; it must be a whole number"),
        ({"trajectories": 0}, "trajectories is 0; it must be"),
        ({"resampling": "lucky"}, "resampling is 'lucky'; it must be one of systematic, stratified, multinomial"),
        ({"threshold": 1.5}, "threshold is 1.5; it must be a number from 0"),
        ({"threshold": float("nan")}, "threshold is nan"),
        ({"proposal": "clever"}, "proposal is 'clever'; it must be one of bootstrap, guided, auxiliary, or an object"),
        ({"proposal": "guided"}, "locally optimal proposal of StateSpace is not known.*Take 'bootstrap'"),
        ({"model": eqx.nn.Identity()}, "Identity, which has no latent_initial, latent_next, latent_emission"),
        ({"key": 3}, "the key is 3"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(options, sentence):
    given = {"model": line(), "particles": 10, "key": jr.key(0), **options}
    with pytest.raises(hs.HiddenStateError, match=sentence):
        ParticleFilter(**given)


def test_bad_functions_are_refused_in_a_sentence():
    first, move = dist.Normal(0.0, 1.0), lambda z, u: dist.Normal(z, 1.0)
    for functions, sentence in (
        ((3.0, move, move), "initial is float; it must be a distribution, or a function"),
        ((first, None, move), "transition is NoneType; it must be a function"),
        ((first, move, lambda z, u: z), r"latent_emission\(z, u\) gives .*; it must give a numpyro Distribution"),
        ((first, move, lambda z, u: dist.Normal(jnp.zeros(2), 1.0)), r"batch shape \(2,\); it must give one"),
        (
            (first, lambda z, u: dist.Normal(jnp.zeros(2), 1.0).to_event(1), move),
            r"shape \(\), but the next one \(2,\)",
        ),
    ):
        with pytest.raises(hs.HiddenStateError, match=sentence):
            StateSpace(*functions)
    with pytest.raises(hs.DataError, match=r"inputs has shape \(\); it must be \(4, 2\)"):
        StateSpace(first, move, move, inputs=2).simulate(4, key=jr.key(0))


def test_a_step_costs_no_loop_over_particles():
    """The program for many particles is the program for few."""
    sizes = {}
    for particles in (10, 1000):
        model = ParticleFilter(line(), particles, resampling="multinomial", key=jr.key(0))
        jaxpr = jax.make_jaxpr(lambda x, m=model: m.step(m.initial(), m.prepare(x)))(0.3)
        sizes[particles] = len(str(jaxpr).splitlines())
    assert sizes[1000] < 1.5 * sizes[10]
