"""The laws that every model obeys, as functions of a model and the kind of its observations.

Each raises AssertionError where a model breaks it. The oracle is a plain Python loop in float64 over the three methods
of the contract; everything else in the library is compared with it.

Nearly all of the time goes into compiling, so a model is sampled once and most laws take sequences of the same shape:
one sequence of `LENGTH` steps. Strategies are named for the same reason: that the default chooses one of them, two laws
say (the first, and that of missing observations).
"""

import itertools
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import Arrays, cast, dtype_of, has, partition
from hiddenstate.inference import fingerprint, masked_log_probs
from hiddenstate.strategies import Unrolled


def tolerance(model) -> float:
    """Relative to one: rounding of a few dozen operations in the model's precision."""
    return 1e-10 if dtype_of(model) == np.float64 else 2e-4


def strategies(model) -> list:
    """Every way in which the model can be run, without those that only choose among others."""
    found = [hs.Sequential()]
    for strategy, capability in ((hs.Associative(), "combine"), (hs.Independent(), "state_after")):
        if all(has(part, capability) for part in (model.layers() if has(model, "layers") else (model,))):
            found.append(strategy)
    return found + by_kernels(model)


def by_kernels(model) -> list:
    """The strategy of compiled kernels, where they can run the model."""
    try:
        hs.Native().check(model)
    except hs.StrategyError:
        return []
    return [hs.Native()]


LENGTH = 4
DRAWS = 4000
SEEDS = 200


class Limits(NamedTuple):
    """What a model cannot do by its nature, and where a law therefore says less of it."""

    exact: bool = True
    """Whether a missing observation is summed out exactly, not only in expectation or approximately."""
    past: tuple = ()
    """First observations of every sequence, of a model that is diffuse until it has seen them: before, it has no
    proper distribution to draw from or to integrate, and its read-out does not score them."""
    estimate: bool = False
    """Whether its log-probabilities are of estimates by draws that know x_t, which its read-outs do not. Then the
    read-outs are normalised, and the estimates on average over seeds."""


FREE = Limits()


def inputs_of(model, length: int, seed: int = 0):
    """The inputs of the first steps, where the model takes some."""
    if not model.inputs:
        return None
    return np.random.default_rng(seed).normal(size=(LENGTH, model.inputs))[:length]


def given(model, values, *, seed: int = 0, **rest) -> hs.Sequences:
    """Sequences of these values, all with the same inputs where the model takes some."""
    us = inputs_of(model, np.shape(values)[1], seed)
    known = None if us is None else np.broadcast_to(us, (len(values), *us.shape))
    return hs.Sequences.padded(values, inputs=known, schema=model.schema, **rest)


def draw(model, seed: int, length: int = LENGTH, n: int = 1, past: tuple = ()) -> hs.Sequences:
    """`n` sequences of the model, that begin with `past`; others for another seed."""
    mark = fingerprint(model)
    if mark not in _drawn:
        _drawn[mark] = _draws(model, past)
    return given(model, _drawn[mark][seed : seed + n, :length])


def _draws(model, past: tuple) -> np.ndarray:
    us, begun = inputs_of(model, LENGTH), len(past)
    if not begun:
        return hs.sample(model, LENGTH, key=jr.key(6), n=DRAWS, inputs=us).values
    us = None if us is None else us[begun:]
    before = np.array([past], dtype_of(model))
    drawn = hs.forecast(model, given(model, before), LENGTH - begun, key=jr.key(6), n=DRAWS, inputs=us).samples[0]
    return np.concatenate([np.repeat(before, DRAWS, 0), drawn], 1)


_drawn: dict = {}


def oracle(model, compiled, limits: Limits):
    """Log-probability of each step of a sequence, by the contract's methods alone, as a function of learned numbers.

    The loop is Python's; `compiled` is put around what is done at one step. Steps that the read-out does not score are
    scored by `evidence`.
    """
    rest = partition(model)[1]

    @compiled
    def begin(learned):
        return eqx.combine(learned, rest).initial()

    def by_readout(learned, state, x, u):
        model = eqx.combine(learned, rest)
        return model.readout(state, u).log_prob(x), model.step(state, model.prepare(x, u))

    def by_evidence(learned, state, x, u):
        model = eqx.combine(learned, rest)
        element = model.prepare(x, u)
        return model.evidence(state, element), model.step(state, element)

    advance, advance_improper = compiled(by_readout), compiled(by_evidence)

    def run(learned, xs, us):
        state, out = begin(learned), []
        for t, x in enumerate(xs):
            improper = limits.estimate or t < len(limits.past)
            u = None if us is None else us[t]
            value, state = (advance_improper if improper else advance)(learned, state, x, u)
            out.append(value)
        return out

    return run


