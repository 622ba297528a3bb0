import itertools

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import networkx as nx
import numpy as np
import numpyro.distributions as dist
import pytest
from jax.flatten_util import ravel_pytree

import hiddenstate as hs
from hiddenstate.core import partition
from hiddenstate.inspect import (
    example_graph,
    graph,
    independences,
    independent,
    log_joint,
    marginal,
    sample_joint,
)
from hiddenstate.networks.ending import Ending

CELLS = {
    "vanilla": hs.cells.Vanilla,
    "leaky": hs.cells.Leaky,
    "skip": lambda *sizes, key: hs.cells.SkipInTime(*sizes, lags=(1, 3), key=key),
    "gated-leaky": hs.cells.GatedLeaky,
    "output-feedback": hs.cells.OutputFeedback,
    "gru": hs.cells.GRU,
    "lstm": hs.cells.LSTM,
    "mingru": hs.cells.MinGRU,
    "minlstm": hs.cells.MinLSTM,
    "linear": hs.cells.DiagonalLinear,
    "turning": hs.cells.Turning,
}
MATRIX = np.array([[0.7, 0.3], [0.1, 0.9]])
EMITTED = np.array([[0.8, 0.2], [0.3, 0.7]])


def network(name, head="categorical", hidden=2, inputs=0, seed=0):
    """A network of symbols 0 and 1, or of one bit, in double precision, with weights of order one."""
    cell_key, head_key, noise_key = jr.split(jr.key(seed), 3)
    symbols = head == "categorical"
    read, family = (2, hs.heads.Categorical) if symbols else (1, hs.heads.Bernoulli)
    cell = CELLS[name](read + inputs, hidden, key=cell_key)
    made = hs.RNN(cell, family(cell.output_size + inputs, 2 if symbols else 1, key=head_key), inputs=inputs)
    learned, rest = partition(hs.cast(made, "float64"))
    vector, back = ravel_pytree(learned)
    return eqx.combine(back(vector + 0.5 * jr.normal(noise_key, vector.shape)), rest)


def weather():
    return hs.HMM([0.6, 0.4], MATRIX, hs.emissions.Categorical(probs=EMITTED))


def unbounded():
    return hs.HMM([0.6, 0.4], MATRIX, hs.emissions.Poisson(rates=[1.0, 5.0]))


@pytest.fixture(scope="module")
def gru():
    return network("gru")


# -- structure -----------------------------------------------------------------------------------------------


def arrows(made):
    return {f"{source}>{target}" for source, target in made.edges}


def test_a_network_is_read_out_and_updated(gru):
    made = graph(gru, 3)
    assert arrows(made) == {"H1>X1", "H2>X2", "H3>X3", "H1>H2", "X1>H2", "H2>H3", "X2>H3"}
    assert made.nodes["H2"] == {"variable": "H", "time": 2, "kind": "hidden", "conditional": "delta"}
    assert made.nodes["X3"] == {"variable": "X", "time": 3, "kind": "observed", "conditional": "random"}
    assert made.edges["H2", "X2"]["role"] == "readout"
    assert nx.is_directed_acyclic_graph(made)


def test_a_latent_chain_does_not_read_what_it_emits():
    made = graph(weather(), 3)
    assert arrows(made) == {"Z1>X1", "Z2>X2", "Z3>X3", "Z1>Z2", "Z2>Z3"}
    assert {data["conditional"] for _, data in made.nodes(data=True)} == {"random"}
    kalman = hs.LinearGaussian(transition=[[0.9]], transition_noise=[[1.0]], emission=[1.0], emission_noise=1.0)
    assert arrows(graph(kalman, 3)) == arrows(made) == arrows(example_graph("hmm", 3))


def test_a_belief_is_the_state_of_a_network(gru):
    made = graph(weather(), 4, view="recurrence")
    assert arrows(made) == arrows(graph(gru, 4)) == arrows(example_graph("rnn", 4))
    assert made.nodes["H3"]["conditional"] == "delta"


