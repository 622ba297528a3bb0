"""How many particles count and how far apart they are: against plain loops and a closed form."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.report.particles import plot_particles

XS = np.array([0, 2, 1, 1, 0])


def model_of(weighting="step", bias=False, particles=3):
    rnn = hs.RNN(hs.cells.MinGRU(3, 4, key=jr.key(0)), hs.heads.Categorical(4, 3, key=jr.key(1)))
    model = hs.MultiParticle(
        rnn, particles, weighting=weighting, mixing="learned", bias=bias, spread=1.5, key=jr.key(2)
    )
    return eqx.tree_at(lambda m: m.logits, model, jnp.linspace(-0.5, 0.5, particles))


@pytest.mark.parametrize("weighting", ["step", "trajectory"])
def test_shares_are_those_of_bayes(weighting):
    model = model_of(weighting)
    found = hs.inspect.particles(model, [XS])
    cell, head = model.cell, model.particles.rnn.head
    states = model.particles.starts
    weights = np.asarray(jax.nn.softmax(model.logits))
    for time, x in enumerate(XS):
        joint = weights * np.array([np.exp(head(h).log_prob(x)) for h in states])
        shares = joint / joint.sum()
        np.testing.assert_allclose(found.responsibilities[0, time], shares, rtol=0, atol=1e-12)
        assert found.effective_number[0, time] == pytest.approx(1 / (shares**2).sum(), abs=1e-10)
        apart = [np.linalg.norm(states[i] - states[j]) for i in range(3) for j in range(i)]
        assert found.distance[0, time] == pytest.approx(np.mean(apart), abs=1e-12)
        states = jnp.stack([cell.step(h, cell.prepare(jax.nn.one_hot(x, 3))) for h in states])
        weights = shares if weighting == "trajectory" else weights


def test_particles_come_together_as_fast_as_the_gates_forget_and_biases_keep_them_apart():
    """Under minGRU the difference of two particles is that of their starts times the product of all 1 - z."""
    model = model_of(particles=2)
    found = hs.inspect.particles(model, [XS])
    gates = jax.vmap(lambda x: model.cell.input_weight[:4] @ x + model.cell.bias[:4])(jax.nn.one_hot(XS, 3))
    kept = np.concatenate([np.ones((1, 4)), np.cumprod(1 - jax.nn.sigmoid(gates), axis=0)[:-1]])
    start = model.particles.starts[1] - model.particles.starts[0]
    np.testing.assert_allclose(found.distance[0], np.linalg.norm(kept * start, axis=1), rtol=0, atol=1e-12)
    long = np.tile(XS, 20)
    assert hs.inspect.particles(model, [long]).distance[0, -1] < 1e-6
    assert hs.inspect.particles(model_of(bias=True), [long]).distance[0, -1] > 0.1


def test_nothing_is_said_behind_an_end():
    found = hs.inspect.particles(model_of(), [XS, XS[:2]])
    assert np.isnan(found.distance[1, 2:]).all() and np.isnan(found.effective_number[1, 2:]).all()
    frame = found.frame()
    assert frame["step"].to_list() == [1, 2, 3, 4, 5]
    assert frame["distance"][1] == pytest.approx(found.distance[:, 1].mean())
    assert frame["distance"][4] == found.distance[0, 4]


def test_one_particle_is_no_distance_from_itself():
    found = hs.inspect.particles(model_of(particles=1), [XS])
    assert not found.distance.any() and (found.effective_number == 1).all()


def test_models_without_particles_are_refused():
    rnn = hs.RNN(hs.cells.GRU(3, 2, key=jr.key(0)), hs.heads.Categorical(2, 3, key=jr.key(1)))
    with pytest.raises(hs.HiddenStateError, match="model is a RNN of GRU; it must be one with particles"):
        hs.inspect.particles(rnn, [XS])


def test_it_is_drawn(tmp_path):
    found = {name: hs.inspect.particles(model_of(name), [XS, XS[:2]]) for name in ("step", "trajectory")}
    plot_particles(found, tmp_path / "particles.png")
    assert (tmp_path / "particles.png").stat().st_size > 5000
