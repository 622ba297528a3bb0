"""The laws of models that answer, p(y | x), and small cases of each; a new one joins `CASES` here.

The oracle is a plain Python loop in float64, from the first step to the last and back: it knows no batch, no padding
and no strategy.
"""

import math
import tempfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import PairArrays, has, partition
from hiddenstate.inference import arrays_for, masked_log_probs
from hiddenstate.networks.pooling import AttentionPooling, LastPooling
from laws.cases.parts import HEADS, perturbed
from laws.laws import by_kernels, close, tolerance, trees_close

LENGTHS = 3, 1, 2
HIDDEN = 3


# -- the oracle ------------------------------------------------------------------------------------------------


def shown(body, xs: list) -> tuple[list, jax.Array]:
    """What a body shows at every step of one sequence, and at its end (both ends, where it reads from both)."""
    if isinstance(body, hs.Bidirectional):
        forward, last = shown(body.forward, xs)
        backward, first = shown(body.backward, xs[::-1])
        both = [jnp.concatenate(pair) for pair in zip(forward, backward[::-1], strict=True)]
        return both, jnp.concatenate([last, first])
    if isinstance(body, hs.Stack):
        outputs, last = fed(body, 0, *shown(body.cells[0], xs))
        for number, layer in enumerate(body.cells[1:]):
            above, end = shown(layer, [entered(body, number, h) for h in outputs])
            if body.residual:
                above, end = [a + b for a, b in zip(above, outputs, strict=True)], end + last
            outputs, last = fed(body, number + 1, above, end)
        return outputs, last
    state, outputs = body.initial(), []
    for x in xs:
        state = body.step(state, body.prepare(x))
        outputs.append(body.output(state))
    return outputs, outputs[-1]


def fed(stack, number: int, outputs: list, last):
    """What a layer shows, with what the feed-forward part behind it adds."""
    if stack.feeds is None:
        return outputs, last
    feed = stack.feeds[number]

    def through(vector):
        inside = feed.into_weight @ apart(feed.norm, vector) + feed.into_bias
        bent = inside * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (inside + 0.044715 * inside**3))) / 2
        return vector + feed.out_weight @ bent + feed.out_bias

    return [through(vector) for vector in outputs], through(last)


def apart(norm, vector):
    spread = jnp.sqrt(jnp.mean((vector - vector.mean()) ** 2) + norm.eps)
    return norm.weight * (vector - vector.mean()) / spread + norm.bias


def entered(stack, number: int, vector):
    """What the next layer reads: normalised, made a distribution, where the stack says so."""
    if stack.norms is not None:
        vector = apart(stack.norms[number], vector)
    if stack.softmax:
        vector = jnp.exp(vector) / jnp.exp(vector).sum()
    return vector


def pooled(pooling, outputs: list, last):
    if isinstance(pooling, LastPooling):
        return last
    weights = [1.0 for _ in outputs]
    if isinstance(pooling, AttentionPooling):
        weights = [jnp.exp(pooling.query @ h) for h in outputs]
    return sum(w * h for w, h in zip(weights, outputs, strict=True)) / sum(weights)


def loop(model, xs, us, ys):
    """The log-probability of every step of one target."""
    vectors = []
    for t, x in enumerate(xs):
        vector = jnp.ravel(x) if model.reader is None else model.reader.encode(x)
        vectors.append(vector if us is None else jnp.concatenate([vector, us[t]]))
    outputs, last = shown(model.body, vectors)
    if isinstance(model, hs.Summary):
        outputs = [pooled(model.pooling, outputs, last)]
    return jnp.stack([model.head(h).log_prob(y) for h, y in zip(outputs, ys, strict=True)])