def test_output_feedback_has_no_arrow_between_states():
    assert arrows(graph(network("output-feedback"), 3)) == {"H1>X1", "H2>X2", "H3>X3", "X1>H2", "X2>H3"}


def test_inputs_are_read_by_cell_and_head():
    made = graph(network("vanilla", inputs=1), 2)
    assert arrows(made) == {"H1>X1", "H2>X2", "H1>H2", "X1>H2", "U1>X1", "U2>X2", "U1>H2"}
    assert made.nodes["U1"]["conditional"] == "given"


def test_emissions_may_see_past_observations():
    emission = hs.emissions.Autoregressive(
        intercepts=[0.0, 1.0], weights=[[0.5, 0.1], [0.2, 0.3]], variances=[1.0, 2.0]
    )
    made = graph(hs.HMM([0.6, 0.4], MATRIX, emission), 4)
    assert {"X1>X2", "X1>X3", "X2>X3", "X2>X4"} <= arrows(made)
    assert "X1>X4" not in arrows(made)


def test_particles_are_simulated_from_resampled_and_propagated():
    made = graph(hs.ParticleFilter(weather(), 2, key=jr.key(0)), 2)
    roles = {
        "forward simulation": {"H1(1)>X1", "H1(2)>X1", "H2(1)>X2", "H2(2)>X2"},
        "resampling": {"H1(1)>R1(1)", "H1(1)>R1(2)", "H1(2)>R1(1)", "H1(2)>R1(2)", "X1>R1(1)", "X1>R1(2)"},
        "propagation": {"R1(1)>H2(1)", "R1(2)>H2(2)"},
    }
    for role, due in roles.items():
        assert {f"{a}>{b}" for a, b, name in made.edges(data="role") if name == role} == due
    guided = graph(hs.ParticleFilter(weather(), 50, "guided", key=jr.key(0)), 2, particles=4)
    assert arrows(guided) >= {"X1>H2(1)", "X1>H2(4)"}
    assert "H1(5)" not in guided


def test_a_network_inside_another_model_is_no_particle(gru):
    assert arrows(graph(Ending(gru, 1), 2)) == {"H1>X1", "H2>X2", "H1>H2", "X1>H2"}


def test_a_switching_model_copies_or_draws_its_state():
    made = example_graph("switching", 2)
    assert arrows(made) == {"Z1>S1", "Z2>S2", "S1>S2", "S1>X1", "S2>X2"}
    assert made.edges["S1", "S2"]["role"] == "copy"


# -- independence --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [2, 5, 7])
def test_what_the_paper_says_of_networks_holds_for_its_reasons(steps):
    """Section 3.1 of Choe, Shin and Spencer 2017; their H_t is H_t+1 here."""
    made = example_graph("rnn", steps)
    xs = [f"X{t}" for t in range(1, steps + 1)]
    for t in range(1, steps):
        assert independent(made, f"X{t + 1}", xs[:t], f"H{t + 1}").because == "structure"
        now = [f"H{t}", f"X{t}"]
        assert independent(made, f"H{t + 1}", xs[t:], now).because == "determinism"  # proposition 4
        if t > 1:
            assert independent(made, f"H{t + 1}", xs[: t - 1], now).because == "structure"
            assert independent(made, f"H{t + 1}", xs[: t - 1] + xs[t:], now).because == "determinism"


def test_statements_of_each_kind_of_model():
    def reasons(made):
        return [statement.because for statement in independences(made)]

    always = ["structure", "structure"]
    assert reasons(example_graph("rnn", 5)) == [*always, "determinism", "determinism", "determinism", None, None]
    for name in ("hmm", "switching", "particle-filter"):
        assert reasons(example_graph(name, 4)) == [*always, None, None, None, None, None]
    order_one = reasons(graph(network("output-feedback"), 5))
    assert order_one == [*always, "determinism", "determinism", "determinism", "structure", None]


