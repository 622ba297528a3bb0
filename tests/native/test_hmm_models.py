"""Hidden Markov models by compiled kernels: all that can be asked of them, and those that have none."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hiddenstate as hs
from native.kernels import assert_close, needs_kernels

random = np.random.default_rng(0)
PROBS = random.dirichlet(np.ones(3), 3)
LEFT_RIGHT = np.array([[0.6, 0.4, 0.0], [0.0, 0.7, 0.3], [0.0, 0.0, 1.0]])
SYMBOLS = hs.emissions.Categorical(probs=random.dirichlet(np.ones(4), 3))
NORMAL = hs.emissions.Gaussian(means=random.normal(size=(3, 2)), covariances=np.stack([np.eye(2)] * 3))
FOLLOWING = hs.emissions.Autoregressive(
    intercepts=random.normal(size=(3, 1)),
    weights=0.3 * random.normal(size=(3, 1, 1, 1)),
    variances=np.ones((3, 1)),
)
LENGTHS = (9, 1, 5, 12)

MODELS = {
    "symbols": (hs.HMM([0.2, 0.3, 0.5], PROBS, SYMBOLS), [random.integers(0, 4, n) for n in LENGTHS]),
    "left-right": (hs.HMM([1.0, 0.0, 0.0], LEFT_RIGHT, NORMAL), [random.normal(size=(n, 2)) for n in LENGTHS]),
    "stationary": (hs.HMM("stationary", PROBS, SYMBOLS), [random.integers(0, 4, n) for n in LENGTHS]),
}

WITHOUT = {
    "durations": hs.HSMM([0.5, 0.5], [[0, 1], [1, 0]], np.full((2, 3), 1 / 3), hs.emissions.Poisson(rates=[1.0, 5.0])),
    "driven by inputs": hs.HMM(
        [0.5, 0.5], hs.InputDriven(np.full((2, 2), 0.5), np.zeros((2, 2, 1))), hs.emissions.Poisson(rates=[1.0, 5.0])
    ),
    "hamilton": hs.Hamilton("stationary", np.full((2, 2), 0.5), [0.0, 1.0], [0.5], 1.0),
}


class Lazy(hs.HMM):
    """An HMM that steps in a way of its own."""

    def step(self, state, element):
        return 0.5 * state + 0.5 * super().step(state, element)


@needs_kernels
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "ask",
    [
        hs.log_prob,
        hs.states,
        hs.filter,
        hs.smooth,
        hs.most_likely_states,
        lambda *given, **how: hs.fixed_lag(*given, 2, **how),
        lambda *given, **how: hs.sample_states(*given, key=jax.random.key(0), n=3, **how),
    ],
    ids=["log_prob", "states", "filter", "smooth", "decode", "fixed_lag", "draw"],
)
def test_answers_are_those_in_sequence(name, ask):
    model, data = MODELS[name]
    assert isinstance(hs.Auto().choose(model, 100).strategy, hs.Native)
    assert_close(ask(model, data, strategy=hs.Native()), ask(model, data, strategy=hs.Sequential()))


@needs_kernels
@pytest.mark.parametrize("name", MODELS)
def test_learning_is_that_in_sequence(name):
    model, data = MODELS[name]
    data = hs.Sequences.of(data)
    fits = [
        hs.fit(model, data, hs.EM(iterations=3, restarts=2, strategy=how), key=jax.random.key(0))
        for how in (hs.Native(), hs.Sequential())
    ]
    leaves = [eqx.filter(fit.model, eqx.is_inexact_array) for fit in fits]
    assert_close(*leaves)


@needs_kernels
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_in_sequence(name):
    model, data = MODELS[name]
    slopes = lambda how: eqx.filter_grad(lambda m: hs.log_prob(m, data, strategy=how, total=True))(model)  # noqa: E731
    assert_close(slopes(hs.Native()), slopes(hs.Sequential()))


@needs_kernels
@pytest.mark.parametrize("ask", [hs.filter, hs.smooth, hs.most_likely_states])
@pytest.mark.parametrize("name", MODELS)
def test_what_is_hidden_has_gradients(name, ask):
    model, xs = MODELS[name]
    data = hs.Sequences.of(xs)

    def slope(strategy):
        def loss(model):
            found = ask(model, data, strategy=strategy)
            return sum(jnp.sum(jnp.square(a)) for a in jax.tree.leaves(eqx.filter(found, eqx.is_inexact_array)))

        return eqx.filter_grad(loss)(model)

    assert_close(slope(hs.Native()), slope(hs.Sequential()))


@needs_kernels
@pytest.mark.parametrize("name", WITHOUT)
def test_chains_of_another_kind_have_no_kernel(name):
    model = WITHOUT[name]
    assert not isinstance(hs.Auto().choose(model, 100).strategy, hs.Native)
    with pytest.raises(hs.StrategyError, match="there is no kernel for it"):
        hs.Native().check(model)


@needs_kernels
def test_a_step_of_its_own_has_no_kernel():
    assert not isinstance(hs.Auto().choose(Lazy([0.2, 0.3, 0.5], PROBS, SYMBOLS), 100).strategy, hs.Native)


@needs_kernels
def test_emissions_that_look_back():
    random = np.random.default_rng(0)
    model = hs.HMM([0.2, 0.3, 0.5], PROBS, FOLLOWING)
    data = [random.normal(size=(n, 1)) for n in LENGTHS]
    for ask in (hs.log_prob, hs.states, hs.smooth, hs.most_likely_states):
        assert_close(ask(model, data, strategy=hs.Native()), ask(model, data, strategy=hs.Sequential()))


@needs_kernels
def test_an_impossible_observation_is_said():
    model = hs.HMM([1.0, 0.0], np.eye(2), hs.emissions.Categorical(probs=np.eye(2)))
    found = hs.log_prob(model, [np.array([0, 0, 1, 0])], strategy=hs.Native())
    assert np.asarray(found) == -np.inf
    with pytest.raises(hs.DataError, match="at step 3, which has probability zero"):
        hs.smooth(model, [np.array([0, 0, 1, 0])], strategy=hs.Native())


@needs_kernels
def test_chunks_of_a_long_sequence():
    model, _ = MODELS["symbols"]
    data = [np.random.default_rng(0).integers(0, 4, 1000)]
    found = hs.states(model, data, strategy=hs.Native(checkpoint=70))
    assert_close(found, hs.states(model, data, strategy=hs.Sequential()))
    assert jnp.isfinite(found).all()