def translated(model, xs, us, ys):
    """The same of an encoder-decoder: the stop symbol's is part of the last step's, and cannot be the first."""
    vectors = [jnp.ravel(x) if model.reader is None else model.reader.encode(x) for x in xs]
    _, context = shown(
        model.encoder, vectors if us is None else [jnp.concatenate(p) for p in zip(vectors, us, strict=True)]
    )
    decoder, state, u = model.decoder, model.decoder.initial(), None if model.context == "state" else context
    if model.first_state is not None:
        flat, parts = jnp.tanh(model.first_state.weight @ context + model.first_state.bias), []
        leaves, tree = jax.tree.flatten(state)
        for leaf in leaves:
            parts.append(flat[: leaf.size].reshape(leaf.shape))
            flat = flat[leaf.size :]
        state = jax.tree.unflatten(tree, parts)
    out = []
    for number, y in enumerate([*ys, model.stop_symbol] if model.stop else ys):
        log_prob = decoder.readout(state, u).log_prob(jnp.asarray(y))
        if number == 0 and model.stop:
            log_prob = log_prob - jnp.log1p(-jnp.exp(decoder.readout(state, u).log_prob(model.stop_symbol)))
        out.append(log_prob)
        state = decoder.step(state, decoder.prepare(jnp.asarray(y), u))
    return jnp.stack([*out[:-2], out[-2] + out[-1]] if model.stop else out)


# -- the cases -------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """`make` gives the model of a key; `grid` are all values of a target's step and what each counts in a sum."""

    recipe: str
    make: Callable
    pairs: hs.Pairs
    grid: tuple
    oracle: Callable = loop
    precision: str = "float64"


CELLS = {"gru": hs.cells.GRU, "lstm": hs.cells.LSTM, "mingru": hs.cells.MinGRU}


def layer(name: str, width: int, key):
    """A cell by its name, with "both" behind it for both directions."""
    name, *both = name.split()
    cells = [CELLS[name](width, HIDDEN, key=k) for k in jr.split(key)]
    return hs.Bidirectional(*cells) if both else cells[0]


def network(body: str, head: str, source: str, pooling: str | None = None, inputs: int = 0, **between):
    """A model that answers; `body` are its layers, with " over " between them from the last to the first."""

    def make(key):
        reader = {
            "symbols": lambda: hs.heads.Categorical(1, 3, key=key),
            "embedded": lambda: hs.Embedding(3, 2, key=key),
            "vectors": lambda: None,
        }[source]()
        layers, width = [], (2 if reader is None else reader.encoded_size) + inputs
        for name in body.split(" over ")[::-1]:
            layers.append(layer(name, width, jr.fold_in(key, len(layers))))
            width = layers[-1].output_size
        whole = layers[0] if len(layers) == 1 else hs.Stack(layers, **between, key=key)
        top, known = HEADS[head][0](whole.output_size, key), {"reader": reader, "inputs": inputs}
        if pooling is None:
            return perturbed(hs.Transducer(whole, top, **known), key)
        return perturbed(hs.Summary(whole, top, pooling=pooling, key=key, **known), key)

    return make


def sources(kind: str, inputs: int = 0) -> hs.Sequences:
    random = np.random.default_rng(3)
    known = [random.normal(size=(n, inputs)) for n in LENGTHS] if inputs else None
    if kind == "vectors":
        return hs.Sequences.of([random.normal(size=(n, 2)) for n in LENGTHS], inputs=known)
    return hs.Sequences.of([random.integers(0, 3, n) for n in LENGTHS], inputs=known)


def targets(head: str, single: bool) -> hs.Sequences:
    random = np.random.default_rng(4)
    lengths = (1, 1, 1) if single else LENGTHS
    if head == "categorical":
        return hs.Sequences.of([random.integers(0, 3, n) for n in lengths])
    return hs.Sequences.of([random.normal(size=n) for n in lengths])


CASES: dict[str, Case] = {}


def join(
    body: str, head: str, source: str, pooling: str | None = None, inputs: int = 0, precision="float64", **between
):
    pairs = hs.Pairs(sources(source, inputs), targets(head, pooling is not None))
    name = f"{'every step' if pooling is None else pooling} of {body}, {head}"
    make = network(body, head, source, pooling, inputs, **between)
    CASES[name] = Case(body.split()[0], make, pairs, HEADS[head][1], precision=precision)


join("gru", "categorical", "vectors", precision="float32")
join("mingru over mingru", "gaussian", "symbols", residual=True, norm=True, feedforward=2)
join("lstm both", "categorical", "embedded")
join("gru both over mingru both", "gaussian", "vectors", inputs=1)
join("lstm", "categorical", "symbols", "last", inputs=2)
join("mingru", "gaussian", "vectors", "mean")
join("lstm over gru", "categorical", "embedded", "attention", softmax=True)
join("mingru both", "gaussian", "symbols", "last", precision="float32")
join("gru both", "categorical", "vectors", "attention")
join("mingru both over lstm both", "gaussian", "vectors", "last", residual=True, feedforward=1)
for single in (True, False):
    pairs = hs.Pairs(sources("symbols"), targets("categorical", single))
    CASES[f"majority, {'one' if single else 'every step'}"] = Case(
        "majority",
        lambda key, p=pairs: perturbed(hs.build("majority", p, key=key), key),
        pairs,
        HEADS["categorical"][1],
    )


