"""Compiled streams against scoring the whole sequence by a scan, and what both kinds of streams have in common."""

import copy
import pickle

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hiddenstate as hs
from native.kernels import each_instruction_set, needs_kernels
from native.streams import PRECISIONS, STEPS, check, close, is_compiled

CELLS = {
    "vanilla": lambda i, h, key: hs.cells.Vanilla(i, h, key=key),
    "relu": lambda i, h, key: hs.cells.Vanilla(i, h, nonlinearity="relu", biases=2, key=key),
    "sigmoid": lambda i, h, key: hs.cells.Vanilla(i, h, nonlinearity="sigmoid", biases=0, signs=0.5, key=key),
    "leaky": lambda i, h, key: hs.cells.Leaky(i, h, key=key),
    "gru": lambda i, h, key: hs.cells.GRU(i, h, key=key),
    "gru-before": lambda i, h, key: hs.cells.GRU(i, h, reset="before", biases=2, key=key),
    "lstm": lambda i, h, key: hs.cells.LSTM(i, h, key=key),
    "peepholes": lambda i, h, key: hs.cells.LSTM(i, h, input="sigmoid", peepholes=True, biases=2, key=key),
    "mingru": lambda i, h, key: hs.cells.MinGRU(i, h, key=key),
    "log-mingru": lambda i, h, key: hs.cells.MinGRU(i, h, log_space=True, key=key),
    "minlstm": lambda i, h, key: hs.cells.MinLSTM(i, h, key=key),
    "log-minlstm": lambda i, h, key: hs.cells.MinLSTM(i, h, log_space=True, key=key),
    "linear": lambda i, h, key: hs.cells.DiagonalLinear(i, h, key=key),
    "turning": lambda i, h, key: hs.cells.DiagonalLinear(i, h, complex=True, key=key),
    "gated": lambda i, h, key: hs.cells.GatedLeaky(i, h, key=key),
    "gated by the state": lambda i, h, key: hs.cells.GatedLeaky(i, h, context="state", key=key),
    "skip": lambda i, h, key: hs.cells.SkipInTime(i, h, key=key),
    "skip by one": lambda i, h, key: hs.cells.SkipInTime(i, h, lags=(1,), nonlinearity="relu", key=key),
    "stack": lambda i, h, key: hs.Stack(
        [hs.cells.LSTM(i, h, key=key), hs.cells.DiagonalLinear(h, h + 1, complex=True, key=key),
         hs.cells.SkipInTime(2 * h + 2, h, lags=(3, 2), key=key), hs.cells.GRU(h, h, key=key)]
    ),
}  # fmt: skip

HEADS = {
    "symbols": lambda h, size, key: hs.heads.Categorical(h, size + 1, key=key),
    "bits": lambda h, size, key: hs.heads.Bernoulli(h, size, key=key),
    "bit": lambda h, size, key: hs.heads.Bernoulli(h, None, key=key),
    "numbers": lambda h, size, key: hs.heads.Gaussian(h, size, location=3.0, scale=2.0, key=key),
    "number": lambda h, size, key: hs.heads.Gaussian(h, None, dispersion="constant", location=-1.0, key=key),
    "counts": lambda h, size, key: hs.heads.Poisson(h, size, rate=4.0, spread=0.5, key=key),
    "count": lambda h, size, key: hs.heads.Poisson(h, None, rate=30.0, key=key),
}


def shaken(model, precision, seed):
    """The model with all of its arrays moved a little, so that no bias is zero."""
    random = np.random.default_rng(seed)
    moved = jax.tree.map(
        lambda a: a + 0.1 * random.normal(size=a.shape) if jnp.issubdtype(a.dtype, float) else a, model
    )
    return hs.cast(moved, precision)


def observations(random, kind, size, count=STEPS):
    shape = (count,) if kind in ("symbols", "bit", "number", "count") else (count, size)
    if kind == "symbols":
        return random.integers(0, size + 1, shape)
    if kind.startswith("bit"):
        return random.integers(0, 2, shape)
    return random.poisson(5.0, shape) if kind.startswith("count") else random.normal(2.0, 3.0, shape)


def network(cell, kind, units, size, inputs, precision, seed, embedding=None):
    keys = jr.split(jr.key(seed), 3)
    probe = HEADS[kind](1, size, keys[0])
    encoder = None if embedding is None else hs.Embedding(size + 1, embedding, key=keys[2])
    made = CELLS[cell]((probe if encoder is None else encoder).encoded_size + inputs, units, keys[1])
    head = HEADS[kind](made.output_size + inputs, size, keys[0])
    return shaken(hs.RNN(made, head, encoder=encoder, initial="learned", inputs=inputs), precision, seed)


