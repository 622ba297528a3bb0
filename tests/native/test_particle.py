"""The kernels of bootstrap particle filters against a loop over steps in NumPy, with random numbers from JAX."""

from functools import partial

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hiddenstate as hs
from hiddenstate.native import particle
from marks import quick
from native.kernels import EXAMPLES, assert_close, assert_threads_agree, each_instruction_set, needs_kernels

PARTICLES = st.sampled_from([1, 2, 7, 32, 33, 100])
LENGTHS = st.lists(st.integers(0, 12), min_size=1, max_size=4)
THRESHOLDS = st.sampled_from([0.0, 0.5, 1.0])


def linear_moves(random, size, noises, event, lengths, varying):
    """Transition, root, emission and constant; and observations and shifts of each sequence."""
    shared = (
        random.normal(size=(size, size)) / (2 * np.sqrt(size)),
        random.normal(size=(size, noises)),
        random.normal(size=(event, size)),
        random.normal(),
    )
    time = max(1, *lengths)
    rows = time if varying else 1
    return shared, random.normal(size=(len(lengths), time, event)), random.normal(size=(len(lengths), rows, size))


def symbol_moves(random, states, lengths):
    """Probabilities of moves, some zero, and log-likelihoods, some of which rule a state out."""
    probs = random.random((states, states)) * (random.random((states, states)) < 0.6) + 1e-3 * np.eye(states)
    seen = random.normal(size=(len(lengths), max(1, *lengths), states)) * 2
    seen[random.random(seen.shape) < 0.1] = -np.inf
    return probs / probs.sum(1, keepdims=True), seen


def a_cloud(random, first, sequences, seed):
    """Particles with uneven weights, one of them with none where there are several."""
    count = first.shape[1]
    logs = random.normal(size=(sequences, count))
    logs[:, 1:2] = -np.inf
    logs -= np.log(np.exp(logs).sum(1, keepdims=True))
    ancestors = random.integers(0, count, (sequences, count)).astype(np.int32)
    return first, logs, ancestors, jr.key_data(jr.key(seed))


@partial(jax.jit, static_argnums=1)
def normals(keys, noises):
    return jax.vmap(lambda key: jr.normal(key, (noises,)))(keys)


def positions(resampling, key, count):
    drawn = np.asarray(jr.uniform(key, () if resampling == "systematic" else (count,)))
    return np.arange(count) + np.broadcast_to(drawn, (count,))


def plain_filter(weigh, move, cloud, seen, length, resampling, enough):
    """Every step in NumPy: the log-evidence, effective sample size and choice of each, the clouds, and the last one."""
    particles, logs, ancestors, words = cloud
    count, key, each, clouds = len(particles), jr.wrap_key_data(words), [], []
    for t in range(length):
        following, _, choose_key, move_key = jr.split(key, 4)
        scores = logs + (weigh(t, particles) if seen[t] else 0.0)
        evidence = np.log(np.exp(scores).sum()) if seen[t] else 0.0
        known = logs if evidence == -np.inf else scores
        known = known - np.log(np.exp(known).sum())
        size = 1 / np.exp(2 * known).sum()
        clouds.append((particles, logs, known, ancestors, np.asarray(jr.key_data(key))))
        chosen = bool(seen[t]) and not size >= enough
        ancestors = np.arange(count)
        logs = known
        if chosen:
            shares = np.cumsum(np.exp(known)) * count / np.exp(known).sum()
            ancestors = np.minimum(
                np.searchsorted(shares, positions(resampling, choose_key, count), "right"), count - 1
            )
            logs = np.full(count, -np.log(count))
        each.append((evidence, size, chosen))
        particles = move(t, particles[ancestors], jr.split(move_key, count))
        key = following
    return each, clouds, (particles, logs, ancestors, np.asarray(jr.key_data(key)))


