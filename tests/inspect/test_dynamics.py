"""Fixed points, cycles and flows, against networks whose dynamics are known in closed form."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import Recurrence
from hiddenstate.inspect import dynamics
from hiddenstate.ops.vectors import from_vector
from marks import quick

KEY = jr.key(0)


def network(weight, dtype="float64", **options):
    """A vanilla cell with these recurrent weights, and no bias."""
    cell = hs.cells.Vanilla(1, len(weight), key=jr.key(1), **options)
    return hs.cast(eqx.tree_at(lambda c: c.recurrent_weight, cell, jnp.asarray(weight)), dtype)


def rotation(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def rest(gain):
    """The positive root of h = tanh(gain h), by bisection."""
    low, high = 1e-3, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.tanh(gain * middle) > middle else (low, middle)
    return low


class Spiral(Recurrence):
    """A state in the plane that turns by `angle` while its length follows a law of its own."""

    angle: jax.Array
    gain: float = 1.5
    input_size: int = 1

    def initial(self):
        return jnp.zeros(2)

    def prepare(self, x, u=None):
        return x

    def step(self, state, element):
        length = jnp.sqrt(jnp.sum(state**2) + 1e-300)
        turn = jnp.array([[jnp.cos(self.angle), -jnp.sin(self.angle)], [jnp.sin(self.angle), jnp.cos(self.angle)]])
        return turn @ state * jnp.tanh(self.gain * length) / length


# -- fixed points --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_two_attractors_and_a_saddle_are_found(dtype):
    found = dynamics.fixed_points(network(np.diag([2.0, 0.5]), dtype), starts=64, key=KEY)
    h = rest(2.0)
    near = {"float64": 1e-12, "float32": 1e-6}[dtype]
    assert found.kinds == ("attractor", "attractor", "saddle") and found.lost == 0
    np.testing.assert_allclose(found.points, [[-h, 0], [h, 0], [0, 0]], atol=near)
    slope = 2 * (1 - h**2)
    np.testing.assert_allclose(found.eigenvalues[2], [2.0, 0.5], atol=near)
    np.testing.assert_allclose(found.eigenvalues[0], [0.5, slope], atol=10 * near)
    assert found.unstable.tolist() == [0, 0, 1] and found.counts.sum() == 64
    assert found.points.dtype == dtype


def test_a_rotated_basis_keeps_what_is_known_of_the_saddle():
    turn = rotation(0.5)
    found = dynamics.fixed_points(network(turn @ np.diag([2.0, 0.5]) @ turn.T), starts=64, key=KEY)
    assert found.kinds == ("attractor", "attractor", "saddle")
    np.testing.assert_allclose(found.eigenvalues[2], [2.0, 0.5], atol=1e-12)
    np.testing.assert_allclose(found.points[0], -found.points[1], atol=1e-12)
    weight = turn @ np.diag([2.0, 0.5]) @ turn.T
    np.testing.assert_allclose(np.tanh(weight @ found.points[1]), found.points[1], atol=1e-12)


def test_all_nine_fixed_points_of_two_independent_units_are_found():
    found = dynamics.fixed_points(network(np.diag([2.0, 3.0])), starts=128, key=KEY)
    kinds = sorted(found.kinds)
    assert kinds == ["attractor"] * 4 + ["repeller"] + ["saddle"] * 4
    grid = sorted((a, b) for a in (-rest(2.0), 0, rest(2.0)) for b in (-rest(3.0), 0, rest(3.0)))
    np.testing.assert_allclose(sorted(map(tuple, found.points.round(12).tolist())), grid, atol=1e-9)
    assert found.of_kind("repeller").shape == (1, 2)
    assert found.frame().filter(found.frame()["kind"] == "attractor").height == 4


def test_a_linear_rotation_has_a_centre_and_an_integrator_a_marginal_point():
    turning = dynamics.fixed_points(network(rotation(0.3), nonlinearity="identity"), starts=8, key=KEY)
    assert turning.kinds == ("centre",)
    held = dynamics.fixed_points(network([[1.0]], nonlinearity="identity"), starts=np.zeros((1, 1)), key=KEY)
    assert held.kinds == ("marginal",)


def test_what_is_left_of_two_fixed_points_that_met_is_a_slow_point():
    """h = tanh(2 h + b) loses two of its three roots where |b| passes the value of the fold."""
    top = np.sqrt(0.5)  # there the slope of tanh is 1/2
    fold = 2 * top - np.arctanh(top)
    cell = network([[2.0]])
    for bias, count in ((fold - 0.01, 3), (fold + 0.01, 1)):
        found = dynamics.fixed_points(eqx.tree_at(lambda c: c.bias, cell, jnp.array([bias])), starts=32, key=KEY)
        assert len(found) - found.kinds.count("slow point") == count
    assert found.kinds.count("slow point") == 1
    place = int(np.argmin(np.abs(found.points[:, 0] + top)))
    assert found.kinds[place] == "slow point"
    assert found.points[place, 0] == pytest.approx(-top, abs=0.01)
    assert found.speeds[place] == pytest.approx(0.005, rel=0.1)


def test_input_and_observation_move_the_fixed_point():
    cell = hs.cells.Vanilla(2, 1, nonlinearity="identity", key=jr.key(2))
    cell = eqx.tree_at(
        lambda c: (c.recurrent_weight, c.input_weight), cell, (jnp.array([[0.5]]), jnp.array([[1.0, 3.0]]))
    )
    found = dynamics.fixed_points(cell, input=[1.0, -1.0], starts=4, key=KEY)
    assert found.points[0, 0] == pytest.approx(-4.0, abs=1e-6)
    model = hs.RNN(cell, hs.heads.Categorical(1, 2, key=jr.key(3)))
    for symbol, due in ((0, 2.0), (1, 6.0)):
        found = dynamics.fixed_points(model, x=symbol, starts=4, key=KEY)
        assert found.points[0, 0] == pytest.approx(due, abs=1e-5)


def test_beliefs_settle_at_the_stationary_distribution_and_at_an_eigenvector():
    transition, emission = np.array([[0.9, 0.1], [0.3, 0.7]]), np.array([[0.8, 0.2], [0.1, 0.9]])
    model = hs.HMM(initial=[0.5, 0.5], transition=transition, emission=hs.emissions.Categorical(probs=emission))
    at_rest = dynamics.fixed_points(model, starts=16, key=KEY)
    np.testing.assert_allclose(at_rest.points, [[0.75, 0.25]], atol=1e-6)
    assert abs(at_rest.eigenvalues[0, 0]) == pytest.approx(0.6, abs=1e-5)
    values, vectors = np.linalg.eig(transition.T @ np.diag(emission[:, 1]))
    top = vectors[:, np.argmax(values)]
    seen = dynamics.fixed_points(model, x=1, starts=16, key=KEY)
    np.testing.assert_allclose(seen.points, [top / top.sum()], atol=1e-6)
    assert abs(seen.eigenvalues[0, 0]) == pytest.approx(values.min() / values.max(), abs=1e-5)


def test_states_of_two_vectors_work_as_well():
    cell = hs.cells.LSTM(1, 2, key=jr.key(4))
    found = dynamics.fixed_points(cell, starts=8, key=KEY)
    state = cell.initial()
    for _ in range(600):
        state = cell.step(state, cell.prepare(jnp.zeros(1)))
    np.testing.assert_allclose(found.points[0], np.concatenate(state), atol=1e-5)
    assert found.kinds == ("attractor",)


REAL = hs.Sequences.padded(np.random.default_rng(0).normal(size=(4, 20)))


def models():
    for name in ("linear-gaussian", "gru", "minlstm", "skip", "turning", "multi-particle", "hsmm"):
        yield pytest.param(lambda name=name: hs.build(name, REAL, key=jr.key(7)), id=name)
    yield pytest.param(lambda: hs.build("lstm", REAL, hidden=3, layers=2, key=jr.key(7)), id="stack")
    chain = hs.HMM(
        initial=[0.5, 0.5],
        transition=[[0.9, 0.1], [0.3, 0.7]],
        emission=hs.emissions.Categorical(probs=[[0.8, 0.2], [0.1, 0.9]]),
    )
    yield pytest.param(lambda: hs.exact_rnn(chain), id="exact")


@pytest.mark.parametrize("make", quick(models(), 1))
def test_any_model_stands_still_at_its_fixed_points(make):
    """By the model's own step on its own state, with what it expects itself as observation."""
    model = make()
    found = dynamics.fixed_points(model, x="own", starts=16, key=KEY)
    like = model.initial()
    kept = [i for i, kind in enumerate(found.kinds) if kind != "slow point"]
    assert kept
    for i in kept:
        state = from_vector(jnp.asarray(found.points[i]), like)
        shown = model.readout(state)
        x = shown.mean if not shown.is_discrete else jnp.argmax(shown.logits)
        moved = model.step(state, model.prepare(x))
        for new, old in zip(jax.tree.leaves(moved), jax.tree.leaves(state), strict=True):
            np.testing.assert_allclose(new, old, atol=1e-4 * (1 + np.abs(old).max()))


