"""The derivative of compiled particle filters beside differences, of a plain loop too, and beside a closed form."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import hiddenstate as hs
from hiddenstate.native import particle
from marks import quick
from native.kernels import EXAMPLES, assert_close, assert_threads_agree, each_instruction_set, needs_kernels
from native.test_particle import (
    LENGTHS,
    MODELS,
    PARTICLES,
    THRESHOLDS,
    a_cloud,
    chain,
    line,
    linear_moves,
    symbol_moves,
)

STEP = 1e-5
NO_SHRINKING = (Phase.explicit, Phase.generate)
"""A smaller case that fails too takes long to find, since each is compiled."""


def log_sum(a):
    return a.max() + np.log(np.exp(a - a.max()).sum())


def replayed(weigh, move, first, logs, seen, length, way, fixed=None):
    """What `told` says of a run, by a plain loop whose choices are those of `way`, a kernel's run.

    With it the log-weights of all choices and the scores of all moves: given as `fixed` they are what is not
    differentiated in what changes derivatives only.
    """
    particles, count, time = first, len(logs), len(seen)
    rows, own = [], []
    for t in range(length):
        scores = logs + weigh(t, particles) if seen[t] else logs
        impossible = scores.max() == -np.inf
        known = logs if impossible else scores
        total = log_sum(known)
        known = known - total
        rows.append(
            (-np.inf if impossible else total if seen[t] else 0.0, np.exp(-log_sum(2 * known)), particles, known)
        )
        led = way.kept.ancestors[t + 1] if t + 1 < time else way.final.ancestors
        particles, drawn = move(t, particles[led])
        own.append((known, drawn))
        before = fixed[t] if fixed else own[t]
        shares = np.full(count, 1 / count) if way.resampled[t] else np.exp(before[0])
        logs = known
        if way.resampled[t]:
            kept = known[led] - before[0][led]
            logs = kept - kept.mean() - np.log(count)
        logs = logs + (drawn - before[1]) - (shares * (drawn - before[1])).sum()
    behind = (*(rows[-1][:2] if rows else (0.0, count)), particles, logs)
    rows += [behind] * (time - length)
    return [particles, logs, *(np.stack(column) for column in zip(*rows, strict=True))], own


def told(run, keep):
    """What can be differentiated of a kernel's run; the clouds on the way where they were kept."""
    kept = [run.kept.particles, run.kept.log_weights] if keep == "after" else []
    return [run.final.particles, run.final.log_weights, run.log_evidence, run.effective_sample_size, *kept]


def weighted(weights, found, np=np):
    """The sum of all that is a finite real number, under weights."""
    pairs = [(w, a) for w, a in zip(weights, found, strict=False) if a.dtype.kind == "f"]
    return sum((np.where(np.isfinite(a), w, 0) * np.where(np.isfinite(a), a, 0)).sum() for w, a in pairs)


def weights_for(random, sequences, time, cloud):
    """As many random weights as `told` has numbers, for clouds of this shape."""
    shapes = cloud, cloud[:1], (time,), (time,), (time, *cloud), (time, *cloud[:1])
    return [random.normal(size=(sequences, *shape)) for shape in shapes]


