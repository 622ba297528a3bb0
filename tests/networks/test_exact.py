"""The network made of a hidden Markov model predicts as the forward algorithm does, and is a network like any other."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import cast, partition
from laws import laws
from laws.cases.chains import CHAIN, THREE_SYMBOLS
from laws.cases.parts import SYMBOLS, perturbed

STATES, COUNT, LENGTH = 4, 5, 12


def random_hmm(random, zeros: bool = False):
    """Probabilities from flat Dirichlet distributions; with `zeros`, some are none, but no way into the last state."""
    initial, transition, emission = (
        random.dirichlet(np.ones(n), size) for n, size in ((STATES, ()), (STATES, STATES), (COUNT, STATES))
    )
    if zeros:
        initial[0], emission[1, 3] = 0, 0
        transition[np.arange(STATES - 1), np.arange(STATES - 1)] = 0
        initial, transition, emission = (p / p.sum(-1, keepdims=True) for p in (initial, transition, emission))
    return initial, transition, emission


def made(initial, transition, emission):
    return hs.HMM(initial=initial, transition=transition, emission=hs.emissions.Categorical(probs=emission))


def forward_algorithm(parameters, symbols):
    """P(x_t | x_<t) of every symbol, by the unnormalised recursion of Choe, Shin and Spencer (2017, section 3.2)."""
    initial, transition, emission = parameters
    alpha, before, found = None, 1.0, []
    for x in symbols:
        moved = initial if alpha is None else transition.T @ alpha
        found.append(np.array([(emission[:, s] * moved).sum() for s in range(emission.shape[1])]) / before)
        alpha = emission[:, x] * moved
        before = alpha.sum()
    return np.array(found)


def joined(models):
    return jax.tree.map(lambda *arrays: jnp.stack(arrays), *models)


@eqx.filter_jit
@eqx.filter_vmap
def predicted(model, xs):
    states = hs.unroll(model, xs, hs.Sequential()).states
    return jax.vmap(lambda h: jnp.exp(model.readout(h).log_prob(jnp.arange(COUNT))))(states)


@pytest.mark.parametrize("reduced", [False, True])
def test_predictions_are_those_of_the_forward_algorithm(reduced):
    random = np.random.default_rng(0)
    parameters = [random_hmm(random, zeros=number % 2 == 1) for number in range(100)]
    models = [made(*each) for each in parameters]
    symbols = random.integers(0, COUNT, (100, LENGTH))
    found = predicted(joined([hs.exact_rnn(model, reduced) for model in models]), jnp.asarray(symbols))
    expected = [forward_algorithm(each, xs) for each, xs in zip(parameters, symbols, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("initial", ["stationary", "fixed"])
def test_every_kind_of_start(initial):
    probs, transition, emission = random_hmm(np.random.default_rng(1))
    given = "stationary" if initial == "stationary" else hs.Frozen(jnp.asarray(probs))
    hmm = hs.HMM(given, hs.Frozen(jnp.asarray(transition)), hs.emissions.Categorical(probs=emission))
    data = np.array([0, 3, 1, 1, 4, 2, 0])
    for reduced in (False, True):
        network = hs.exact_rnn(hmm, reduced)
        expected = hs.step_log_probs(hmm, data)
        np.testing.assert_allclose(hs.step_log_probs(network, data), expected, rtol=0, atol=1e-12)
    learned = sum(a.size for a in jax.tree.leaves(partition(network)[0]))
    assert learned == 2 * STATES * COUNT + (STATES if initial == "stationary" else 0)


def test_the_reduced_network_has_one_unit_fewer():
    hmm = made(*random_hmm(np.random.default_rng(2)))
    full, reduced = hs.exact_rnn(hmm), hs.exact_rnn(hmm, reduced=True)
    assert (full.cell.hidden_size, reduced.cell.hidden_size) == (STATES, STATES - 1)
    belief = np.asarray(full.initial())
    np.testing.assert_allclose(reduced.initial(), np.log(belief[:-1] / belief[-1]), atol=1e-14)


@pytest.mark.parametrize("reduced", [False, True])
def test_gradients_are_finite_where_beliefs_are_zero(reduced):
    network = hs.exact_rnn(made(*random_hmm(np.random.default_rng(3), zeros=True)), reduced)
    learned, rest = partition(network)
    data = jnp.array([3, 3, 0, 1, 3, 2])

    def loss(learned):
        return hs.log_prob(eqx.combine(learned, rest), data)[0]

    slopes = jax.jit(jax.grad(loss))(learned)
    step = jax.tree.map(lambda a, g: a + 1e-6 * g, learned, slopes)
    gained = float(loss(step) - loss(learned))
    steepness = sum(float((g**2).sum()) for g in jax.tree.leaves(slopes))
    assert all(bool(jnp.isfinite(g).all()) for g in jax.tree.leaves(slopes))
    np.testing.assert_allclose(gained, 1e-6 * steepness, rtol=1e-4)


def test_it_obeys_the_laws():
    hmm = hs.HMM(**CHAIN, emission=hs.emissions.Categorical(probs=THREE_SYMBOLS))
    network = perturbed(hs.exact_rnn(hmm, reduced=True), jr.key(4))
    laws.all_laws(cast(network, jnp.float32), SYMBOLS)


def test_it_can_be_trained_further():
    task = hs.tasks.hmm(3, 3, sequences=40, length=20, key=jr.key(0))
    start = hs.exact_rnn(hs.HMM(**CHAIN, emission=hs.emissions.Categorical(probs=THREE_SYMBOLS)), reduced=True)
    fit = hs.fit(start, task.data, hs.SGD(steps=40, learning_rate=0.05, batch_size=40), key=jr.key(1))
    before, after = (hs.score(model, task.data).nats_per_step for model in (start, fit.model))
    assert after < before - 0.05


GAUSSIAN = hs.emissions.Gaussian(means=[0.0, 1.0], covariances=[1.0, 1.0])
SURE = hs.emissions.Categorical(probs=[[0.5, 0.5], [0.1, 0.9]])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: hs.HMM([0.5, 0.5], np.full((2, 2), 0.5), GAUSSIAN), "family Gaussian; they must be"),
        (
            lambda: hs.build("ar1", np.array([0.0, 1.0, 0.5]), key=jr.key(0)),
            "hmm is of the class RNN; it must be an hs.HMM",
        ),
        (lambda: hs.HMM([1.0, 0.0], np.full((2, 2), 0.5), SURE), r"initial\[1\] is 0; reduced takes log-odds"),
        (lambda: hs.HMM([0.5, 0.5], [[1.0, 0.0], [0.5, 0.5]], SURE), r"transition\[0, 1\] is 0; .*hmm.permuted"),
    ],
)
def test_what_it_cannot_take_is_said(make, said):
    with pytest.raises(hs.HiddenStateError, match=said):
        hs.exact_rnn(make(), reduced=True)