# -- cycles --------------------------------------------------------------------------------------------------


def test_one_unit_with_a_negative_weight_alternates():
    found = dynamics.limit_cycles(network([[-2.0]]), starts=8, key=KEY, steps=200, longest=12)
    cycle = found.cycles[0]
    h = rest(2.0)
    assert cycle.kind == "limit cycle (period 2)" and cycle.period == 2.0
    np.testing.assert_allclose(sorted(cycle.points[:, 0]), [-h, h], atol=1e-12)
    np.testing.assert_allclose(cycle.multipliers, [(2 * (1 - h**2)) ** 2], atol=1e-12)
    assert found.frame()["largest_multiplier"][0] == pytest.approx(abs(cycle.multipliers[0]))


def test_units_in_a_ring_pass_their_signs_on():
    """tanh(2 P h) with P a cyclic shift keeps the patterns +++ and ---, and shifts the six others in two cycles."""
    ring = 2 * np.roll(np.eye(3), 1, axis=0)
    found = dynamics.limit_cycles(network(ring), starts=48, key=KEY, steps=200, longest=12)
    kinds = [orbit.kind for orbit in found.orbits if "unstable" not in orbit.kind]
    assert sorted(kinds) == ["fixed point"] * 2 + ["limit cycle (period 3)"] * 2
    h = rest(2.0)
    for orbit in found.cycles:
        np.testing.assert_allclose(np.abs(orbit.points), h, atol=1e-9)
        assert len({tuple(signs) for signs in np.sign(orbit.points)}) == 3
        np.testing.assert_allclose(np.abs(orbit.multipliers), (2 * (1 - h**2)) ** 3, atol=1e-9)
    at_rest = next(orbit for orbit in found.orbits if orbit.kind == "fixed point")
    np.testing.assert_allclose(at_rest.exponents, np.log(2 * (1 - h**2)), atol=1e-6)