def encoder_decoder(body: str, cell: str, head: str, context: str, inputs: int = 0, precision: str = "float64"):
    """Targets of other lengths than their sources; symbols end by a stop symbol."""
    stop = head == "categorical"

    def make(key):
        encoder = layer(body, 3 + inputs, key)
        told = 0 if context == "state" else encoder.output_size
        width = (4 if stop else 1) + told
        top = (lambda n: hs.heads.Categorical(n, 4, key=key)) if stop else (lambda n: HEADS[head][0](n, key))
        decoder = hs.RNN(layer(cell, width, key), top(HIDDEN + told), inputs=told)
        reader = hs.heads.Categorical(1, 3, key=key)
        options = {"context": context, "stop": stop, "reader": reader, "inputs": inputs}
        return perturbed(hs.EncoderDecoder(encoder, decoder, key=key, **options), key)

    order = [1, 0, 2]  # a source of one step has a target of three
    pairs = hs.Pairs(sources("symbols", inputs), targets(head, False).select(np.array(order)))
    CASES[f"{context} of {body} for {cell}, {head}"] = Case(
        "encoder-decoder", make, pairs, HEADS[head][1], translated, precision
    )


encoder_decoder("gru", "lstm", "categorical", "both", inputs=1)
encoder_decoder("mingru both", "mingru", "gaussian", "state", precision="float32")
encoder_decoder("lstm both", "gru", "categorical", "input")


# -- the laws --------------------------------------------------------------------------------------------------


def strategies(model) -> list:
    cells = [n for n in jax.tree.leaves(model, is_leaf=_is_cell) if _is_cell(n)]
    kernels = [hs.Native()] if all(by_kernels(cell) for cell in cells) else []
    return [hs.Sequential(), *([hs.Associative()] if all(has(cell, "combine") for cell in cells) else []), *kernels]


def _is_cell(node) -> bool:
    return isinstance(node, hs.cells.Cell) and not has(node, "layers")


def both(model, many: list[PairArrays], strategy) -> list:
    """Log-probabilities of all steps of the targets, and the gradient of their sum, by one program for each of many."""
    learned, rest = partition(model)

    @jax.jit
    def run(learned, arrays):
        def total(learned):
            out = masked_log_probs(eqx.combine(learned, rest), arrays, strategy)[0]
            return out.sum(), out

        (_, values), slopes = jax.value_and_grad(total, has_aux=True)(learned)
        return values, slopes

    return [run(learned, jax.tree.map(jnp.asarray, arrays)) for arrays in many]


def known(model, case: Case):
    """The oracle's log-probabilities of every pair, and the gradient of their sum, in float64."""
    exact = hs.cast(model, jnp.float64)
    learned, rest = partition(exact)
    arrays = arrays_for(exact, case.pairs)

    @jax.jit
    def run(learned):
        def total(learned):
            model, out = eqx.combine(learned, rest), []
            for i, (length, answered) in enumerate(
                zip(case.pairs.sources.lengths, case.pairs.targets.lengths, strict=True)
            ):
                us = None if arrays.source.inputs is None else arrays.source.inputs[i, :length]
                xs, ys = arrays.source.values[i, :length], arrays.target.values[i, :answered]
                out.append(case.oracle(model, list(jnp.asarray(xs)), us, list(jnp.asarray(ys))))
            return sum(o.sum() for o in out), out

        return jax.value_and_grad(total, has_aux=True)(learned)

    (_, values), slopes = run(learned)
    return values, slopes


def filled_up(arrays: PairArrays, pairs: hs.Pairs, garbage: bool) -> PairArrays:
    """The same pairs and an empty one, with zeros behind each end or with something else there."""

    def fill(part, sequences):
        lengths = np.array([*sequences.lengths, 0], np.int32)

        def full(array):
            if array is None:
                return None
            array = np.concatenate([array, array[:1]])
            for row, length in zip(array, lengths, strict=True):
                row[length:] = array[0, :1] if garbage else 0
            return array

        return part._replace(values=full(part.values), inputs=full(part.inputs), lengths=lengths)

    return PairArrays(fill(arrays.source, pairs.sources), fill(arrays.target, pairs.targets))