def assert_slopes_are_differences(run, plain, shared, each, fixed, weights, instructions, keep):
    """The gradient through a kernel's runs of all sequences, and differences of plain loops along the same ancestors.

    `run(keep, shared, each, fixed)` gives a run of one sequence, `plain(way, shared, each, fixed, before)` what
    `replayed` gives. Differences are along one direction in each array, in which what is zero stays zero.
    """

    def by_kernel(shared, each):
        runs = jax.vmap(lambda each, fixed: told(run(keep, shared, each, fixed), keep))(each, fixed)
        return weighted(weights, runs, jnp)

    found = assert_threads_agree(lambda: jax.jit(jax.grad(by_kernel, (0, 1)))(shared, each), instructions)
    with hs.native.limited(instructions=instructions):
        ways = jax.jit(jax.vmap(lambda each, fixed: run("after", shared, each, fixed)))(each, fixed)
    ways = jax.tree.map(np.asarray, ways)
    kinds = len(told(ways, keep))

    def one_by_one(shared, each, before):
        outs = [plain(part(ways, i), shared, part(each, i), part(fixed, i), before and before[i]) for i in count]
        return sum(weighted([w[i] for w in weights[:kinds]], out[0]) for i, out in enumerate(outs)), [
            o[1] for o in outs
        ]

    count, part = range(len(weights[0])), lambda tree, i: jax.tree.map(lambda a: a[i], tree)
    before = one_by_one(shared, each, None)[1]
    leaves, tree = jax.tree.flatten((shared, each))
    for number, slope in enumerate(jax.tree.leaves(found)):
        way = np.asarray(np.random.default_rng(number).normal(size=slope.shape) * leaves[number])
        way = np.where(np.isfinite(way), way, 0)
        ends = [[*leaves[:number], leaves[number] + by * way, *leaves[number + 1 :]] for by in (STEP, -STEP)]
        up, down = (one_by_one(*jax.tree.unflatten(tree, end), before)[0] for end in ends)
        # Errors: the square of the step times a third derivative, and rounding over the step.
        np.testing.assert_allclose((slope * way).sum(), (up - down) / (2 * STEP), rtol=1e-6, atol=1e-6)


@needs_kernels
@each_instruction_set
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, phases=NO_SHRINKING)
@given(
    particles=PARTICLES,
    size=st.integers(1, 3),
    noises=st.integers(1, 3),
    event=st.integers(1, 2),
    lengths=LENGTHS,
    varying=st.booleans(),
    gaps=st.booleans(),
    threshold=THRESHOLDS,
    keep=st.sampled_from(["nothing", "after"]),
    seed=st.integers(0, 999),
)
def test_slopes_of_vectors_are_differences_of_a_plain_loop(
    instructions, particles, size, noises, event, lengths, varying, gaps, threshold, keep, seed
):
    random = np.random.default_rng(seed)
    shared, xs, shifts = linear_moves(random, size, noises, event, lengths, varying)
    first = random.normal(size=(len(lengths), particles, size))
    first, logs, ancestors, key = a_cloud(random, first, len(lengths), seed)
    seen = random.random(xs.shape[:2]) < (0.6 if gaps else 1.0)
    options = {"resampling": "systematic", "enough": threshold * particles if threshold < 1 else np.inf}

    def run(keep, shared, each, fixed):
        (first, logs, xs, shift), (ancestors, seen, length) = each, fixed
        cloud = particle.Cloud(first, logs, ancestors, key)
        return particle.run(particle.Linear(*shared, xs, shift), cloud, seen, length, keep=keep, **options)

    @jax.jit
    @jax.vmap
    def noises_of(words):
        keys = jr.split(jr.split(jr.wrap_key_data(words), 4)[3], particles)
        return jax.vmap(lambda key: jr.normal(key, (noises,)))(keys)

    def plain(way, shared, each, fixed, before):
        (transition, root, emission, constant), (first, logs, xs, shift), (_, seen, length) = shared, each, fixed
        noise = np.asarray(noises_of(way.kept.key))

        def weigh(t, z):
            return constant - 0.5 * ((xs[t] - z @ emission.T) ** 2).sum(1)

        def move(t, z):
            return z @ transition.T + shift[t if varying else 0] + noise[t] @ root.T, np.zeros(particles)

        return replayed(weigh, move, first, logs, seen, length, way, before)

    each, fixed = (first, logs, xs, shifts), (ancestors, seen, np.asarray(lengths, np.int32))
    weights = weights_for(random, len(lengths), xs.shape[1], first.shape[1:])
    shared = tuple(map(np.asarray, shared))
    assert_slopes_are_differences(run, plain, shared, each, fixed, weights, instructions, keep)