def hidden_markov(kind, states, size, precision, seed):
    random = np.random.default_rng(seed)
    transition = random.dirichlet(np.ones(states), states)
    transition[0] = np.eye(states)[-1]
    shape = (states,) if kind in ("bit", "number", "count", "tied") else (states, size)
    if kind == "symbols":
        probs = random.dirichlet(np.ones(size + 1), states)
        probs[:, 0] = 0 if size > 1 else probs[:, 0]  # the first symbol is impossible
        emission = hs.emissions.Categorical(probs / probs.sum(1, keepdims=True))
    elif kind in ("bit", "bits"):
        probs = random.uniform(size=shape)
        probs.flat[0] = 1.0
        emission = hs.emissions.Bernoulli(probs)
    elif kind in ("count", "counts"):
        rates = 5 * random.gamma(2.0, size=shape)
        rates.flat[0] = 0.0
        emission = hs.emissions.Poisson(rates)
    elif kind == "tied":
        emission = hs.emissions.Gaussian(random.normal(2, 3, shape), np.array(4.0))
    elif kind == "spherical":
        emission = hs.emissions.Gaussian(random.normal(2, 3, shape), random.gamma(2, 2, states), covariance=kind)
    else:
        variances = random.gamma(2.0, 2.0, shape)
        emission = hs.emissions.Gaussian(random.normal(2, 3, shape), variances, covariance="diagonal")
    return hs.cast(hs.HMM(random.dirichlet(np.ones(states)), transition, emission), precision)


# -- against whole sequences ---------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("number", "cell"), list(enumerate(CELLS)))
def test_networks_stream_as_they_score(number, cell, precision):
    kind = list(HEADS)[number % len(HEADS)]
    inputs = 2 * (number % 2)
    model = network(cell, kind, 3 + 7 * (number % 3), 3, inputs, precision, number)
    random = np.random.default_rng(number)
    given = random.normal(size=(STEPS, 2)) if inputs else None
    assert is_compiled(model) == bool(hs.native.available())
    check(model, observations(random, kind, 3), given)


@needs_kernels
@settings(max_examples=10, deadline=None)
@given(
    cell=st.sampled_from(list(CELLS)),
    kind=st.sampled_from(list(HEADS)),
    units=st.sampled_from([1, 2, 16, 17, 33]),
    size=st.sampled_from([1, 18]),
    inputs=st.sampled_from([0, 1]),
    precision=st.sampled_from(PRECISIONS),
    seed=st.integers(0, 99),
)
def test_any_cell_with_any_head(cell, kind, units, size, inputs, precision, seed):
    model = network(cell, kind, units, size, inputs, precision, seed)
    random = np.random.default_rng(seed)
    check(model, observations(random, kind, size, 50), random.normal(size=(50, 1)) if inputs else None)


@pytest.mark.parametrize("inputs", [0, 1])
def test_symbols_may_be_embedded(inputs):
    model = network("lstm", "symbols", 5, 4, inputs, "float64", 3, embedding=3)
    random = np.random.default_rng(0)
    check(model, observations(random, "symbols", 4, 50), random.normal(size=(50, 1)) if inputs else None)


EMISSIONS = ("symbols", "bit", "bits", "number", "numbers", "count", "counts", "tied", "spherical")


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", EMISSIONS)
def test_hidden_markov_models_stream_as_they_score(kind, precision):
    model = hidden_markov(kind, 5, 3, precision, 0)
    assert is_compiled(model) == bool(hs.native.available())
    kind = {"tied": "number", "spherical": "numbers"}.get(kind, kind)
    check(model, observations(np.random.default_rng(0), kind, 3))


@needs_kernels
@settings(max_examples=10, deadline=None)
@given(
    kind=st.sampled_from(EMISSIONS[:7]),
    states=st.sampled_from([1, 2, 16, 35]),
    size=st.sampled_from([1, 6]),
    precision=st.sampled_from(PRECISIONS),
    seed=st.integers(0, 99),
)
def test_any_number_of_states(kind, states, size, precision, seed):
    check(hidden_markov(kind, states, size, precision, seed), observations(np.random.default_rng(seed), kind, size, 50))


def switching(kind, states, size, precision, *, between=False, probs=None):
    """A state that is kept or drawn afresh, some of them never, with the emissions of a hidden Markov model."""
    random = np.random.default_rng(states)
    prior = random.dirichlet(np.ones(states))
    if states > 2:
        prior = np.append(0.0, prior[1:] / prior[1:].sum())
    moves = hidden_markov(kind, states, size, "float64", 7).transition.probs if between else None
    emission = hidden_markov(kind, states, size, precision, 3).emission
    return hs.cast(hs.SwitchCopy(0.2 if probs is None else probs, prior, emission, between=moves), precision)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize(("kind", "states"), [("bits", 5), ("numbers", 17), ("symbols", 256), ("count", 1)])