class Known(NamedTuple):
    """Sequences of lengths `LENGTH` and 1, and what the oracle says of them in float64: the gradient of both.

    Each has inputs of its own, where there are any.
    """

    rows: list
    inputs: list | None
    log_probs: list
    gradient: Any


def known(model, limits: Limits = FREE) -> Known:
    """The oracle's values and gradients, computed once for a model in either precision."""
    exact = cast(model, jnp.float64)
    mark = fingerprint(exact)
    if mark not in _known:
        rows = [draw(model, n, length=n, past=limits.past)[0] for n in (LENGTH, 1)]
        inputs = [inputs_of(model, len(row), seed=len(row)) for row in rows] if model.inputs else None
        xs = [jnp.asarray(hs.Sequences.of([row], schema=model.schema).arrays(np.float64).values[0]) for row in rows]
        small = isinstance(exact, hs.RNN)  # all its steps are compiled as fast as one step alone
        run = oracle(exact, (lambda step: step) if small else jax.jit, limits)

        def everything(learned):
            values = [run(learned, x, None if inputs is None else inputs[i]) for i, x in enumerate(xs)]
            return sum(sum(v) for v in values), [jnp.stack(v) for v in values]

        gradient = jax.grad(everything, has_aux=True)
        slopes, values = (jax.jit(gradient) if small else gradient)(partition(exact)[0])
        _known[mark] = Known(rows, inputs, values, slopes)
    return _known[mark]


_known: dict = {}


def both(model, arrays: Arrays, strategy):
    """Log-probabilities of all steps and the gradient of their sum, in one program."""
    learned, rest = partition(model)

    @jax.jit
    def run(learned):
        def total(learned):
            out = masked_log_probs(eqx.combine(learned, rest), arrays, strategy)[0]
            return out.sum(), out

        return jax.value_and_grad(total, has_aux=True)(learned)

    (_, values), slopes = run(learned)
    return values, slopes


def close(a, b, model, scale: float = 1.0):
    a, b = np.asarray(a), np.asarray(b)
    bound = tolerance(model) * scale
    size = max(1.0, float(np.abs(b).max(initial=0.0)))
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=0, atol=bound * size)


def trees_close(a, b, model, scale: float = 1.0):
    jax.tree.map(lambda x, y: close(x, y, model, scale), a, b)


# -- 1 ---------------------------------------------------------------------------------------------------------


def normalised(model, grid, limits: Limits = FREE):
    """Over all sequences of a small alphabet the probabilities sum to 1; continuous: the integral over a grid is 1.

    `grid` is (values, weights): all values of one observation, and what each counts in the sum.
    """
    values, weights = grid
    length = 3 if len(values) <= 4 else 2 if len(values) <= 400 else 1
    index, data = every_sequence(model, values, length, limits.past)
    shares = np.asarray(weights)[index].prod(1)
    quadrature = 0 if np.all(np.asarray(weights) == 1) else 1e-3
    total = (masses(model, data, limits) * shares).sum()
    np.testing.assert_allclose(total, 1.0, atol=max(1e-6, 10 * tolerance(model), quadrature))
    if limits.estimate:
        totals = np.array(
            [np.exp(np.asarray(hs.log_prob(model.reseed(key), data))) @ shares for key in jr.split(jr.key(1), SEEDS)]
        )
        assert abs(totals.mean() - 1) < 5 * totals.std() / np.sqrt(SEEDS) + quadrature, totals


def every_sequence(model, values, length: int, past: tuple = ()):
    """All sequences of so many steps (after the past), as indices of the values and as data."""
    index = np.array(list(itertools.product(range(len(values)), repeat=length)))
    data = np.asarray(values)[index]
    if past:
        data = np.concatenate([np.repeat(np.array([past], data.dtype), len(data), 0), data], 1)
    return index, given(model, data).given(len(past))


def masses(model, data: hs.Sequences, limits: Limits = FREE):
    """Probabilities (or densities) of sequences: of an estimate by its read-outs."""
    if limits.estimate:
        each = hs.predictive(model, data).log_prob(data.arrays(dtype_of(model)).values)
        return np.exp(np.asarray(each, np.float64).sum(1))
    return np.exp(np.asarray(hs.log_prob(model, data), np.float64))


# -- 2 ---------------------------------------------------------------------------------------------------------