def test_a_turn_by_no_fraction_of_a_circle_is_a_closed_curve():
    found = dynamics.limit_cycles(Spiral(jnp.array(0.3)), starts=8, key=KEY)  # half of them lie at zero
    curve = found.cycles[0]
    assert curve.kind == "limit cycle (closed curve)" and curve.starts == 4
    assert curve.period == pytest.approx(2 * np.pi / 0.3, rel=1e-6)
    radius = rest(1.5)
    np.testing.assert_allclose(np.linalg.norm(curve.points, axis=1), radius, atol=1e-9)
    assert curve.exponents[0] == pytest.approx(0.0, abs=1e-3)
    assert curve.exponents[1] == pytest.approx(np.log(1.5 * (1 - radius**2)), abs=1e-3)
    cut = dynamics.limit_cycles(Spiral(jnp.array(2 * np.pi * 2 / 5)), starts=8, key=KEY)
    assert {orbit.kind for orbit in cut.cycles} == {"limit cycle (period 5)"}


def test_a_tanh_network_that_turns_is_a_closed_curve_whose_turns_a_loop_counts():
    weight = 1.5 * rotation(0.3)
    found = dynamics.limit_cycles(network(weight), starts=8, key=KEY)
    assert [orbit.kind for orbit in found.cycles] == ["limit cycle (closed curve)"]
    h, turned = np.array([0.5, 0.1]), 0.0
    for time in range(12_000):
        new = np.tanh(weight @ h)
        step = np.angle(complex(*new) / complex(*h))
        turned += step if time >= 2000 else 0.0
        h = new
    assert found.cycles[0].period == pytest.approx(2 * np.pi * 10_000 / turned, rel=1e-3)


def test_chaos_is_told_apart_with_its_exponent():
    """h' = sin(pi h) on (0, 1); its exponent by a plain loop."""
    found = dynamics.limit_cycles(network([[np.pi]], nonlinearity="sin"), starts=np.array([[0.3]]), key=KEY)
    assert [orbit.kind for orbit in found.orbits] == ["chaos"] and not found.cycles
    h, logs = 0.3, []
    for _ in range(20_000):
        logs.append(np.log(abs(np.pi * np.cos(np.pi * h))))
        h = np.sin(np.pi * h)
    assert found.orbits[0].exponents[0] == pytest.approx(np.mean(logs), abs=0.05)


def test_growth_without_end_and_starts_on_a_saddle_are_named():
    wild = dynamics.limit_cycles(network([[1.1]], nonlinearity="identity"), starts=np.array([[1.0], [0.0]]), key=KEY)
    assert sorted(orbit.kind for orbit in wild.orbits) == ["diverging", "fixed point, unstable"]


@pytest.mark.parametrize(
    ("weight", "nonlinearity"),
    [
        ([[1.0]], "tanh"),
        (np.diag([1.0, 0.5]), "tanh"),
        (np.diag([0.998, 0.5]), "identity"),
        (0.999 * rotation(0.3), "tanh"),
    ],
)
def test_states_slowly_on_their_way_to_rest_are_on_no_cycle(weight, nonlinearity):
    """Along the slow direction the state falls like one over the root of time, or by a thousandth a step."""
    cell = network(weight, nonlinearity=nonlinearity)
    starts = np.tile([[0.5, -0.3]], (2, 1))[:, : len(weight)]
    found = dynamics.limit_cycles(cell, starts=starts, transient=500, steps=500, key=KEY)
    assert [orbit.kind for orbit in found.orbits] == ["unsettled"] and not found.cycles
    assert np.isnan(found.orbits[0].period)


