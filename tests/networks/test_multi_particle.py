"""Several particles under one network: against plain networks, and against loops over particles and steps."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.special import logsumexp

import hiddenstate as hs

SYMBOLS = 3
WEIGHTINGS = ("step", "trajectory")


def network(cell=hs.cells.GRU, inputs=0, layers=1, **options):
    """A network of three units over three symbols."""
    keys = jr.split(jr.key(0), layers)
    body = cell(SYMBOLS + inputs, 3, key=keys[0])
    if layers > 1:
        body = hs.Stack([body, *(cell(3, 3, key=k) for k in keys[1:])])
    head = hs.heads.Categorical(3 + inputs, SYMBOLS, key=jr.key(9))
    return hs.RNN(body, head, inputs=inputs, **options)


def several(rnn, particles=4, **options):
    """Particles that are well apart and, where they are learned, of unequal weight."""
    model = hs.MultiParticle(rnn, particles, spread=1.5, key=jr.key(1), **options)
    if model.logits is None:
        return model
    return eqx.tree_at(lambda m: m.logits, model, jnp.linspace(-1.0, 1.0, particles))


def particle_log_probs(model, xs, us=None):
    """log p(x_t | h_l^t) as (particle, time), by a loop over particles and steps of the network under them."""
    inside, rnn = model.particles, model.particles.rnn
    table = np.zeros((inside.count, len(xs)))
    for number in range(inside.count):
        state = jax.tree.map(lambda a, n=number: a[n], inside.starts)
        for time, x in enumerate(xs):
            u = jnp.zeros(0) if us is None else jnp.asarray(us[time])
            shown = jnp.concatenate([rnn.cell.output(state), u])
            read = jnp.concatenate([jax.nn.one_hot(x, SYMBOLS), u])
            if inside.input_biases is not None:
                shown, read = shown + inside.output_biases[number], read + inside.input_biases[number]
            table[number, time] = rnn.head(shown).log_prob(x)
            state = rnn.cell.step(state, rnn.cell.prepare(read))
    return table


def log_weights(model):
    logits = np.zeros(model.particles.count) if model.logits is None else np.asarray(model.logits)
    return logits - logsumexp(logits)


def expected_log_prob(model, table):
    """Both definitions, each in one line."""
    weights = log_weights(model)[:, None]
    if model.weighting == "step":
        return logsumexp(weights + table, axis=0).sum()
    return logsumexp(weights[:, 0] + table.sum(axis=1))


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("bias", [False, True])
def test_one_particle_is_the_plain_network(weighting, bias):
    rnn = network(initial="learned")
    rnn = eqx.tree_at(lambda r: r.start, rnn, jnp.array([0.3, -0.5, 0.7]))
    model = hs.MultiParticle(rnn, 1, weighting=weighting, bias=bias, mixing="learned", key=jr.key(1))
    data = hs.Sequences.of([[0, 2, 1, 1, 0], [1, 0]])
    np.testing.assert_allclose(hs.step_log_probs(model, data), hs.step_log_probs(rnn, data), rtol=0, atol=1e-14)


def test_a_mixture_of_trajectories_is_the_mixture_of_plain_networks():
    model = several(network(), weighting="trajectory", mixing="learned")
    data = hs.Sequences.of([[0, 2, 1, 1, 0, 2], [1, 0, 0]])
    inside = model.particles
    alone = [
        hs.log_prob(eqx.tree_at(lambda r: r.start, inside.rnn, start, is_leaf=lambda node: node is None), data)
        for start in inside.starts
    ]
    expected = logsumexp(log_weights(model)[:, None] + np.stack(alone), axis=0)
    np.testing.assert_allclose(hs.log_prob(model, data), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize(
    ("body", "options"),
    [
        ({"cell": hs.cells.LSTM, "inputs": 2}, {"bias": True, "mixing": "learned"}),
        ({"cell": hs.cells.MinGRU, "layers": 2}, {"bias": True}),
        ({"cell": hs.cells.OutputFeedback}, {}),
    ],
    ids=["lstm with inputs", "stack", "output feedback"],
)
def test_both_weightings_are_what_they_say(weighting, body, options):
    model = several(network(**body), weighting=weighting, **options)
    xs = np.array([0, 2, 1, 1, 0])
    us = np.random.default_rng(0).normal(size=(5, model.inputs)) if model.inputs else None
    data = hs.Sequences.of([xs], inputs=None if us is None else [us])
    expected = expected_log_prob(model, particle_log_probs(model, xs, us))
    assert float(hs.log_prob(model, data)[0]) == pytest.approx(expected, abs=1e-12)


def test_the_weights_follow_the_past_of_a_trajectory():
    model = several(network(), weighting="trajectory", mixing="learned")
    xs = np.array([2, 0, 1, 1])
    joint = log_weights(model) + particle_log_probs(model, xs).sum(axis=1)
    final = hs.unroll(model, jnp.asarray(xs)).final
    np.testing.assert_allclose(final.log_weights, joint - logsumexp(joint), rtol=0, atol=1e-12)


def test_neither_weighting_bounds_the_other():
    """Both sum to one over all sequences, so each is above the other somewhere: equation 17 does not bound 26."""
    rnn = network()
    every = hs.Sequences.padded(np.array(list(itertools.product(range(SYMBOLS), repeat=3))))
    step, trajectory = (np.asarray(hs.log_prob(several(rnn, weighting=w), every)) for w in WEIGHTINGS)
    np.testing.assert_allclose([np.exp(step).sum(), np.exp(trajectory).sum()], 1.0, atol=1e-12)
    assert (step - trajectory).max() > 1e-3 and (step - trajectory).min() < -1e-3


def test_weights_do_not_underflow_in_single_precision():
    """The worse particle ends thousands of nats behind, and the sum is still that of the better one."""
    model = several(network(hs.cells.Vanilla), 2, weighting="trajectory", bias=True)
    xs = np.random.default_rng(1).integers(SYMBOLS, size=50_000)
    single = hs.cast(model, jnp.float32)
    final = np.asarray(hs.unroll(single, jnp.asarray(xs)).final.log_weights, np.float64)
    assert final.min() < -1000 and np.exp(final).sum() == pytest.approx(1.0, abs=1e-6)
    total = float(hs.log_prob(model, [xs])[0])
    assert float(hs.log_prob(single, [xs])[0]) == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_the_program_does_not_grow_with_the_particles(weighting):
    def size(particles):
        model = several(network(), particles, weighting=weighting, bias=True)
        xs = jnp.zeros((1, 4), int)
        return str(jax.make_jaxpr(lambda xs: hs.inference.masked_log_probs(model, hs.core.Arrays(xs), hs.Auto()))(xs))

    assert size(2).count(" = ") == size(16).count(" = ")


def test_an_impossible_observation_has_probability_zero_and_no_more():
    rnn = network()
    barred = eqx.tree_at(lambda r: r.head.bias, rnn, rnn.head.bias.at[2].set(-jnp.inf))
    model = several(barred, weighting="trajectory")
    steps = np.asarray(hs.step_log_probs(model, [[0, 2, 1]])[0])
    assert steps[1] == -np.inf and np.isfinite(steps[[0, 2]]).all()


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("particles is 0; it must be a whole number of at least 1", {"particles": 0}),
        ("weighting is 'both'; it must be one of 'step', 'trajectory'", {"weighting": "both"}),
        ("mixing is 'some'; it must be one of 'uniform', 'learned'", {"mixing": "some"}),
        ("bias is 2; it must be True or False", {"bias": 2}),
        ("spread is -1.0; it must not be negative", {"spread": -1.0}),
    ],
)
def test_wrong_options_are_named(words, options):
    with pytest.raises(hs.HiddenStateError, match=words):
        hs.MultiParticle(network(), **{"particles": 2, **options}, key=jr.key(0))


def test_only_a_network_can_have_particles():
    hmm = hs.HMM([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], hs.emissions.Categorical(probs=[[0.9, 0.1], [0.2, 0.8]]))
    with pytest.raises(hs.HiddenStateError, match=r"rnn is a HMM; it must be an hs.RNN"):
        hs.MultiParticle(hmm, 2, key=jr.key(0))


def test_the_recipe_takes_the_options_of_its_cell():
    data = hs.Sequences.of([np.array([0.3, -1.0, 0.4, 1.2]), np.array([0.1, 0.2])])
    model = hs.build(
        "multi-particle", data, cell="mingru", hidden=5, particles=3, layers=2, residual=True, key=jr.key(0)
    )
    assert isinstance(model.cell, hs.Stack) and model.particles.count == 3
    assert model.log_weights.shape == (3,) and model.particles.input_biases.shape == (3, 1)
    plain = hs.build("multi-particle", data, mixing="uniform", bias=False, weighting="trajectory", key=jr.key(0))
    assert plain.logits is None and plain.particles.output_biases is None and plain.weighting == "trajectory"
    with pytest.raises(hs.HiddenStateError, match="cell is 'hmm'; it must be one of vanilla"):
        hs.build("multi-particle", data, cell="hmm", key=jr.key(0))
    with pytest.raises(hs.HiddenStateError, match="'gru' has no option 'wide'"):
        hs.build("multi-particle", data, wide=3, key=jr.key(0))


def test_it_is_compared_where_it_is_named():
    data = hs.Sequences.padded(np.random.default_rng(0).integers(2, size=(20, 6)))
    assert "multi-particle" not in hs.default_models(data)
    found = hs.compare(data, ["multi-particle"], hidden=2, epochs=1, key=jr.key(0), progress=False)
    assert found.models["multi-particle"].cell.hidden_size == 2


@pytest.mark.parametrize(
    "make", [lambda rnn: hs.MultiParticle(rnn, 2, key=jr.key(0)), hs.FirstStep], ids=["multi", "first"]
)
def test_a_state_that_moves_at_random_is_refused(make):
    plain = hs.build("gru", [[0, 1, 1]], hidden=2, key=jr.key(0))
    noisy = hs.RNN(hs.cells.Noisy(plain.cell, 0.1), plain.head)
    with pytest.raises(hs.HiddenStateError, match="moves at random"):
        make(noisy)