def assert_runs_agree(found, expected, keep):
    """One sequence of a kernel's run and of the plain filter's, and what stands behind its end."""
    each, clouds, last = expected
    columns = list(zip(*each, strict=True)) or [(), (), ()]
    known = found.log_evidence, found.effective_sample_size, found.resampled
    for a, b in zip(known, columns, strict=True):
        assert_close(a[: len(each)].astype(float), np.asarray(b, float))
        assert (a[len(each) :] == (a[len(each) - 1] if each else a[:1])).all()
    assert_close(jax.tree.map(as_float, found.final), particle.Cloud(*map(as_float, last)))
    for t, (particles, before, after, ancestors, key) in enumerate(clouds):
        there = particles, {"before": before, "after": after}[keep], ancestors, key
        assert_close(jax.tree.map(lambda a, t=t: as_float(a[t]), found.kept), particle.Cloud(*map(as_float, there)))
    for a, b in zip(found.kept, found.final, strict=True):
        assert (a[len(each) :] == b).all()


def as_float(a):
    return (
        np.where(np.isinf(a), -1e3, np.asarray(a)).astype(float) if np.asarray(a).dtype.kind == "f" else np.asarray(a)
    )


@needs_kernels
@each_instruction_set
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
@given(
    particles=PARTICLES,
    size=st.integers(1, 4),
    noises=st.integers(1, 4),
    event=st.integers(1, 3),
    lengths=LENGTHS,
    varying=st.booleans(),
    gaps=st.booleans(),
    threshold=THRESHOLDS,
    resampling=st.sampled_from(particle.CHOOSING),
    keep=st.sampled_from(["before", "after"]),
    seed=st.integers(0, 999),
)
def test_vectors_move_as_in_a_plain_loop(
    instructions, particles, size, noises, event, lengths, varying, gaps, threshold, resampling, keep, seed
):
    random = np.random.default_rng(seed)
    shared, xs, shifts = linear_moves(random, size, noises, event, lengths, varying)
    transition, root, emission, constant = shared
    first, logs, ancestors, key = a_cloud(
        random, random.normal(size=(len(lengths), particles, size)), len(lengths), seed
    )
    seen = random.random(xs.shape[:2]) < (0.6 if gaps else 1.0)
    enough = threshold * particles * (1 - 1e-9) if threshold < 1 else np.inf

    def one(xs, shift, first, logs, ancestors, seen, length):
        moves = particle.Linear(*map(jnp.asarray, shared), xs, shift)
        cloud = particle.Cloud(first, logs, ancestors, key)
        return particle.run(
            moves, cloud, seen if gaps else None, length, resampling=resampling, enough=enough, keep=keep
        )

    each = tuple(map(jnp.asarray, (xs, shifts, first, logs, ancestors, seen, np.asarray(lengths, np.int32))))
    found = assert_threads_agree(lambda: jax.vmap(one)(*each), instructions)
    for i, length in enumerate(lengths):

        def weigh(t, z, i=i):
            return constant - 0.5 * ((xs[i, t] - z @ emission.T) ** 2).sum(1)

        def move(t, z, keys, i=i):
            noise = np.asarray(normals(keys, noises))
            return z @ transition.T + shifts[i, t if varying else 0] + noise @ root.T

        cloud = first[i], logs[i], ancestors[i], key
        expected = plain_filter(weigh, move, cloud, seen[i], length, resampling, enough)
        assert_runs_agree(jax.tree.map(lambda a, i=i: a[i], found), expected, keep)