def test_states_that_are_kept_or_drawn_stream_as_they_score(kind, states, between, precision):
    model = switching(kind, states, 3, precision, between=between)
    assert is_compiled(model) == bool(hs.native.available())
    check(model, observations(np.random.default_rng(0), kind, 3))


@pytest.mark.parametrize("reset", [0.0, 1.0])
def test_a_switch_may_never_fire_or_always(reset):
    check(switching("numbers", 4, 3, "float32", probs=reset), observations(np.random.default_rng(0), "numbers", 3))


def test_emissions_that_see_resets_stream_by_the_plain_path():
    emission = hidden_markov("numbers", 6, 2, "float64", 0).emission
    model, xs = hs.SwitchCopy(0.3, [0.2, 0.3, 0.5], emission), observations(np.random.default_rng(0), "numbers", 2, 20)
    assert not is_compiled(model)
    check(model, xs)


def test_models_of_other_shapes_do_not_change_what_a_stream_predicts():
    """A single count and a vector of one differ in their shapes alone."""
    count, counts = (hs.Stream(hidden_markov(kind, 1, 1, "float32", 1)) for kind in ("count", "counts"))
    for stream, event in ((count, ()), (counts, (1,)), (count, ())):
        stream.push(np.full(event, 3))
        assert stream.predictive().event_shape == event
        assert np.shape(stream.predictive().log_prob(np.full(event, 2))) == ()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", EMISSIONS[:7])
@pytest.mark.parametrize("made", ["hidden_markov", "switching"])
def test_missing_entries_are_summed_out(made, kind, precision):
    model = switching(kind, 4, 3, precision) if made == "switching" else hidden_markov(kind, 4, 3, precision, 1)
    random = np.random.default_rng(1)
    xs = observations(random, kind, 3, 40)
    gone = random.uniform(size=xs.shape) < 0.4
    data = hs.Sequences.padded(xs[None], missing=gone[None])
    expected = hs.step_log_probs(model, data, strategy=hs.Sequential())[0]
    stream = hs.Stream(model)
    for x, out, due in zip(xs, gone, expected, strict=True):
        stream.push(None if out.all() else np.where(out, np.nan, x) if out.any() else x)
        close(stream.last_log_prob, due, precision)


def test_an_impossible_observation_leaves_the_belief():
    model = hs.HMM([0.5, 0.5], np.eye(2), hs.emissions.Categorical([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]))
    stream = hs.Stream(model)
    stream.push(2)
    assert stream.last_log_prob == -np.inf and stream.log_prob == -np.inf
    np.testing.assert_allclose(stream.state, [0.5, 0.5], rtol=1e-6)
    stream.push(1)
    np.testing.assert_allclose(stream.last_log_prob, np.log(0.25), rtol=1e-6)
    np.testing.assert_array_equal(stream.state, [1.0, 0.0])


def test_improbable_is_not_impossible():
    """Beliefs and likelihoods far below the smallest float32 are weighed against each other by their logarithms."""
    model = hs.cast(hs.HMM([1.0 - 1e-30, 1e-30], np.eye(2), hs.emissions.Gaussian([0.0, 40.0], [1.0, 1.0])), "float32")
    stream = hs.Stream(model)
    for _ in range(3):
        stream.push(30.0)
    close(stream.log_prob, hs.log_prob(model, [30.0, 30.0, 30.0])[0], "float32")
    assert np.isfinite(stream.log_prob) and stream.state[1] == 1


@needs_kernels
@each_instruction_set
@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_instruction_set_gives_the_same_to_rounding(instructions, precision):
    for model, kind in (
        (network("lstm", "symbols", 19, 20, 0, precision, 0), "symbols"),
        (network("log-minlstm", "numbers", 19, 20, 0, precision, 0), "numbers"),
        (network("gated by the state", "numbers", 19, 20, 0, precision, 0), "numbers"),
        (network("skip", "numbers", 19, 20, 0, precision, 0), "numbers"),
        (hidden_markov("counts", 19, 3, precision, 0), "counts"),
        (switching("counts", 19, 3, precision), "counts"),
    ):
        with hs.native.limited(instructions=instructions):
            check(model, observations(np.random.default_rng(2), kind, 3 if kind == "counts" else 20, 30))