def test_what_is_not_independent_says_along_which_trail():
    made = example_graph("rnn", 4)
    for a, b, given, trail in (
        ("X3", "X1", "X2", "X3 ← H3 ← H2 ← X1"),
        ("H3", "X3", "H2", "H3 → X3"),
        ("X1", "H2", (), "X1 → H2"),
    ):
        found = independent(made, a, b, given)
        assert not found and not found.holds and found.because is None
        assert found.trail == trail and trail in str(found)
    meeting = independent(example_graph("hmm", 3), "Z1", "X3", ["X1", "X2"])
    assert meeting.trail == "Z1 → Z2 → Z3 → X3"
    gates = example_graph("switching", 2)
    assert independent(gates, "Z1", "Z2").because == "structure"
    assert independent(gates, "Z1", "Z2", "X2").trail == "Z1 → S1 → S2 ← Z2"


def test_inputs_are_always_given_and_what_is_known_tells_nothing():
    made = graph(network("vanilla", inputs=1), 3)
    assert independent(made, "H3", "X3", ["H2", "X2"]).because == "determinism"
    assert independent(made, "U1", "X3").because == "structure"
    assert independent(made, "X1", "X2", ["X1"]).because == "structure"
    assert independent(made, "H1", "H1").because == "determinism"
    assert not independent(made, "X1", "X1")


def random_tables(made, count, deterministic, rng):
    """Joint distributions of binary variables with this graph: all tables (model, node, node, ...), and their axes."""
    order = list(nx.topological_sort(made))
    joint = np.ones((count, *(2,) * len(order)))
    for node in order:
        parents = list(made.predecessors(node))
        ones = rng.uniform(0.05, 0.95, (count, *(2,) * len(parents)))
        if deterministic and made.nodes[node]["conditional"] == "delta":
            ones = rng.integers(0, 2, ones.shape).astype(float)
        conditional = np.stack([1 - ones, ones], -1)
        axes = [order.index(name) for name in (*parents, node)]
        placed = np.transpose(conditional, [0, *(1 + np.argsort(axes))])
        shape = [count] + [2 if i in axes else 1 for i in range(len(order))]
        joint = joint * placed.reshape(shape)
    return joint, {name: 1 + i for i, name in enumerate(order)}


def dependence(joint, axis, a, b, given):
    """How far p(a, b, c) p(c) is from p(a, c) p(b, c), at most, in any of the distributions."""

    def keep(*names):
        others = tuple(place for name, place in axis.items() if name not in names)
        return joint.sum(others, keepdims=True)

    return np.abs(keep(a, b, *given) * keep(*given) - keep(a, *given) * keep(b, *given)).max()


def test_independence_is_what_all_distributions_with_the_graph_share():
    """Every question about two variables given others, against brute force over random conditionals.

    With all conditionals random, independent is what d-separation says. With random functions for states it is what
    determinism adds; and what is said not to hold fails for one of them.
    """
    made, rng = example_graph("rnn", 3), np.random.default_rng(0)
    loose, axis = random_tables(made, 60, False, rng)
    strict, _ = random_tables(made, 300, True, rng)
    reasons = {"structure": 0, "determinism": 0, None: 0}
    for a, b in itertools.combinations(made, 2):
        others = [name for name in made if name not in (a, b)]
        for size in range(len(others) + 1):
            for given in itertools.combinations(others, size):
                found = independent(made, a, b, given)
                reasons[found.because] += 1
                assert (dependence(loose, axis, a, b, given) < 1e-12) == (found.because == "structure"), found
                assert (dependence(strict, axis, a, b, given) < 1e-12) == found.holds, found
    assert min(reasons.values()) > 10


