"""The graph of a computation: of functions whose graph is known by hand, and of models."""

import jax
import jax.numpy as jnp
import jax.random as jr
import networkx as nx
import pytest

import hiddenstate as hs
from hiddenstate.core import partition
from hiddenstate.inspect import computation, computation_of
from hiddenstate.report.computation import draw_computation


def test_slides_network_of_three_steps_is_printed_from_its_state_back():
    x, into, back = jnp.ones((2, 5)), jnp.ones((3, 5)), jnp.ones((3, 3))

    def state(x, into, back):
        h = jnp.zeros(3)
        for i in range(2):
            h = jax.nn.relu(into @ x[i] + back @ h)
        return h

    assert str(computation_of(state, x, into, back)) == "\n".join(
        [
            "max [3]",
            "  add [3]",
            "    dot_general [3]",
            "      argument 2 [3x5]",
            "      slice [1x5]",
            "        argument 1 [2x5]",
            "    dot_general [3]",
            "      argument 3 [3x3]",
            "      max [3]",
            "        add [3]",
            "          dot_general [3]",
            "            argument 2 [3x5]",
            "            slice [1x5]",
            "              argument 1 [2x5]",
            "          dot_general [3]",
            "            argument 3 [3x3]",
        ]
    )


def test_what_is_read_twice_is_followed_once():
    found = computation_of(lambda a: jnp.exp(a) * jnp.sin(jnp.exp(a) + 1), 2.0)
    assert found.operations == {"exp": 2, "mul": 1, "add": 1, "sin": 1}
    shared = computation_of(lambda a: (lambda e: e * jnp.sin(e))(jnp.exp(a)), 2.0)
    assert shared.tree() == "mul\n  exp\n    argument 1\n  sin\n    exp (as above)"


def test_nothing_is_shown_through_which_no_gradient_passes():
    stopped = computation_of(lambda a: a * jax.lax.stop_gradient(jnp.exp(a)) + jnp.round(a).astype(int), 2.0)
    assert stopped.operations == {"mul": 1, "add": 1}
    with pytest.raises(hs.HiddenStateError, match="does not depend on anything that has a gradient"):
        computation_of(lambda a: jax.lax.stop_gradient(a) * 2, 2.0)


@pytest.fixture(scope="module")
def vanilla() -> hs.RNN:
    return hs.RNN(hs.cells.Vanilla(3, 4, key=jr.key(0)), hs.heads.Categorical(4, 3, key=jr.key(1)))


def test_vanilla_network_has_its_operations_in_every_step(vanilla):
    found = computation(vanilla, 3, of="state")
    assert found.operations == {"dot_general": 6, "add": 6, "tanh": 3}
    nodes = dict(found.graph.nodes(data=True))
    assert [data["name"] for data in nodes.values() if data["label"] == "tanh"] == ["h_2", "h_3", "h_4"]
    assert [data["step"] for data in nodes.values() if data["label"] == "tanh"] == [1, 2, 3]
    assert {data["label"] for data in nodes.values() if data["kind"] == "parameter"} == {
        "cell.recurrent_weight",
        "cell.input_weight",
        "cell.bias",
    }
    assert [data["label"] for data in nodes.values() if data["kind"] == "observation"] == ["x_1", "x_2", "x_3"]


@pytest.mark.parametrize("kind", ["vanilla", "lstm", "hmm"])
def test_loss_leads_back_to_all_parameters_that_matter(kind: str, vanilla):
    model = {
        "vanilla": vanilla,
        "lstm": hs.RNN(
            hs.cells.LSTM(1, 2, key=jr.key(0)), hs.heads.Gaussian(2, None, key=jr.key(1)), initial="learned"
        ),
        "hmm": hs.HMM([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], hs.emissions.Poisson(rates=[1.0, 5.0])),
    }[kind]
    found = computation(model, 2)
    assert nx.is_directed_acyclic_graph(found.graph)
    assert list(found.graph.succ[found.output]) == []
    leaves = {data["label"] for _, data in found.graph.nodes(data=True) if data["kind"] == "parameter"}
    paths = jax.tree_util.tree_flatten_with_path(partition(model)[0])[0]
    assert leaves == {jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths}


def test_first_step_alone_does_not_lead_to_the_recurrent_weight(vanilla):
    labels = {data["label"] for _, data in computation(vanilla, 1).graph.nodes(data=True)}
    assert {"head.weight", "head.bias"} <= labels
    assert not any(label.startswith("cell.") for label in labels)


def test_pictures_are_written(vanilla, tmp_path):
    draw_computation(computation(vanilla, 3), tmp_path / "loss.svg")
    text = (tmp_path / "loss.svg").read_text()
    assert text.count("tanh") >= 2 and "recurrent_weight" in text and "step 3" in text
    lstm = hs.RNN(hs.cells.LSTM(1, 2, key=jr.key(0)), hs.heads.Gaussian(2, None, key=jr.key(1)))
    draw_computation(computation(lstm, 2, of="state"), tmp_path / "state.png")
    assert (tmp_path / "state.png").stat().st_size > 10_000


def test_wrong_arguments_are_refused_in_words(vanilla, tmp_path):
    with pytest.raises(hs.HiddenStateError, match="steps is 0; it must be a whole number, 1 or more"):
        computation(vanilla, 0)
    with pytest.raises(hs.HiddenStateError, match="of is 'all'; it must be 'loss' or 'state'"):
        computation(vanilla, of="all")
    with pytest.raises(hs.HiddenStateError, match=r"a model of sequences. hs.inspect.computation_of takes a function"):
        computation(lambda a: a)
    with pytest.raises(hs.HiddenStateError, match="a drawing takes at most 600"):
        draw_computation(computation(vanilla, 50), tmp_path / "long.svg")