def padding_is_invisible(model, case: Case):
    """Every strategy gives, for pairs of different lengths side by side, what the loop gives for each alone.

    In value and in gradient; an empty pair adds nothing, and what stands behind the ends changes no bit of either.
    """
    expected, slopes = known(model, case)
    arrays = arrays_for(model, case.pairs)
    inputs = [filled_up(arrays, case.pairs, garbage) for garbage in (False, True)]
    for strategy in strategies(model):
        clean, spoiled = both(model, inputs, strategy)
        values, found = clean
        for row, alone in zip(values, [*expected, np.zeros(0)], strict=True):
            close(row[: len(alone)], alone, model)
            assert not row[len(alone) :].any()
        trees_close(found, slopes, model, scale=10)
        jax.tree.map(np.testing.assert_array_equal, spoiled, clean)


def normalised(model, case: Case):
    """The probabilities of all targets of one source sum to 1; continuous: the integral over a grid is 1."""
    if model.target_length == "any":
        return
    values, weights = (np.asarray(a) for a in case.grid)
    whole = model.target_length == "one"
    row = 0 if whole or len(values) <= 4 else 1  # as many answers as steps: all of four, or one of a fine grid
    steps = 1 if whole else int(case.pairs.sources.lengths[row])
    index = np.array(list(product(range(len(values)), repeat=steps)))
    many = case.pairs.sources.select(np.full(len(index), row))
    mass = np.exp(np.asarray(hs.log_prob(model, hs.Pairs.of(many, hs.Sequences.padded(values[index]))), np.float64))
    quadrature = 0 if np.all(weights == 1) else 1e-3
    total = (mass * weights[index].prod(1)).sum()
    np.testing.assert_allclose(total, 1.0, atol=max(1e-6, 10 * tolerance(model), quadrature))


def missing_targets_do_not_count(model, case: Case):
    """A target that is missing adds nothing, whatever the others are."""
    gaps = np.zeros(case.pairs.targets.shape[:2], bool)
    gaps[0, 0] = True
    gappy = hs.Sequences.padded(case.pairs.targets.values, case.pairs.targets.lengths, missing=gaps)
    if has(model, "decoder_start"):
        with pytest.raises(hs.MissingDataError, match="needs every one of them"):
            hs.log_prob(model, hs.Pairs(case.pairs.sources, gappy))
        return
    found = hs.step_log_probs(model, hs.Pairs(case.pairs.sources, gappy))
    expected = np.where(gaps, 0.0, hs.step_log_probs(model, case.pairs))
    close(found, expected, model)


def saving_changes_nothing(model, case: Case):
    """Save then load gives bit-identical answers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        hs.save(model, path)
        again = hs.load(path)
    assert eqx.tree_equal(model, again)
    np.testing.assert_array_equal(hs.step_log_probs(model, case.pairs), hs.step_log_probs(again, case.pairs))


def streaming_equals_batch(model, case: Case):
    """Pushing one step at a time gives the answer to what was read so far, also after a save and a restore."""
    if not has(model, "answer"):
        with pytest.raises(hs.HiddenStateError, match=r"hs\.(predictive|generate) on whole sequences"):
            hs.Stream(model)
        return
    source = case.pairs.sources[:1]
    beginnings = source.select(np.zeros(source.length, int)).window(0, np.arange(source.length) + 1)
    y = jnp.asarray(case.pairs.targets[0][0])
    batch = hs.predictive(model, beginnings).log_prob(y)
    expected = batch if model.target_length == "one" else jnp.diagonal(batch)
    stream = hs.Stream(model)
    for t in range(source.length):
        if t == 2:
            with tempfile.TemporaryDirectory() as folder:
                stream.save(Path(folder) / "stream")
                stream = hs.Stream.restore(model, Path(folder) / "stream")
        answer = stream.push(source.values[0, t], None if source.inputs is None else source.inputs[0, t])
        close(answer.log_prob(y), expected[t], model)
    close(stream.predictive().log_prob(y), expected[-1], model)
    assert stream.steps == source.length