def test_the_states_of_a_network_are_independent_of_what_is_said(gru):
    """The same on a real network: probabilities of all sequences, states told apart by their numbers."""
    steps = 4
    xs = np.array(list(itertools.product((0, 1), repeat=steps)))
    probs = np.exp(np.asarray(hs.log_prob(gru, xs)))
    hidden = np.round(np.asarray(hs.states(gru, xs)), 9)
    values = {f"X{t + 1}": xs[:, t] for t in range(steps)}
    values |= {f"H{t + 1}": np.unique(hidden[:, t], axis=0, return_inverse=True)[1].ravel() for t in range(steps)}

    def summed(names):
        cells = {}
        for i, p in enumerate(probs):
            case = tuple(int(values[name][i]) for name in names)
            cells[case] = cells.get(case, 0.0) + p
        return cells

    checked = 0
    for statement in independences(graph(gru, steps)):
        for case in statement.cases if statement.holds else ():
            a, b, c = list(case.a), list(case.b), list(case.given)
            all_three, with_a, with_b, alone = (summed(names) for names in (a + b + c, a + c, b + c, c))
            for one, two in itertools.product(with_a, with_b):
                if one[len(a) :] != two[len(b) :]:
                    continue
                left = all_three.get((*one[: len(a)], *two), 0.0) * alone[two[len(b) :]]
                assert abs(left - with_a[one] * with_b[two]) < 1e-14, case
                checked += 1
    assert checked > 100


# -- the joint distribution ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CELLS)
def test_summing_the_states_out_gives_the_network_back(name):
    """Theorem 5 of Choe, Shin and Spencer 2017, for all sequences; symbols and bits by turns."""
    model = network(name, ("categorical", "bernoulli")[list(CELLS).index(name) % 2])
    found = marginal(graph(model, 8), given=1)
    each = np.asarray(hs.step_log_probs(model, found.sequences))
    assert len(each) == 2**8
    np.testing.assert_allclose(found.log_probs, each[:, 1:].sum(1), rtol=0, atol=1e-12)
    assert np.ptp(found.log_probs) > 0.1


def test_the_joint_summed_over_all_paths_of_states_is_the_likelihood(gru):
    """By brute force: every sequence with every path of reachable states, all but one of which are impossible."""
    steps = 3
    xs = np.array(list(itertools.product((0, 1), repeat=steps)))
    reached = [np.unique(np.asarray(hs.states(gru, xs))[:, t], axis=0) for t in range(steps)]
    assert [len(values) for values in reached] == [1, 2, 4]
    paths = np.array(list(itertools.product(*reached)))
    every = np.repeat(xs, len(paths), 0)
    terms = log_joint(graph(gru, steps), every, jnp.asarray(np.tile(paths, (len(xs), 1, 1))))
    terms = np.asarray(terms).reshape(len(xs), len(paths))
    assert (np.isfinite(terms).sum(1) == 1).all()
    np.testing.assert_allclose(np.exp(terms).sum(1), np.exp(hs.log_prob(gru, xs)), rtol=1e-12)


def test_a_state_that_differs_by_more_than_rounding_is_impossible(gru):
    made = graph(gru, 5)
    xs, states = sample_joint(made, key=jr.key(1), n=2)
    np.testing.assert_allclose(log_joint(made, xs, states), hs.log_prob(gru, np.asarray(xs)), rtol=1e-12)
    np.testing.assert_allclose(states, hs.states(gru, np.asarray(xs)), rtol=1e-12, atol=1e-14)
    rounded = log_joint(made, xs, states.at[0, 3].add(1e-10))
    assert np.isfinite(rounded).all()
    wrong = log_joint(made, xs, states.at[0, 3, 1].add(1e-5))
    assert np.isneginf(wrong[0]) and np.isfinite(wrong[1])
    assert np.isfinite(log_joint(made, xs, states.at[0, 3, 1].add(1e-5), tolerance=1e-3)).all()
    assert np.isneginf(log_joint(made, xs, states.at[1, 0].add(1e-5))[1])