def same_answer(model, limits: Limits = FREE):
    """Every unroll strategy agrees with a plain Python loop in float64 (in gradient too: see the next law but one)."""
    expected = known(model, limits)
    inputs = None if expected.inputs is None else expected.inputs[:1]
    data = hs.Sequences.of(expected.rows[:1], inputs=inputs, schema=model.schema)
    for strategy in strategies(model):
        close(hs.step_log_probs(model, data, strategy=strategy)[0], expected.log_probs[0], model)


# -- 3 ---------------------------------------------------------------------------------------------------------


@eqx.filter_jit
def _density(distribution, x):
    return distribution.log_prob(x)


def streaming_equals_batch(model, limits: Limits = FREE):
    """Pushing one observation at a time gives, at every step, what the batch gives."""
    data = draw(model, seed=1, past=limits.past)
    steps = hs.step_log_probs(model, data, strategy=hs.Sequential())[0]
    us = [None] * LENGTH if data.inputs is None else list(data.inputs[0])
    stream, pushed = hs.Stream(model), None
    for t, (x, expected) in enumerate(zip(data[0], steps, strict=True)):
        if t >= len(limits.past) and not limits.estimate:
            for predicted in (stream.predictive(us[t]), *([] if pushed is None else [pushed])):
                close(_density(predicted, jnp.asarray(x)), expected, model)
        before = stream.log_prob
        pushed = stream.push(x, us[t], next_u=us[t + 1] if t + 1 < LENGTH else None)
        close(stream.log_prob - before, expected, model)
    close(stream.log_prob, steps.sum(), model)


def chunked_equals_whole(model, limits: Limits = FREE):
    """Carrying the state over a border changes nothing."""
    arrays = draw(model, seed=2, past=limits.past).arrays(dtype_of(model))
    xs, us = jnp.asarray(arrays.values[0]), None if arrays.inputs is None else jnp.asarray(arrays.inputs[0])
    half = LENGTH // 2
    for strategy in strategies(model):

        @eqx.filter_jit
        def run(model, xs, us, state, strategy=strategy):
            return hs.unroll(model, xs, strategy, us=us, state=state)

        def part(steps, state, run=run):
            return run(model, xs[steps], None if us is None else us[steps], state)

        start = model.initial()
        whole, first = part(slice(None), start), part(slice(half), start)
        second = part(slice(half, None), first.final)
        joined = Unrolled(jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first.states, second.states), second.final)
        trees_close(joined, whole, model)


# -- 4 ---------------------------------------------------------------------------------------------------------


def padding_is_invisible(model, limits: Limits = FREE):
    """Neither values nor gradients see what stands behind a sequence's end; lengths 1 and T both work.

    Values and gradients of every strategy, with padding, against the loop's without.
    """
    expected = known(model, limits)
    data = hs.Sequences.of(expected.rows, inputs=expected.inputs, schema=model.schema)
    arrays = data.arrays(dtype_of(model))
    garbage = [None if part is None else np.array(part) for part in (arrays.values, arrays.inputs)]
    for part in garbage:
        if part is not None:
            part[1, 1:] = part[0, 1:]
    for strategy in strategies(model):
        values, slopes = both(model, Arrays(garbage[0], arrays.lengths, garbage[1]), strategy)
        for row, alone in zip(values, expected.log_probs, strict=True):
            close(row[: len(alone)], alone, model)
            assert not row[len(alone) :].any()
        trees_close(slopes, expected.gradient, model, scale=10)


# -- 5 ---------------------------------------------------------------------------------------------------------


def combine_is_associative(model, limits: Limits = FREE):
    """(a b) c = a (b c), and one joined element does what its parts do one after the other."""
    if has(model, "layers"):
        return  # each layer has its own; that they run in parallel one after the other, other laws say
    if not has(model, "combine"):
        with pytest.raises(hs.StrategyError, match="Sequential"):
            hs.log_prob(model, draw(model, seed=3, past=limits.past), strategy=hs.Associative())
        return
    arrays = draw(model, seed=3, past=limits.past).arrays(dtype_of(model))
    us = [None] * LENGTH if arrays.inputs is None else list(jnp.asarray(arrays.inputs[0]))

    @eqx.filter_jit
    def sides(model, xs):
        first, a, b, c = (model.prepare(x, u) for x, u in zip(xs, us, strict=True))
        state = model.step(model.initial(), first)
        left = model.combine(model.combine(a, b), c), model.step(state, model.combine(a, b))
        return left, (model.combine(a, model.combine(b, c)), model.step(model.step(state, a), b))

    trees_close(*sides(model, jnp.asarray(arrays.values[0])), model)