@needs_kernels
@each_instruction_set
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
@given(
    particles=PARTICLES,
    states=st.integers(1, 9),
    lengths=LENGTHS,
    gaps=st.booleans(),
    threshold=THRESHOLDS,
    resampling=st.sampled_from(particle.CHOOSING),
    keep=st.sampled_from(["before", "after"]),
    seed=st.integers(0, 999),
)
def test_symbols_move_as_in_a_plain_loop(
    instructions, particles, states, lengths, gaps, threshold, resampling, keep, seed
):
    random = np.random.default_rng(seed)
    probs, likelihoods = symbol_moves(random, states, lengths)
    first = random.integers(0, states, (len(lengths), particles)).astype(np.int32)
    first, logs, ancestors, key = a_cloud(random, first, len(lengths), seed)
    seen = random.random(likelihoods.shape[:2]) < (0.6 if gaps else 1.0)
    enough = threshold * particles * (1 - 1e-9) if threshold < 1 else np.inf

    def one(likelihoods, first, logs, ancestors, seen, length):
        cloud = particle.Cloud(first, logs, ancestors, key)
        moves = particle.Symbols(jnp.asarray(probs), likelihoods)
        return particle.run(
            moves, cloud, seen if gaps else None, length, resampling=resampling, enough=enough, keep=keep
        )

    each = tuple(map(jnp.asarray, (likelihoods, first, logs, ancestors, seen, np.asarray(lengths, np.int32))))
    found = assert_threads_agree(lambda: jax.vmap(one)(*each), instructions)
    for i, length in enumerate(lengths):

        def move(t, z, keys):
            drawn = np.asarray(jax.vmap(jr.uniform)(keys))
            return np.asarray(
                [np.argmax(np.cumsum(row) > u * row.sum()) for row, u in zip(probs[z], drawn, strict=True)]
            )

        with np.errstate(divide="ignore"):
            cloud = first[i], logs[i], ancestors[i], key
            expected = plain_filter(
                lambda t, z, i=i: likelihoods[i, t][z], move, cloud, seen[i], length, resampling, enough
            )
        assert_runs_agree(jax.tree.map(lambda a, i=i: a[i], found), expected, keep)


@needs_kernels
@each_instruction_set
@pytest.mark.parametrize("doubles", [False, True])
def test_random_numbers_are_those_of_jax(instructions, doubles):
    """With nothing else in them particles are the numbers that moved them, in the precision in which JAX draws."""
    with jax.enable_x64(doubles), hs.native.limited(instructions=instructions):
        count, size, key = 3001, 3, jr.key(5)
        dtype = jnp.result_type(float)
        shared = jnp.zeros((size, size), dtype), jnp.eye(size, dtype=dtype), jnp.zeros((1, size), dtype)
        moves = particle.Linear(*shared, jnp.zeros((), dtype), jnp.zeros((1, 1), dtype), jnp.zeros((1, size), dtype))
        cloud = particle.Cloud(
            jnp.zeros((count, size), dtype), jnp.zeros(count, dtype), jnp.arange(count), jr.key_data(key)
        )
        cloud = cloud._replace(ancestors=cloud.ancestors.astype(jnp.int32))
        options = {"resampling": "systematic", "enough": 0.0}
        found = particle.run(moves, cloud, None, jnp.int32(1), **options).final.particles
        keys = jr.split(jr.split(key, 4)[3], count)
        expected = jax.vmap(lambda key: jr.normal(key, (size,)))(keys)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=16 * jnp.finfo(dtype).eps, atol=jnp.finfo(dtype).eps)
        # A thousand equally probable symbols are the leading digits of uniform numbers.
        symbols = particle.Symbols(jnp.full((1000, 1000), 1 / 1024, dtype), jnp.zeros((1, 1000), dtype))
        cloud = cloud._replace(particles=jnp.zeros(count, jnp.int32))
        found = particle.run(symbols, cloud, None, jnp.int32(1), **options).final.particles
        uniform = np.asarray(jax.vmap(jr.uniform)(keys), float)
        np.testing.assert_array_equal(found, np.floor(uniform * 1000))


# -- models ---------------------------------------------------------------------------------------------------------

RANDOM = np.random.default_rng(3)
LINE = {"transition": [[0.9, 0.2], [0.0, 0.7]], "transition_noise": [[0.3, 0.1], [0.1, 0.2]]}


def chain():
    transition = [[0.7, 0.2, 0.1], [0.0, 0.8, 0.2], [0.3, 0.3, 0.4]]
    emission = hs.emissions.Categorical(probs=[[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.2, 0.6, 0.2]])
    model = hs.HMM(initial=[0.5, 0.2, 0.3], transition=transition, emission=emission)
    return model, hs.Sequences.of([RANDOM.integers(0, 3, n) for n in (9, 1, 4)])