# -- several streams -----------------------------------------------------------------------------------------

SEVERAL = {
    "lstm": lambda: (network("lstm", "symbols", 7, 4, 0, "float32", 5), "symbols", 4),
    "gru": lambda: (network("gru-before", "numbers", 7, 4, 0, "float64", 5), "numbers", 4),
    "skip": lambda: (network("skip", "numbers", 7, 4, 0, "float32", 5), "numbers", 4),
    "hmm": lambda: (hidden_markov("counts", 5, 2, "float32", 5), "counts", 2),
    "switch": lambda: (switching("counts", 5, 2, "float64"), "counts", 2),
    "kalman": lambda: (linear_gaussian("float32"), "number", 1),
    "other": lambda: (linear_gaussian("float64", diffuse=True), "number", 1),
}


def linear_gaussian(precision, **rest):
    """Two hidden numbers seen through one."""
    parts = {"transition": [[0.9, 0.2], [0.0, 0.7]], "transition_noise": [0.5, 0.3], "emission": [1.0, -0.5]}
    return hs.cast(hs.LinearGaussian(**parts, emission_noise=0.4, **rest), precision)


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("streams", [1, 6])
def test_streams_side_by_side_are_streams_alone(name, streams, tmp_path):
    model, kind, size = SEVERAL[name]()
    random = np.random.default_rng(0)
    xs = observations(random, kind, size, 20 * streams).reshape(
        20, streams, *([size] if kind.endswith("rs") or kind == "counts" else [])
    )
    together, alone = hs.Stream(model, streams=streams), [hs.Stream(model) for _ in range(streams)]
    for t, row in enumerate(xs):
        if t == 10:
            together.save(tmp_path / "streams")
            together = hs.Stream.restore(model, tmp_path / "streams")
        following = together.push(row)
        each = [stream.push(x) for stream, x in zip(alone, row, strict=True)]
        assert together.last_log_prob.shape == (streams,)
        compiled = is_compiled(model)
        expected = np.array([stream.last_log_prob for stream in alone])
        if compiled:  # a stream's numbers do not depend on what runs beside it, bit for bit
            np.testing.assert_array_equal(together.last_log_prob, expected)
        np.testing.assert_allclose(together.last_log_prob, expected, rtol=1e-4)
    np.testing.assert_allclose(together.log_prob, [stream.log_prob for stream in alone], rtol=1e-4)
    assert following.batch_shape == (streams,) and following.event_shape == each[0].event_shape
    found = following.log_prob(jnp.asarray(xs[0]))
    np.testing.assert_allclose(found, [d.log_prob(jnp.asarray(x)) for d, x in zip(each, xs[0], strict=True)], rtol=1e-3)
    assert together.predictive().batch_shape == (streams,)
    assert together.steps == 20 and together.streams == streams
    for a, *b in zip(*(jax.tree.leaves(s.state) for s in (together, *alone)), strict=True):
        np.testing.assert_allclose(a, np.stack(b), rtol=1e-3, atol=1e-5)


def test_several_streams_say_which_observation_is_wrong():
    model = hidden_markov("symbols", 3, 2, "float64", 0)
    stream = hs.Stream(model, streams=3)
    for bad, said in (
        ([0, 7, 1], "the observation of stream 1 is 7; it must be whole numbers from 0 to 2"),
        ([0, 1], r"the observations have shape \(2,\); 3 streams take \(3,\)"),
        (1, r"the observations have shape \(\); 3 streams take \(3,\)"),
        ([0.5, 1, 1], "symbols are due"),
    ):
        with pytest.raises(hs.DataError, match=said):
            stream.push(bad)
    assert stream.steps == 0
    stream.push([1, None, 2])
    stream.push(np.array([1.0, 2.0, np.nan]))
    stream.push(None)
    alone = hs.Stream(model)
    for x in (None, 2, None):
        alone.push(x)
    np.testing.assert_allclose(stream.log_prob[1], alone.log_prob, rtol=1e-12)
    with pytest.raises(hs.HiddenStateError, match="streams is 0"):
        hs.Stream(model, streams=0)
    network_ = network("lstm", "symbols", 3, 2, 1, "float64", 0)
    with pytest.raises(hs.DataError, match=r"the input has shape \(1,\); it must be \(3, 1\)"):
        hs.Stream(network_, streams=3).push([0, 1, 2], np.zeros(1))


