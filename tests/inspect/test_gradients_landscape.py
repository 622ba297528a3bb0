"""The loss along a line, against finite differences and closed forms; what clipping does at a cliff."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import Frozen, cast, partition
from hiddenstate.inspect import gradients


def recurrent_weight(model):
    return model.cell.recurrent_weight


@pytest.fixture(scope="module")
def one_unit() -> tuple[hs.RNN, hs.Sequences]:
    """h' = w h from h = 0.1 over 50 steps, of which the last alone is scored: the loss is steep where w crosses 1."""
    cell = hs.cells.Vanilla(1, 1, nonlinearity="identity", biases=0, key=jr.key(0))
    head = hs.heads.Gaussian(1, None, dispersion="constant", key=jr.key(1))
    model = cast(hs.RNN(cell, head, initial="learned"), "float64")
    model = eqx.tree_at(
        lambda m: (m.cell.recurrent_weight, m.cell.input_weight, m.start),
        model,
        (jnp.asarray([[1.0]]), jnp.asarray([[0.0]]), jnp.asarray([0.1])),
    )
    return model, hs.Sequences.of([np.zeros(50)]).after(49)


@pytest.fixture(scope="module")
def line(one_unit) -> gradients.Landscape:
    model, data = one_unit
    along = gradients.entry(model, recurrent_weight, (0, 0))
    return gradients.landscape(model, data, along, distances=np.linspace(-0.3, 0.2, 51))


def test_loss_along_one_weight_is_that_of_its_closed_form(one_unit, line):
    model, _ = one_unit
    for distance, loss in zip(line.distances[::10], line.losses[::10], strict=True):
        state = jnp.asarray([0.1 * (1 + distance) ** 49])
        assert loss == pytest.approx(-float(model.readout(state).log_prob(jnp.asarray(0.0))), rel=1e-10)


def test_slopes_are_finite_differences_of_losses(one_unit, line):
    _, data = one_unit
    for distance, slope in zip(line.distances[::10], line.slopes[::10], strict=True):
        low, high = (
            float(-hs.log_prob(line.model_at(distance + change), data, total=True)) for change in (-1e-6, 1e-6)
        )
        assert slope == pytest.approx((high - low) / 2e-6, rel=1e-5, abs=1e-8)


def test_gradient_norms_are_those_of_automatic_differentiation(one_unit, line):
    _, data = one_unit
    learned, rest = partition(line.model_at(line.distances[40]))
    due = jax.grad(lambda part: -hs.log_prob(eqx.combine(part, rest), data, total=True))(learned)
    norm = np.sqrt(sum(float((leaf**2).sum()) for leaf in jax.tree.leaves(due)))
    assert line.gradient_norms[40] == pytest.approx(norm, rel=1e-10)


def test_cliff_lies_where_the_weight_has_crossed_one(line):
    assert line.cliff > 0
    flat = np.abs(line.slopes[line.distances < -0.1]).max()
    assert np.abs(line.slopes).max() > 1e4 * flat


def test_clipping_turns_a_leap_at_the_cliff_into_a_step(one_unit, line):
    _, data = one_unit
    place = line.model_at(line.cliff)
    step = gradients.step_at(place, data, learning_rate=0.1, clip=1.0, along=line.direction)
    assert step.gradient_norm == pytest.approx(np.abs(line.slopes).max(), rel=1e-10)
    assert step.clipped.distance == pytest.approx(-0.1, rel=1e-10)
    assert abs(step.plain.distance) > 10
    assert step.clipped.loss < step.loss < step.plain.loss


def test_a_step_from_a_flat_place_is_the_same_with_and_without_clipping(one_unit):
    model, data = one_unit
    step = gradients.step_at(model, data, learning_rate=1e-3, clip=1e6)
    assert step.plain == step.clipped
    assert step.plain.distance == pytest.approx(1e-3 * step.gradient_norm, rel=1e-10)
    slope = (step.plain.loss - step.loss) / step.plain.distance
    assert slope == pytest.approx(-step.gradient_norm, rel=0.05)


def test_line_along_the_gradient_rises_by_its_norm(one_unit):
    model, data = one_unit
    found = gradients.landscape(model, data, distances=[0.0, 1e-6])
    assert found.slopes[0] == pytest.approx(found.gradient_norms[0], rel=1e-10)
    assert (found.losses[1] - found.losses[0]) / 1e-6 == pytest.approx(found.slopes[0], rel=1e-3)


def test_wrong_arguments_are_refused_in_words(one_unit):
    model, data = one_unit
    with pytest.raises(hs.HiddenStateError, match="learning_rate is 0; it must be a positive number"):
        gradients.step_at(model, data, learning_rate=0, clip=1.0)
    with pytest.raises(hs.HiddenStateError, match="distances has shape \\(0,\\)"):
        gradients.landscape(model, data, distances=[])
    with pytest.raises(hs.HiddenStateError, match="along has another form than the model"):
        gradients.landscape(model, data, {"weight": 1.0})
    with pytest.raises(hs.HiddenStateError, match="index is \\(\\); it must pick one number"):
        gradients.entry(
            hs.RNN(hs.cells.Vanilla(1, 2, key=jr.key(0)), hs.heads.Gaussian(2, None, key=jr.key(0))), recurrent_weight
        )
    frozen = eqx.tree_at(recurrent_weight, model, Frozen(model.cell.recurrent_weight))
    with pytest.raises(hs.HiddenStateError, match="must pick an array of the model that is learned"):
        gradients.entry(frozen, recurrent_weight)