def test_draws_come_from_the_joint(gru):
    made = graph(gru, 3)
    count = 20_000
    xs, _ = sample_joint(made, key=jr.key(3), n=count)
    seen = np.bincount(np.asarray(xs) @ [4, 2, 1], minlength=8) / count
    due = np.exp(marginal(made).log_probs)
    assert (np.abs(seen - due) < 5 * np.sqrt(due * (1 - due) / count)).all()


def test_the_joint_of_a_hidden_markov_model_is_the_product_of_its_tables():
    made = graph(weather(), 3)
    pairs = list(itertools.product(itertools.product((0, 1), repeat=3), repeat=2))
    xs, zs = (np.array(side) for side in zip(*pairs, strict=True))
    found = np.asarray(log_joint(made, xs, zs))
    for x, z, value in zip(xs, zs, found, strict=True):
        due = [0.6, 0.4][z[0]] * MATRIX[z[0], z[1]] * MATRIX[z[1], z[2]]
        due *= EMITTED[z[0], x[0]] * EMITTED[z[1], x[1]] * EMITTED[z[2], x[2]]
        assert value == pytest.approx(np.log(due), abs=1e-6)
    assert np.exp(found).sum() == pytest.approx(1, abs=1e-6)
    summed = marginal(made)
    np.testing.assert_allclose(summed.log_probs, hs.log_prob(weather(), summed.sequences), atol=1e-6)
    count = 20_000
    drawn = sample_joint(made, key=jr.key(0), n=count)
    at = np.asarray(drawn.observed) @ [4, 2, 1] * 8 + np.asarray(drawn.hidden) @ [4, 2, 1]
    seen, due = np.bincount(at, minlength=64) / count, np.exp(found)
    assert (np.abs(seen - due) < 5 * np.sqrt(due * (1 - due) / count)).all()


def test_the_joint_of_functions_is_their_product():
    model = hs.StateSpace(
        initial=dist.Normal(1.0, 2.0),
        transition=lambda z, u: dist.Normal(0.5 * z, 0.3),
        emission=lambda z, u: dist.Poisson(jnp.exp(z)),
    )
    z, x = np.array([0.4, 0.1, -0.2]), np.array([2, 0, 1])
    due = -0.5 * ((z[0] - 1) / 2) ** 2 - np.log(2 * np.sqrt(2 * np.pi))
    for before, after in itertools.pairwise(z):
        due += -0.5 * ((after - 0.5 * before) / 0.3) ** 2 - np.log(0.3 * np.sqrt(2 * np.pi))
    due += sum(count * rate - np.exp(rate) for count, rate in zip(x, z, strict=True)) - np.log(2)
    made = graph(model, 3)
    assert float(log_joint(made, x[None], z[None])[0]) == pytest.approx(due, abs=1e-5)
    assert sample_joint(made, key=jr.key(0), n=2).hidden.shape == (2, 3)


def test_noise_makes_states_random_and_takes_away_what_determinism_gave():
    quiet = network("vanilla")
    model = hs.cast(hs.RNN(hs.cells.Noisy(quiet.cell, 0.3), quiet.head), "float64")
    made = graph(model, 4)
    assert [made.nodes[f"H{t}"]["conditional"] for t in (1, 2, 4)] == ["delta", "random", "random"]
    assert arrows(made) == arrows(graph(quiet, 4))
    assert [statement.because for statement in independences(made)] == ["structure", "structure", *[None] * 5]
    xs, states = sample_joint(made, key=jr.key(0), n=2)
    for x, h, found in zip(np.asarray(xs), np.asarray(states), log_joint(made, xs, states), strict=True):
        due = sum(float(quiet.readout(jnp.asarray(h[t])).log_prob(x[t])) for t in range(4))
        for t in range(3):
            noise = (h[t + 1] - np.asarray(quiet.step(jnp.asarray(h[t]), quiet.prepare(jnp.asarray(x[t]))))) / 0.3
            due += float((-0.5 * noise**2 - np.log(0.3 * np.sqrt(2 * np.pi))).sum())
        assert float(found) == pytest.approx(due, abs=1e-10)
    assert np.isneginf(log_joint(made, xs, states.at[0, 0].add(1.0))[0])
    assert "X1>H2(1)" in arrows(graph(hs.ParticleFilter(model, 2, key=jr.key(0)), 2))