# -- what goes in and what comes out -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", HEADS)
def test_an_observation_may_be_written_in_many_ways(kind):
    model = network("gru", kind, 4, 2, 0, "float32", 0)
    vector = kind in ("bits", "numbers", "counts")
    ways = [[1, 0], (1, 0), np.array([1, 0]), np.array([1, 0], np.int8), np.array([1, 5, 0, 5])[::2], jnp.array([1, 0])]
    if not vector:
        ways = [1, True, np.int32(1), np.uint8(1), np.array(1), jnp.array(1), np.bool_(True)]
    if kind != "symbols":
        ways += [np.array(w, t) for w in ways[:1] for t in (np.float32, np.float64, np.float16, ">f8")]
    found = []
    for way in ways:
        stream = hs.Stream(model)
        stream.push(way)
        found.append(stream.log_prob)
    assert len(set(found)) == 1 and np.isfinite(found[0])


@pytest.mark.parametrize("family", ["network", "hmm"])
def test_what_is_no_count_is_refused(family):
    network_ = network("gru", "count", 4, 1, 0, "float32", 0)
    stream = hs.Stream(network_ if family == "network" else hidden_markov("count", 3, 1, "float32", 0))
    for bad in (-1, 0.5, np.inf, 1e60, [1], "a", b"1"):
        with pytest.raises(hs.DataError):
            stream.push(bad)
    assert stream.steps == 0 and stream.log_prob == 0
    stream.push(3e9)
    stream.push(3_000_000_000)
    assert np.isfinite(stream.log_prob) and stream.log_prob < -1e9


def test_a_prediction_is_made_when_it_is_touched_and_then_is_that_distribution():
    model = network("lstm", "symbols", 4, 2, 0, "float64", 0)
    fresh = lambda: hs.Stream(model).push(1)  # noqa: E731
    stream = hs.Stream(model)
    stream.push(1)
    due = stream.predictive()
    assert isinstance(fresh(), dist.Distribution) and isinstance(fresh(), dist.CategoricalLogits)
    assert not isinstance(fresh(), dist.Normal)
    d = fresh()
    np.testing.assert_array_equal(d.probs, due.probs)
    assert type(d) is dist.CategoricalLogits and (d.batch_shape, d.event_shape) == ((), ())
    for same in (
        jax.tree.map(lambda a: a, fresh()),
        jax.jit(lambda d: d)(fresh()),
        copy.copy(fresh()),
        copy.deepcopy(fresh()),
        pickle.loads(pickle.dumps(fresh())),
        fresh().expand((2,)),
    ):
        np.testing.assert_array_equal(np.asarray(same.log_prob(0)).ravel()[0], due.log_prob(0))
    assert "CategoricalLogits" in repr(fresh())
    assert fresh().sample(jr.key(0)).shape == ()
    assert fresh()(rng_key=jr.key(0)).shape == ()
    normal = hs.Stream(network("gru", "number", 4, 1, 0, "float64", 0)).push(0.5)
    assert dist.kl_divergence(normal, dist.Normal(0.0, 1.0)) > 0  # which is chosen by the type


def test_a_prediction_stays_that_of_its_step():
    model = hidden_markov("number", 3, 1, "float64", 0)
    stream, other = hs.Stream(model), hs.Stream(model)
    early = stream.push(1.0)
    stream.push(8.0)
    other.push(1.0)
    assert early.mean == other.predictive().mean


def test_a_state_can_be_set():
    model = network("stack", "numbers", 3, 2, 0, "float32", 0)
    stream, other = hs.Stream(model), hs.Stream(model)
    for _ in range(3):
        stream.push([1.0, 2.0])
    other.state = stream.state
    other.push([0.5, 0.5])
    stream.push([0.5, 0.5])
    assert other.last_log_prob == stream.last_log_prob


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda stream: pickle.loads(pickle.dumps(stream))])
def test_a_copy_goes_its_own_way(copied):
    stream = hs.Stream(hidden_markov("number", 3, 1, "float64", 0))
    stream.push(1.0)
    other = copied(stream)
    other.push(9.0)
    assert (stream.steps, other.steps) == (1, 2)
    stream.push(9.0)
    assert (stream.log_prob, stream.last_log_prob) == (other.log_prob, other.last_log_prob)


def test_a_subclass_that_computes_otherwise_streams_as_it_does():
    class Doubled(hs.cells.GRU):
        def step(self, state, element):
            return super().step(state, 2 * element)

    cell = Doubled(3, 4, key=jr.key(0))
    model = hs.RNN(cell, hs.heads.Categorical(4, 3, key=jr.key(1)))
    assert not is_compiled(model)
    stream = hs.Stream(model)
    for x in (0, 2, 1):
        stream.push(x)
    np.testing.assert_allclose(stream.log_prob, hs.log_prob(model, [0, 2, 1])[0], rtol=1e-5)