@needs_kernels
@each_instruction_set
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, phases=NO_SHRINKING)
@given(
    particles=PARTICLES,
    states=st.integers(1, 5),
    lengths=LENGTHS,
    gaps=st.booleans(),
    threshold=THRESHOLDS,
    keep=st.sampled_from(["nothing", "after"]),
    seed=st.integers(0, 999),
)
def test_slopes_of_symbols_are_differences_of_a_plain_loop(
    instructions, particles, states, lengths, gaps, threshold, keep, seed
):
    random = np.random.default_rng(seed)
    probs, likelihoods = symbol_moves(random, states, lengths)
    first = random.integers(0, states, (len(lengths), particles)).astype(np.int32)
    first, logs, ancestors, key = a_cloud(random, first, len(lengths), seed)
    seen = random.random(likelihoods.shape[:2]) < (0.6 if gaps else 1.0)
    options = {"resampling": "stratified", "enough": threshold * particles if threshold < 1 else np.inf}

    def run(keep, probs, each, fixed):
        (logs, likelihoods), (first, ancestors, seen, length) = each, fixed
        cloud = particle.Cloud(first, logs, ancestors, jnp.asarray(key))
        return particle.run(particle.Symbols(probs, likelihoods), cloud, seen, length, keep=keep, **options)

    def plain(way, probs, each, fixed, before):
        (logs, likelihoods), (first, _, seen, length) = each, fixed
        time = len(seen)

        def move(t, z):
            after = way.kept.particles[t + 1] if t + 1 < time else way.final.particles
            return after, np.log(probs[z, after])

        return replayed(lambda t, z: likelihoods[t][z], move, first, logs, seen, length, way, before)

    each, fixed = (logs, likelihoods), (first, ancestors, seen, np.asarray(lengths, np.int32))
    weights = weights_for(random, len(lengths), likelihoods.shape[1], first.shape[1:])
    assert_slopes_are_differences(run, plain, probs, each, fixed, weights, instructions, keep)


# -- models ---------------------------------------------------------------------------------------------------------


def scored(model, data, strategy, **options):
    """The arrays of a filter, and its log-likelihood of data as a function of them."""
    arrays, rest = eqx.partition(hs.ParticleFilter(model, 20, key=jr.key(2), **options), eqx.is_inexact_array)
    return arrays, lambda arrays: hs.log_prob(eqx.combine(arrays, rest), data, strategy=strategy).sum()


@needs_kernels
@pytest.mark.parametrize("precision", quick(["float64", "float32"]))
@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_models_are_those_of_the_scan(name, precision):
    model, data = MODELS[name]()
    model = hs.cast(model, jnp.dtype(precision))
    by_kernel, by_scan = (
        jax.grad(loss)(arrays)
        for arrays, loss in (scored(model, data, strategy()) for strategy in (hs.Native, hs.Sequential))
    )
    assert_close(by_kernel, by_scan)


@needs_kernels
@pytest.mark.parametrize("made, smooth", [(line, "model"), (chain, "model.emission")])
def test_gradients_without_a_choice_are_differences(made, smooth):
    """Where ancestors are never chosen the log-likelihood is smooth in what no symbol is drawn by."""
    model, data = made()
    arrays, loss = scored(hs.cast(model, jnp.float64), data, hs.Native(), threshold=0)
    part = lambda arrays: arrays.model if smooth == "model" else arrays.model.emission  # noqa: E731
    found, value, step = part(jax.grad(loss)(arrays)), jax.jit(loss), 1e-5
    leaves, tree = jax.tree.flatten(part(arrays))

    def moved(number, entry, by):
        changed = list(leaves)
        changed[number] = changed[number].at[entry].add(by)
        return value(eqx.tree_at(part, arrays, jax.tree.unflatten(tree, changed)))

    for number, slope in enumerate(jax.tree.leaves(found)):
        for entry in np.ndindex(slope.shape):
            difference = (moved(number, entry, step) - moved(number, entry, -step)) / (2 * step)
            # The error of the difference: the square of the step times a third derivative, and rounding over the step.
            np.testing.assert_allclose(slope[entry], difference, rtol=1e-6, atol=1e-7)


