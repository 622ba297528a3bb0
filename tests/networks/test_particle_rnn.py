"""The particle filter as a recurrent network: the filter's own numbers, and the forward algorithm's in the limit."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest

import hiddenstate as hs
from laws import laws
from laws.cases.parts import SYMBOLS
from marks import quick

INITIAL, TRANSITION = np.array([0.5, 0.2, 0.3]), np.array([[0.7, 0.2, 0.1], [0.0, 0.8, 0.2], [0.3, 0.3, 0.4]])
EMISSION = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.2, 0.6, 0.2]])
SEEN = np.array([0, 2, 2, 1, 0, 1])


def chain():
    return hs.HMM(initial=INITIAL, transition=TRANSITION, emission=hs.emissions.Categorical(probs=EMISSION))


def line():
    return hs.LinearGaussian(
        transition=[[0.9, 0.2], [0.0, 0.7]],
        transition_noise=[[0.3, 0.1], [0.1, 0.2]],
        emission=[1.0, 0.5],
        emission_noise=0.4,
    )


AUTO = hs.Auto()
MODELS = {"chain": (chain, SEEN), "line": (line, np.array([0.3, -0.5, 1.1, 1.6, 0.2, -0.4]))}


def runs(model, xs, seeds, strategy=AUTO):
    """Log-probabilities of all steps and all states, for each seed."""
    seeded = (model.reseed(jr.key(seed)) for seed in seeds)
    return [(hs.step_log_probs(m, xs, strategy=strategy), hs.states(m, xs, strategy=strategy)) for m in seeded]


@pytest.mark.parametrize(
    ("resampling", "threshold"), quick([pytest.param("multinomial", 1.0), pytest.param("systematic", 0.5)])
)
@pytest.mark.parametrize("strategy", [AUTO, hs.Sequential()])
@pytest.mark.parametrize("kind", MODELS)
def test_the_network_gives_the_filters_numbers_bit_for_bit(kind, resampling, threshold, strategy):
    make, xs = MODELS[kind]
    model = hs.ParticleFilter(make(), 20, resampling=resampling, threshold=threshold, key=jr.key(0))
    network = hs.ParticleRNN(model)
    for (expected, filtered), (found, units) in zip(
        runs(model, xs, range(5), strategy), runs(network, xs, range(5), strategy), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(units.proposed, filtered.particles)
        np.testing.assert_array_equal(units.log_weights, filtered.log_weights)
        np.testing.assert_array_equal(units.ancestors, filtered.information.ancestors)
        kept = jnp.take_along_axis(
            filtered.particles[0, :-1], _spread(units.ancestors[0, 1:], filtered.particles[0]), 1
        )
        np.testing.assert_array_equal(units.particles[0, 1:], kept)
    assert len({float(steps.sum()) for steps, _ in runs(network, xs, range(3))}) == 3


def _spread(ancestors, particles):
    return ancestors.reshape(*ancestors.shape, *[1] * (particles.ndim - 2))


def test_the_network_equals_a_plain_loop_over_inverse_cumulative_distributions():
    """A filter in NumPy, from the same uniform numbers: multinomial resampling at every step, as in the paper."""
    count, key = 12, jr.key(4)
    network = hs.ParticleRNN(hs.ParticleFilter(chain(), count, resampling="multinomial", threshold=1, key=key))
    units = hs.states(network, SEEN)
    seed, noise = jr.split(_key(jr.bits(key, (2,), jnp.uint32)))

    def moved(rows, noise):
        uniform = np.array([jr.uniform(k) for k in jr.split(noise, count)])
        return np.array(
            [np.searchsorted(np.cumsum(row), u, side="right") for row, u in zip(rows, uniform, strict=True)]
        )

    particles, total = moved([INITIAL] * count, noise), []
    for t, x in enumerate(SEEN):
        np.testing.assert_array_equal(units.proposed[0, t], particles)
        weights = EMISSION[particles, x]
        total.append(np.log(weights.mean()))
        seed, _, choice, noise = jr.split(seed, 4)
        tickets = np.round(weights / weights.sum() * 2.0**31).astype(np.uint32)
        drawn = jr.randint(choice, (count,), 0, int(tickets.sum()), jnp.uint32)
        particles = particles[np.searchsorted(np.cumsum(tickets, dtype=np.uint32), drawn, side="right")]
        particles = moved(TRANSITION[particles], noise)
    np.testing.assert_allclose(hs.step_log_probs(network, SEEN)[0], total, rtol=1e-12)


def _key(words):
    return jr.wrap_key_data(words, impl="threefry2x32")


@pytest.mark.slow
def test_its_predictions_approach_the_forward_algorithms_like_one_over_the_particles():
    belief, exact = INITIAL, []
    for x in SEEN:
        exact.append(belief @ EMISSION)
        joint = belief * EMISSION[:, x]
        belief = joint / joint.sum() @ TRANSITION
    exact = np.array(exact)
    sizes, divergence = np.array([16, 64, 256, 1024]), []
    data = hs.Sequences.of([SEEN])
    for count in sizes:
        network = hs.ParticleRNN(
            hs.ParticleFilter(chain(), int(count), resampling="multinomial", threshold=1, key=jr.key(0))
        )
        found = _predictions(network, data, jr.split(jr.key(1), 100))
        divergence.append((exact * np.log(exact / found)).sum(-1).mean())
    slope = np.polyfit(np.log(sizes), np.log(divergence), 1)[0]
    assert -1.25 < slope < -0.8  # the mean of a hundred seeds of six steps: about a tenth either way
    assert divergence[-1] < 1e-3


def _predictions(network, data, keys):
    """The predicted probabilities of the three symbols at every step, for each key."""
    xs = jnp.asarray(data.values[0])

    def one(key):
        def advance(state, x):
            return own.step(state, own.prepare(x)), jnp.exp(jax.vmap(own.readout(state).log_prob)(jnp.arange(3)))

        own = network.reseed(key)
        return jax.lax.scan(advance, own.initial(), xs)[1]

    return np.asarray(jax.jit(jax.vmap(one))(keys))


@pytest.mark.slow
def test_a_simulated_readout_is_one_particles_emission_and_on_average_the_mixture():
    model = hs.ParticleFilter(chain(), 8, resampling="multinomial", threshold=1, key=jr.key(0))
    mixture, simulated = hs.ParticleRNN(model), hs.ParticleRNN(model, readout="simulate")
    data, keys = hs.Sequences.of([SEEN]), jr.split(jr.key(2), 4000)
    one = _predictions(simulated, data, keys)
    assert (np.abs(one[:, :, None] - EMISSION).max(-1).min(-1) < 1e-6).all()
    np.testing.assert_allclose(one.mean(0), _predictions(mixture, data, keys).mean(0), atol=0.03)
    points = jax.jit(jax.vmap(lambda key: simulated.simulated(simulated.reseed(key).initial())))(keys)
    frequencies = np.bincount(np.asarray(points), minlength=3) / len(keys)
    np.testing.assert_allclose(frequencies, INITIAL @ EMISSION, atol=0.03)  # four standard errors


@pytest.mark.parametrize("readout", quick(["mixture", "simulate"]))
@pytest.mark.slow
def test_the_laws_hold(readout):
    model = hs.ParticleFilter(chain(), 5, resampling="multinomial", threshold=1, key=jr.key(7))
    network = hs.ParticleRNN(model, readout=readout)
    laws.normalised(network, SYMBOLS)
    laws.saving_changes_nothing(network)
    if readout == "simulate":
        return
    laws.streaming_equals_batch(network)
    laws.padding_is_invisible(network)
    laws.missing_is_marginalised_or_refused(network, SYMBOLS, laws.Limits(exact=False))


def test_what_cannot_be_emulated_is_refused():
    with pytest.raises(hs.HiddenStateError, match="proposal is guided"):
        hs.ParticleRNN(hs.ParticleFilter(chain(), 5, "guided", key=jr.key(0)))
    with pytest.raises(hs.HiddenStateError, match="filter is HMM"):
        hs.ParticleRNN(chain())  # pyright: ignore[reportArgumentType]
    with pytest.raises(hs.HiddenStateError, match="readout is 'delta'"):
        hs.ParticleRNN(hs.ParticleFilter(chain(), 5, key=jr.key(0)), readout="delta")  # pyright: ignore[reportArgumentType]
    heavy = hs.StateSpace(
        initial=dist.StudentT(4.0, 0.0, 1.0),
        transition=lambda z, u: dist.StudentT(4.0, z, 1.0),
        emission=lambda z, u: dist.Normal(z, 1.0),
    )
    with pytest.raises(hs.HiddenStateError, match="hidden state is StudentT"):
        hs.ParticleRNN(hs.ParticleFilter(heavy, 5, key=jr.key(0)))
