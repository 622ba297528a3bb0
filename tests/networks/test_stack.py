"""Stacks: what runs without waiting, what is between layers, and what is noisy only while learning."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import cast, partition, with_noise
from hiddenstate.inference import arrays_for, masked_log_probs

KEY = jr.key(0)
SIZE = 3


def symbols(time: int, count: int = 2) -> hs.Sequences:
    return hs.Sequences.padded(np.random.default_rng(0).integers(0, SIZE, (count, time)))


def rnn(*cells, **between):
    """A model of symbols of one cell, or of several, one above the other."""
    made = [cell(SIZE, SIZE, key=jr.fold_in(KEY, i)) for i, cell in enumerate(cells)]
    body = made[0] if len(made) == 1 else hs.Stack(made, **between)
    return cast(hs.RNN(body, hs.heads.Categorical(SIZE, SIZE, key=KEY), initial="learned"), jnp.float64)


def slope(model, data, strategy):
    """The function of the learned numbers whose value is the gradient that learning follows."""
    learned, rest = partition(model)
    arrays = arrays_for(model, data)
    return jax.grad(lambda p: masked_log_probs(eqx.combine(p, rest), arrays, strategy)[0].sum()), learned


def primitives(function, *arguments) -> set[str]:
    """The names of all operations of a program, those within its parts among them."""
    found = set()

    def visit(program):
        for equation in program.eqns:
            found.add(equation.primitive.name)
            for part in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_program):
                if _is_program(part):
                    visit(getattr(part, "jaxpr", part))

    visit(jax.make_jaxpr(function)(*arguments).jaxpr)
    return found


def _is_program(node) -> bool:
    return hasattr(node, "eqns") or hasattr(node, "jaxpr")


def loops(function, *arguments) -> set[str]:
    """What runs over time step by step: loops of the program, and kernels, which have theirs inside."""
    kernels = ("_forward", "_keeping", "_backward")
    found = primitives(function, *arguments)
    return {name for name in found if name in ("scan", "while") or name.endswith(kernels)}


@pytest.mark.parametrize("layers", [1, 3])
def test_output_feedback_learns_without_a_loop_over_time(layers):
    model = rnn(*[hs.cells.OutputFeedback] * layers)
    assert not loops(*slope(model, symbols(2000), hs.Auto()))


def test_a_loop_over_time_would_be_seen():
    assert loops(*slope(rnn(hs.cells.GRU), symbols(2000), hs.Auto()))
    assert "scan" in loops(*slope(rnn(hs.cells.GRU), symbols(2000), hs.Sequential()))
    mixed = rnn(hs.cells.OutputFeedback, hs.cells.GRU)
    assert loops(*slope(mixed, symbols(2000), hs.Auto()))


def test_output_feedback_streams_what_it_learned_at_once():
    model = rnn(hs.cells.OutputFeedback, hs.cells.OutputFeedback)
    data = symbols(6, 1)
    stream = hs.Stream(model)
    for x in data[0]:
        stream.push(x)
    np.testing.assert_allclose(stream.log_prob, hs.log_prob(model, data)[0], rtol=1e-12)


def test_a_stack_of_associative_cells_runs_in_parallel_layer_by_layer():
    model, data = rnn(hs.cells.MinGRU, hs.cells.MinGRU, norm=True, residual=True), symbols(50)
    gradient, learned = slope(model, data, hs.Associative())
    assert not loops(gradient, learned)
    expected, _ = slope(model, data, hs.Sequential())
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11),
        jax.jit(gradient)(learned),
        jax.jit(expected)(learned),
    )


def test_one_layer_that_is_not_associative_is_named():
    with pytest.raises(hs.StrategyError, match="GRU has none"):
        hs.log_prob(rnn(hs.cells.MinGRU, hs.cells.GRU), symbols(4), strategy=hs.Associative())


def readings(weight, **between):
    """A stack whose outputs are what its last layer reads, times `weight`, where that is not negative."""
    below = hs.cells.GRU(2, SIZE, key=KEY)
    above = hs.cells.OutputFeedback(SIZE, len(weight), nonlinearity="relu", key=KEY)
    above = eqx.tree_at(lambda c: c.input_weight, above, jnp.asarray(weight))
    return cast(hs.Stack([below, above], **between), jnp.float64)


XS = jr.normal(KEY, (7, 2), jnp.float64)


def test_softmax_makes_a_distribution_of_what_a_layer_shows():
    rows = readings(np.eye(SIZE), softmax=True).read(XS).outputs
    assert (np.asarray(rows) > 0).all()
    np.testing.assert_allclose(rows.sum(1), 1.0, rtol=1e-12)
    shown = readings(np.eye(SIZE)).cells[0].read(XS).outputs
    np.testing.assert_allclose(rows, np.exp(shown) / np.exp(shown).sum(1, keepdims=True), rtol=1e-12)


def test_norm_gives_every_layer_numbers_of_mean_zero_and_variance_one():
    both = readings(np.concatenate([np.eye(SIZE), -np.eye(SIZE)]), norm=True).read(XS).outputs
    rows = both[:, :SIZE] - both[:, SIZE:]
    np.testing.assert_allclose(rows.mean(1), 0.0, atol=1e-12)
    shown = readings(np.eye(SIZE)).cells[0].read(XS).outputs
    variance = np.asarray(shown).var(1)
    np.testing.assert_allclose(np.asarray(rows).var(1), variance / (variance + 1e-5), rtol=1e-10)


def test_a_feed_forward_part_adds_to_every_vector_what_it_makes_of_it():
    below, above = (hs.cells.MinGRU(2, 2, key=jr.fold_in(KEY, i)) for i in range(2))
    stack = cast(hs.Stack([below, above], feedforward=3, residual=True, key=KEY), jnp.float64)
    assert stack.feedforward == 3 and [feed.into_weight.shape for feed in stack.feeds] == [(6, 2)] * 2

    def through(feed, rows):
        apart = rows - rows.mean(1, keepdims=True)
        normal = apart / np.sqrt((apart**2).mean(1, keepdims=True) + 1e-5)
        inside = normal @ np.asarray(feed.into_weight).T
        bent = inside / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (inside + 0.044715 * inside**3)))
        return rows + bent @ np.asarray(feed.out_weight).T

    first = through(stack.feeds[0], np.asarray(stack.cells[0].read(XS).outputs))
    second = through(stack.feeds[1], first + np.asarray(stack.cells[1].read(jnp.asarray(first)).outputs))
    np.testing.assert_allclose(stack.read(XS).outputs, second, rtol=1e-10)


def test_one_layer_takes_a_feed_forward_part_by_name():
    model = hs.build("mingru", symbols(5), hidden=3, feedforward=2, key=KEY)
    assert len(model.cell.cells) == 1 and model.cell.feedforward == 2
    plain = hs.build("mingru", symbols(5), hidden=3, feedforward=0, key=KEY)
    assert isinstance(plain.cell, hs.cells.MinGRU)


def test_dropout_leaves_out_the_same_entries_at_every_step_of_a_learning_sequence():
    stack = readings(np.eye(SIZE), softmax=True, dropout=0.5)
    plain = stack.read(XS).outputs
    np.testing.assert_array_equal(plain, readings(np.eye(SIZE), softmax=True).read(XS).outputs)
    noisy = jax.jit(jax.vmap(lambda key: with_noise(stack, key).read(XS).outputs))
    kept = np.asarray(noisy(jr.split(KEY, 200)) / plain)
    for ratio in kept:
        assert (np.abs(ratio - 2) < 1e-9).sum() + (ratio == 0).sum() == ratio.size
        np.testing.assert_allclose(ratio, ratio[:1].repeat(len(ratio), 0), rtol=1e-9)
    np.testing.assert_allclose(np.mean(kept), 1.0, atol=4 / np.sqrt(200 * SIZE))  # four standard errors


def test_dropout_is_silent_unless_a_key_is_given():
    between = {"dropout": 0.4}
    model, data = rnn(hs.cells.GRU, hs.cells.GRU, **between), symbols(5)
    silent = hs.step_log_probs(model, data)
    np.testing.assert_array_equal(silent, hs.step_log_probs(rnn(hs.cells.GRU, hs.cells.GRU), data))
    noisy = eqx.filter_jit(lambda keys: masked_log_probs(model, arrays_for(model, data), hs.Auto(), keys=keys)[0])
    one, same, other = (noisy(jr.split(jr.key(seed), 2)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, silent) and not np.allclose(one, other)


def test_what_does_not_fit_is_named():
    cell = hs.cells.GRU(2, 3, key=KEY)
    for layers, options, said in (
        ([], {}, "at least one layer"),
        ([cell, "gru"], {}, "layer 1 is a str; it must be a cell"),
        ([cell, cell], {}, "layer 1 has input_size 2, but layer 0 shows 3 numbers"),
        ([cell, hs.cells.GRU(3, 4, key=KEY)], {"residual": True}, "layer 1 shows 4 numbers and layer 0 3"),
        ([cell], {"feedforward": -1, "key": KEY}, "feedforward is -1; it must be a whole number of at least 0"),
        ([cell], {"feedforward": 2}, "feedforward is 2, so the stack draws weights of its own; give it a key"),
        ([cell], {"dropout": 1.0}, r"dropout is 1\.0; it must be a number from 0 to less than 1"),
    ):
        with pytest.raises(hs.HiddenStateError, match=said):
            hs.Stack(layers, **options)