@pytest.mark.slow
def test_a_filter_with_its_seed_is_a_network():
    model = hs.ParticleFilter(weather(), 5, key=jr.key(2))
    made = graph(model, 4, view="recurrence")
    xs, states = sample_joint(made, key=jr.key(1), n=2)
    np.testing.assert_allclose(log_joint(made, xs, states), hs.log_prob(model, np.asarray(xs)), atol=1e-5)
    wrong = states._replace(particles=states.particles.at[1, 2, 0].add(1))
    assert np.isneginf(log_joint(made, xs, wrong)[1])


def test_inputs_join_the_joint():
    model = network("gru", inputs=1)
    us = np.array([[0.5], [-1.0], [2.0]])
    made = graph(model, 3)
    xs, states = sample_joint(made, key=jr.key(1), n=2, inputs=us)
    data = hs.Sequences.padded(np.asarray(xs), inputs=np.stack([us, us]))
    np.testing.assert_allclose(log_joint(made, xs, states, inputs=us), hs.log_prob(model, data), rtol=1e-12)
    found = marginal(made, inputs=us)
    data = hs.Sequences.padded(found.sequences, inputs=np.stack([us] * 8))
    np.testing.assert_allclose(found.log_probs, hs.log_prob(model, data), rtol=0, atol=1e-12)


# -- what is wrong is said -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: graph(weather(), 0), "steps is 0"),
        (lambda: graph(weather(), 3, view="loop"), "view is 'loop'; it must be 'generative' or 'recurrence'."),
        (lambda: graph("gru", 3), "model is 'gru'; it must be a model, such as"),
        (lambda: example_graph("rrn", 3), "name is 'rrn'; it must be one of rnn, hmm, particle-filter, switching."),
        (lambda: independent(example_graph("rnn", 2), "X9", "X1"), "a names 'X9', which is no variable"),
        (lambda: independent(example_graph("rnn", 2), "X1", []), "b is empty"),
        (lambda: independent(example_graph("rnn", 2), 1, "X1"), "a is 1; it must be the name of a variable"),
        (lambda: independent(nx.DiGraph(), "X1", "X2"), "it must be what hs.inspect.graph"),
        (lambda: sample_joint(example_graph("rnn", 2), key=jr.key(0)), "the example 'rnn', which has no numbers"),
        (lambda: marginal(graph(weather(), 30)), "there are 2^30 sequences"),
        (lambda: marginal(graph(unbounded(), 2)), "observations that are no symbols or bits"),
        (lambda: marginal(graph(weather(), 3), given=3), "given is 3; it must be a whole number from 0 to 2."),
        (lambda: log_joint(graph(weather(), 3), [[0, 1]], [[0, 1]]), "with 3 steps"),
        (lambda: log_joint(graph(weather(), 2), [[0, 5]], [[0, 1]]), "holds 5 at step 2"),
        (
            lambda: log_joint(graph(weather(), 2), [[0, 1]], np.zeros((1, 3))),
            r"hidden has arrays of shapes \[\(1, 3\)\]",
        ),
        (
            lambda: sample_joint(graph(hs.ParticleFilter(weather(), 3, key=jr.key(0)), 2), key=jr.key(0)),
            "view='recurrence'",
        ),
    ],
)
def test_what_is_wrong_is_said(call, said):
    with pytest.raises(hs.HiddenStateError, match=said.replace("^", r"\^")):
        call()