@needs_kernels
def test_gradients_of_moves_count_them():
    """Of two steps without a choice: a move counts as much as its particle weighs after them less before them."""
    probs = jnp.asarray([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4]])
    likelihoods = jnp.asarray(np.random.default_rng(1).normal(size=(2, 3)))
    count = 50
    start = particle.Cloud(
        jnp.arange(count, dtype=jnp.int32) % 3,
        jnp.full(count, -np.log(count)),
        jnp.arange(count, dtype=jnp.int32),
        jr.key_data(jr.key(4)),
    )

    def run(probs, keep="nothing"):
        moves = particle.Symbols(probs, likelihoods)
        return particle.run(moves, start, None, jnp.int32(2), resampling="systematic", enough=0.0, keep=keep)

    found = jax.grad(lambda probs: run(probs).log_evidence.sum())(probs)
    before, after = (np.asarray(a) for a in run(probs, "after").kept.particles)
    shares = np.exp(np.asarray(run(probs, "after").kept.log_weights))
    counts = np.zeros((3, 3))
    np.add.at(counts, (before, after), shares[1] - shares[0])
    np.testing.assert_allclose(found, counts / probs, rtol=1e-12, atol=1e-12)


@needs_kernels
@pytest.mark.parametrize("name", ["line", "chain"])
def test_gradients_are_mapped_over_seeds_and_models(name):
    model, data = MODELS[name]()
    arrays, rest = eqx.partition(hs.ParticleFilter(model, 20, key=jr.key(2)), eqx.is_inexact_array)

    def slope(factor, key):
        def loss(arrays):
            return hs.log_prob(eqx.combine(arrays, rest).reseed(key), data, strategy=hs.Native()).sum()

        return jax.grad(loss)(jax.tree.map(lambda a: factor * a, arrays))

    factors, keys = jnp.asarray([1.0, 0.9, 1.1]), jr.split(jr.key(0), 3)
    mapped = jax.jit(jax.vmap(slope))(factors, keys)
    shared = jax.jit(jax.vmap(slope, (None, 0)))(factors[0], keys)
    for number in range(3):
        assert_close(jax.tree.map(lambda a, n=number: a[n], mapped), slope(factors[number], keys[number]))
        assert_close(jax.tree.map(lambda a, n=number: a[n], shared), slope(factors[0], keys[number]))


@needs_kernels
def test_chunks_give_the_same_gradient():
    model, data = line()
    for strategy in (hs.Native(checkpoint=3), hs.Native(checkpoint=True)):
        arrays, loss = scored(model, data, strategy)
        whole = scored(model, data, hs.Native())[1]
        assert_close(jax.value_and_grad(loss)(arrays), jax.value_and_grad(whole)(arrays))


@needs_kernels
@pytest.mark.parametrize("name", ["line", "chain"])
def test_gradients_of_what_a_filter_gives_are_those_of_the_scan(name):
    model, data = MODELS[name]()
    arrays, rest = eqx.partition(hs.ParticleFilter(model, 20, key=jr.key(2)), eqx.is_inexact_array)

    def loss(arrays, strategy):
        known = hs.filter(eqx.combine(arrays, rest), data, strategy=strategy)
        each = known.mean if name == "line" else known.marginals
        return (jnp.where(data.valid.reshape(*data.valid.shape, 1), each, 0) ** 2).sum()

    assert_close(jax.grad(loss)(arrays, hs.Native()), jax.grad(loss)(arrays, hs.Sequential()))


@needs_kernels
def test_a_gradient_of_states_computes_no_step_twice():
    """As little as `hs.Sequential` does, at a length from which on other models recompute chunks."""
    model, _ = line()
    data = hs.Sequences.of([np.zeros(600)])
    arrays, rest = eqx.partition(hs.ParticleFilter(model, 5, key=jr.key(2)), eqx.is_inexact_array)
    loss = lambda arrays: hs.states(eqx.combine(arrays, rest), data, strategy=hs.Native()).particles.sum()  # noqa: E731
    assert "remat" not in str(jax.make_jaxpr(jax.grad(loss))(arrays))


@needs_kernels
def test_other_derivatives_say_what_to_do():
    model, data = line()
    arrays, loss = scored(model, data, hs.Native())
    ones = jax.tree.map(jnp.ones_like, arrays)
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(loss, (arrays,), (ones,))
    with pytest.raises(TypeError, match=r"hs\.Sequential"):
        jax.grad(lambda arrays: jax.grad(loss)(arrays).model.parameters.transition.sum())(arrays)