# -- 6 ---------------------------------------------------------------------------------------------------------


def saving_changes_nothing(model, limits: Limits = FREE):
    """Save then load gives bit-identical predictions."""
    data = draw(model, seed=5, past=limits.past)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        hs.save(model, path)
        again = hs.load(path)
        assert eqx.tree_equal(model, again)
        hs.save(again, Path(folder) / "again.safetensors")
        assert path.read_bytes() == (Path(folder) / "again.safetensors").read_bytes()
    steps = [hs.step_log_probs(one, data, strategy=hs.Sequential()) for one in (model, again)]
    np.testing.assert_array_equal(*steps)


# -- 7 ---------------------------------------------------------------------------------------------------------


def samples_come_from_the_model(model, grid, limits: Limits = FREE):
    """Frequencies of sampled pairs match their probabilities; continuous: standardised residuals are standard."""
    values, weights = grid
    count = DRAWS
    samples = draw(model, seed=0, length=3, n=count, past=limits.past)
    if len(values) <= 4:
        index, data = every_sequence(model, values, 3)
        probability = masses(model, data, limits)
        seen = np.asarray(samples.values)
        for some, expected in zip(np.asarray(values)[index], probability, strict=True):
            hits = (seen == some).reshape(count, -1).all(1).mean()
            error = np.sqrt(expected * (1 - expected) / count)
            assert abs(hits - expected) < 5 * error + 1e-3, (some, hits, expected)
        return
    del weights
    predicted = hs.predictive(model, samples)
    observed = samples.arrays(np.float64).values
    residual = (observed - predicted.mean) / np.sqrt(predicted.variance)
    error = 5 / np.sqrt(count)
    spread = np.asarray(residual).reshape(count, 3, -1)[:, len(limits.past) :]
    np.testing.assert_allclose(spread.mean(0), 0, atol=error)
    np.testing.assert_allclose((spread**2).mean(0), 1, atol=error * np.sqrt((spread**4).mean(0).max()))
    np.testing.assert_allclose((spread[:, 1:] * spread[:, :-1]).mean(0), 0, atol=error * 1.5)


# -- 8 ---------------------------------------------------------------------------------------------------------


def missing_is_marginalised_or_refused(model, grid, limits: Limits = FREE):
    """A model that cannot marginalise a missing observation says so, and says where it is.

    One that can gives the sum over all values that might have stood there, and a missing end is no observation at all.
    A stream does the same step by step.
    """
    data = draw(model, seed=8, past=limits.past)
    gaps = np.zeros(data.shape[:2], bool)
    gaps[0, 2] = True
    with_gap = given(model, data.values, missing=gaps)
    if not has(model, "prepare_partial"):
        for function in (hs.log_prob, hs.predictive, hs.states):
            with pytest.raises(hs.MissingDataError, match="sequence 0 has a missing value at step 3"):
                function(model, with_gap)
        return
    without_end = given(model, data.values, missing=np.arange(4)[None] == 3)
    steps = hs.step_log_probs(model, data, strategy=hs.Sequential())[0]
    for strategy in strategies(model):
        close(hs.step_log_probs(model, without_end, strategy=strategy)[0], steps.at[3].set(0.0), model)
    stream = hs.Stream(model)
    us = [None] * LENGTH if data.inputs is None else data.inputs[0]
    for x, gone, u in zip(data[0], gaps[0], us, strict=True):
        stream.push(None if gone else x, u)
    close(stream.log_prob, hs.step_log_probs(model, with_gap, strategy=hs.Sequential())[0].sum(), model)
    if not limits.exact:
        return
    values, weights = grid
    filled = np.repeat(data.values, len(values), axis=0)
    filled[:, 2] = values
    every = np.asarray(hs.log_prob(model, given(model, filled)), np.float64)
    expected = np.log((np.exp(every - every.max()) * weights).sum()) + every.max()
    quadrature = 0 if np.all(np.asarray(weights) == 1) else 1e-3
    for strategy in strategies(model):
        found = float(hs.step_log_probs(model, with_gap, strategy=strategy)[0].sum())
        assert abs(found - expected) < 10 * tolerance(model) * max(1, abs(expected)) + quadrature


def all_laws(model, grid):
    """Every law, for one model."""
    normalised(model, grid)
    same_answer(model)
    streaming_equals_batch(model)
    chunked_equals_whole(model)
    padding_is_invisible(model)
    combine_is_associative(model)
    saving_changes_nothing(model)
    samples_come_from_the_model(model, grid)
    missing_is_marginalised_or_refused(model, grid)