def chain_with_gaps():
    means, spreads = [[0.0, 1.0], [2.0, -1.0]], [[0.5, 1.0], [1.0, 0.3]]
    emission = hs.emissions.Gaussian(means=means, covariances=spreads, covariance="diagonal")
    model = hs.HMM(initial=[0.5, 0.5], transition=[[0.9, 0.1], [0.3, 0.7]], emission=emission)
    xs = [RANDOM.normal(size=(n, 2)) for n in (7, 3)]
    return model, hs.Sequences.of(xs, missing=[RANDOM.random(x.shape) < 0.4 for x in xs])


def line():
    model = hs.LinearGaussian(**LINE, emission=[1.0, 0.5], emission_noise=0.4, transition_offset=[0.1, -0.2])
    return model, hs.Sequences.of([RANDOM.normal(size=n) for n in (9, 1, 4)])


def line_with_gaps():
    model = hs.LinearGaussian(**LINE, emission=[1.0, 0.5], emission_noise=0.4)
    return model, hs.Sequences.of([RANDOM.normal(size=7)], missing=[np.arange(7) % 3 == 0])


def driven_plane():
    model = hs.LinearGaussian(
        **LINE,
        emission=[[1.0, 0.5], [0.0, 1.0], [0.3, -0.4]],
        emission_noise=[[0.4, 0.1, 0.0], [0.1, 0.3, 0.1], [0.0, 0.1, 0.5]],
        transition_input=[[0.5], [-0.3]],
        emission_input=[[0.2], [0.1], [-0.4]],
    )
    xs = [RANDOM.normal(size=(n, 3)) for n in (6, 3)]
    return model, hs.Sequences.of(xs, inputs=[RANDOM.normal(size=(len(x), 1)) for x in xs])


MODELS = {made.__name__: made for made in (chain, line, chain_with_gaps, line_with_gaps, driven_plane)}
ASKED = {"scores": hs.step_log_probs, "states": hs.states, "filter": hs.filter, "smooth": hs.smooth}


@needs_kernels
@pytest.mark.parametrize("precision", quick(["float64", "float32"]))
@pytest.mark.parametrize("name", MODELS)
def test_a_model_gives_the_same_numbers_with_and_without_kernels(name, precision):
    model, data = MODELS[name]()
    model = hs.ParticleFilter(hs.cast(model, jnp.dtype(precision)), 20, key=jr.key(2))
    assert isinstance(hs.Auto().choose(model, 10).strategy, hs.Native)
    for asked in ASKED.values():
        found, expected = asked(model, data), asked(model, data, strategy=hs.Sequential())
        jax.tree.map(lambda a, b: np.testing.assert_equal((a.shape, a.dtype), (b.shape, b.dtype)), found, expected)
        assert_close(found, expected)


@needs_kernels
def test_seeds_are_mapped_over():
    model, data = line()
    filters = hs.ParticleFilter(model, 20, key=jr.key(2))
    keys = jr.split(jr.key(0), 3)
    found = jax.vmap(lambda key: hs.step_log_probs(filters.reseed(key), data))(keys)
    for key, one in zip(keys, found, strict=True):
        np.testing.assert_array_equal(one, hs.step_log_probs(filters.reseed(key), data))


@needs_kernels
def test_where_there_is_no_kernel_the_steps_run_one_after_the_other():
    model, data = line()
    for options in ({"proposal": "guided"}, {"resampling": "multinomial"}):
        other = hs.ParticleFilter(model, 5, key=jr.key(0), **options)
        assert isinstance(hs.Auto().choose(other, 10).strategy, hs.Sequential)
        with pytest.raises(hs.StrategyError, match="no kernel for it; only bootstrap filters"):
            hs.log_prob(other, data, strategy=hs.Native())
    model, _ = driven_plane()
    xs, us = RANDOM.normal(size=(5, 3)), RANDOM.normal(size=(5, 1))
    gaps = hs.Sequences.of([xs], inputs=[us], missing=[RANDOM.random((5, 3)) < 0.3])
    other = hs.ParticleFilter(model, 20, key=jr.key(0))
    assert_close(hs.log_prob(other, gaps), hs.log_prob(other, gaps, strategy=hs.Sequential()))