# -- flow ----------------------------------------------------------------------------------------------------


def test_flow_is_the_move_of_every_place():
    weight = rotation(0.4) @ np.diag([2.0, 0.5])
    field = dynamics.flow(network(weight), grid=5, key=KEY)
    assert field.moves.shape == (5, 5, 2) and field.shares is None
    for i, a in enumerate(field.coordinates[0]):
        for j, b in enumerate(field.coordinates[1]):
            move = np.tanh(weight @ [a, b]) - [a, b]
            np.testing.assert_allclose(field.moves[i, j], move, atol=1e-12)
            assert field.speeds[i, j] == pytest.approx(np.linalg.norm(move))
    line = dynamics.flow(network([[2.0]]), grid=7, key=KEY)
    np.testing.assert_allclose(line.moves[:, 0], np.tanh(2 * line.coordinates[0]) - line.coordinates[0], atol=1e-12)


def test_flow_of_many_units_is_seen_on_a_plane():
    cell = network(np.diag([0.9, 0.5, 0.1]), nonlinearity="identity")
    field = dynamics.flow(cell, plane=(0, 2), grid=3, key=KEY)
    np.testing.assert_allclose(field.axes, np.eye(3)[[0, 2]])
    np.testing.assert_allclose(
        field.moves[2, 0],
        -np.array([0.1, 0.9]) * (field.centre[[0, 2]] + [field.coordinates[0][2], field.coordinates[1][0]]),
        atol=1e-12,
    )
    tilted = dynamics.flow(cell, plane=[[3.0, 0, 0], [1.0, 1.0, 0]], grid=3, key=KEY)
    np.testing.assert_allclose(tilted.axes, np.eye(3)[:2], atol=1e-12)
    principal = dynamics.flow(cell, grid=3, key=KEY)
    np.testing.assert_allclose(principal.axes @ principal.axes.T, np.eye(2), atol=1e-9)
    np.testing.assert_allclose(principal.project(principal.centre + 2 * principal.axes[1]), [0, 2], atol=1e-9)


# -- errors --------------------------------------------------------------------------------------------------

SYMBOLS = hs.RNN(hs.cells.GRU(3, 4, key=jr.key(5)), hs.heads.Categorical(4, 3, key=jr.key(6)))


@pytest.mark.parametrize(
    ("said", "call"),
    [
        (r"x is 7, which is no observation of the model", lambda: dynamics.fixed_points(SYMBOLS, x=7, key=KEY)),
        (r"x is 'mean'; it must be an observation, or 'own'", lambda: dynamics.flow(SYMBOLS, x="mean", key=KEY)),
        (r"input is .*; it must be a vector of 3", lambda: dynamics.flow(SYMBOLS, input=[1.0], key=KEY)),
        (r"both x and input", lambda: dynamics.flow(SYMBOLS, input=[1.0, 0, 0], x=1, key=KEY)),
        (r"starts is 0; it must be a whole number", lambda: dynamics.fixed_points(SYMBOLS, starts=0, key=KEY)),
        (r"starts has shape \(2, 3\)", lambda: dynamics.limit_cycles(SYMBOLS, starts=np.zeros((2, 3)), key=KEY)),
        (r"plane is \(0, 4\); it must be two different numbers", lambda: dynamics.flow(SYMBOLS, plane=(0, 4), key=KEY)),
        (r"the key is 3; it must be", lambda: dynamics.flow(SYMBOLS, key=3)),
        (r"the key is 3; it must be", lambda: dynamics.limit_cycles(SYMBOLS, key=3)),
        (r"reads vectors, not observations; give input", lambda: dynamics.flow(SYMBOLS.cell, x=1, key=KEY)),
        (r"apart is -1; it must be a positive", lambda: dynamics.fixed_points(SYMBOLS, apart=-1, key=KEY)),
    ],
)
def test_wrong_arguments_are_named(said, call):
    with pytest.raises(hs.HiddenStateError, match=said):
        call()


def test_states_that_hold_no_real_numbers_are_refused():
    chain = hs.HMM(
        initial=[0.5, 0.5],
        transition=[[0.9, 0.1], [0.2, 0.8]],
        emission=hs.emissions.Categorical(probs=[[0.8, 0.2], [0.3, 0.7]]),
    )
    with pytest.raises(hs.HiddenStateError, match="dynamics takes states of real numbers"):
        dynamics.fixed_points(hs.ParticleFilter(chain, 10, key=KEY), key=KEY)
