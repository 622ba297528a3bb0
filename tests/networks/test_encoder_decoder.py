"""Encoder-decoders: their probabilities against enumeration and plain loops, and the answers that they write."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.core import Steps, cast
from laws.cases.parts import perturbed

CONTEXTS = ("state", "input", "both")
SYMBOLS, LONGEST = 2, 4
SOURCES = [[0, 1, 2, 2], [2], [1, 0]]
TARGETS = [[1, 0, 1], [0, 0, 1, 1], [1]]
EVERY_TARGET = [list(y) for n in range(1, LONGEST + 1) for y in itertools.product(range(SYMBOLS), repeat=n)]


def encoder_decoder(context="both", cell=hs.cells.GRU, encoder=None, symbols=SYMBOLS, stop=True, seed=0):
    """A small model with noise on every number, that reads three symbols and writes `symbols`."""
    encoder_key, cell_key, head_key, key = jr.split(jr.key(seed), 4)
    body = hs.cells.LSTM(3, 4, key=encoder_key) if encoder is None else encoder
    seen = 0 if context == "state" else body.output_size
    known = symbols + stop
    inner = cell(known + seen, 5, key=cell_key)
    decoder = hs.RNN(inner, hs.heads.Categorical(inner.output_size + seen, known, key=head_key), inputs=seen)
    reader = hs.heads.Categorical(1, 3, key=key)
    model = hs.EncoderDecoder(body, decoder, context=context, stop=stop, reader=reader, key=key)
    return cast(perturbed(model, key, 0.5), jnp.float64)


def both_ways():
    return hs.Bidirectional(*(hs.cells.GRU(3, 4, key=jr.key(seed)) for seed in (0, 1)))


@pytest.fixture(scope="module", params=CONTEXTS)
def model(request):
    return encoder_decoder(request.param)


# -- a plain loop, one step of one sequence at a time --------------------------------------------------------


def log_softmax(logits):
    return logits - np.logaddexp.reduce(logits)


def context_of(model, source):
    state = model.encoder.initial()
    for x in source:
        state = model.encoder.step(state, model.encoder.prepare(jnp.eye(3)[x]))
    return np.asarray(model.encoder.output(state))


def first_state(model, context):
    """tanh(V C + b), cut into the parts of the state in their order."""
    initial = model.decoder.cell.initial()
    if model.context == "input":
        return initial
    flat = np.tanh(np.asarray(model.first_state.weight) @ context + np.asarray(model.first_state.bias))
    leaves, tree = jax.tree.flatten(initial)
    cuts = np.cumsum([leaf.size for leaf in leaves])[:-1]
    parts = [jnp.asarray(part).reshape(leaf.shape) for part, leaf in zip(np.split(flat, cuts), leaves, strict=True)]
    return jax.tree.unflatten(tree, parts)


def next_log_probs(model, state, context, first):
    """Those of every symbol, the stop symbol last: impossible as the first."""
    shown = np.asarray(model.decoder.cell.output(state))
    shown = shown if model.context == "state" else np.concatenate([shown, context])
    logits = np.asarray(model.decoder.head.weight) @ shown + np.asarray(model.decoder.head.bias)
    if first and model.stop:
        logits[-1] = -np.inf
    return log_softmax(logits)


def after(model, state, context, symbol):
    code = np.eye(model.decoder.head.symbols)[symbol]
    code = code if model.context == "state" else np.concatenate([code, context])
    return model.decoder.cell.step(state, model.decoder.cell.prepare(jnp.asarray(code)))


def plain_log_probs(model, source, target):
    """The log-probability of every step of a target, the stop symbol's with the last."""
    context = context_of(model, source)
    state, out = first_state(model, context), []
    for number, symbol in enumerate(target):
        out.append(next_log_probs(model, state, context, number == 0)[symbol])
        state = after(model, state, context, symbol)
    if model.stop:
        out[-1] += next_log_probs(model, state, context, False)[-1]
    return np.array(out)


def plain_beam(model, source, width, limit, penalty=0.0):
    """Beam search by lists and sorting: the finished and unfinished beginnings, best first."""
    context = context_of(model, source)
    beams = [((), 0.0, False, first_state(model, context))]
    for step in range(limit + 1):
        grown = []
        for symbols, log_prob, finished, state in beams:
            if finished:
                grown.append((symbols, log_prob, True, state))
                continue
            following = next_log_probs(model, state, context, step == 0)
            for symbol, gain in enumerate(following):
                if symbol == len(following) - 1:
                    grown.append((symbols, log_prob + gain, True, state))
                elif step < limit:
                    grown.append(((*symbols, symbol), log_prob + gain, False, after(model, state, context, symbol)))
        grown.sort(key=lambda beam: -beam[1] / (len(beam[0]) + beam[2]) ** penalty if beam[0] else np.inf)
        beams = grown[:width]
    return [(list(symbols), log_prob) for symbols, log_prob, _, _ in beams if np.isfinite(log_prob)]


# -- probabilities -------------------------------------------------------------------------------------------


def test_probabilities_of_all_targets_sum_to_one(model):
    for source in SOURCES[:2]:
        ended = np.exp(hs.log_prob(model, hs.Pairs.of([source] * len(EVERY_TARGET), EVERY_TARGET))).sum()
        context = context_of(model, source)

        def going_on(state, log_prob, written, context=context):
            """The probability of all beginnings of the greatest length that have not stopped there."""
            following = next_log_probs(model, state, context, written == 0)
            if written == LONGEST:
                return np.exp(log_prob) * -np.expm1(following[-1])
            return sum(
                going_on(after(model, state, context, y), log_prob + following[y], written + 1) for y in range(SYMBOLS)
            )

        beyond = going_on(first_state(model, context), 0.0, 0)
        assert 0.01 < beyond < 0.99
        assert ended + beyond == pytest.approx(1.0, abs=1e-12)


def test_targets_of_a_given_length_sum_to_one():
    model = encoder_decoder("both", stop=False, symbols=3)
    every = [list(y) for y in itertools.product(range(3), repeat=3)]
    assert np.exp(hs.log_prob(model, hs.Pairs.of([[0, 2]] * 27, every))).sum() == pytest.approx(1.0, abs=1e-12)


def test_log_probs_are_those_of_a_plain_loop(model):
    found = np.asarray(hs.step_log_probs(model, hs.Pairs.of(SOURCES, TARGETS)))
    for row, source, target in zip(found, SOURCES, TARGETS, strict=True):
        np.testing.assert_allclose(row[: len(target)], plain_log_probs(model, source, target), rtol=1e-10)
        assert not row[len(target) :].any()


@pytest.mark.parametrize(
    "cell",
    [
        hs.cells.LSTM,
        lambda n, hidden, key: hs.cells.SkipInTime(n, hidden, lags=(1, 2), key=key),
        lambda n, hidden, key: hs.Stack([hs.cells.GRU(n, 3, key=key), hs.cells.LSTM(3, hidden, key=key)], norm=True),
    ],
    ids=["lstm", "skip", "stack"],
)
def test_a_state_of_several_parts_starts_from_the_context(cell):
    model = encoder_decoder("state", cell, stop=False)
    found = np.asarray(hs.step_log_probs(model, hs.Pairs.of(SOURCES[:1], TARGETS[:1])))
    np.testing.assert_allclose(found[0], plain_log_probs(model, SOURCES[0], TARGETS[0]), rtol=1e-10)


def test_the_steps_of_the_decoder_have_the_same_probabilities(model):
    """One step at a time, as generation and scheduled sampling go, is the same as all at once."""
    start = model.decoder_start(Steps(jnp.asarray(SOURCES[0])), hs.Auto())
    state, total = start.state, 0.0
    for y in model.decoder_steps(Steps(jnp.asarray(TARGETS[0]))).values:
        total += start.model.readout(state, start.inputs).log_prob(y)
        state = start.model.step(state, start.model.prepare(y, start.inputs))
    assert total == pytest.approx(plain_log_probs(model, SOURCES[0], TARGETS[0]).sum(), rel=1e-10)


def test_a_saved_model_writes_and_scores_the_same_bits(tmp_path):
    model = encoder_decoder("both", encoder=both_ways())
    hs.save(model, tmp_path / "model")
    again = hs.load(tmp_path / "model")
    pairs = hs.Pairs.of(SOURCES, TARGETS)
    assert (hs.log_prob(model, pairs) == hs.log_prob(again, pairs)).all()
    assert again.stop_symbol == 2 and again.context == "both"
    written, rewritten = (hs.generate(m, SOURCES, how="beam", width=3, length=5) for m in (model, again))
    assert (written.values == rewritten.values).all() and (written.log_prob == rewritten.log_prob).all()


# -- generation ----------------------------------------------------------------------------------------------


def test_a_beam_of_full_width_finds_the_enumerated_best_and_all_others_in_order(model):
    found = hs.generate(model, SOURCES, how="beam", width=40, length=LONGEST)
    for i, source in enumerate(SOURCES):
        every = np.asarray(hs.log_prob(model, hs.Pairs.of([source] * len(EVERY_TARGET), EVERY_TARGET)))
        order = np.argsort(-every)
        candidates = [list(y) for y in found.candidates(i)]
        assert candidates == [EVERY_TARGET[j] for j in order]
        np.testing.assert_allclose(found.log_prob[i, : len(order)], every[order], rtol=1e-12)
        assert (found.log_prob[i, len(order) :] == -np.inf).all()
        assert found.sequences[i].tolist() == EVERY_TARGET[order[0]]


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_narrow_beam_is_that_of_lists_and_sorting(penalty):
    model = encoder_decoder("both", symbols=4, seed=4)
    found = hs.generate(model, SOURCES, how="beam", width=3, length=6, length_penalty=penalty)
    for i, source in enumerate(SOURCES):
        expected = plain_beam(model, source, 3, 6, penalty)
        assert [list(y) for y in found.candidates(i)] == [symbols for symbols, _ in expected]
        np.testing.assert_allclose(found.log_prob[i], [log_prob for _, log_prob in expected], rtol=1e-10)


def test_greedy_is_a_beam_of_one_and_its_log_prob_the_model_s(model):
    greedy = hs.generate(model, SOURCES, length=6)
    beam = hs.generate(model, SOURCES, how="beam", width=1, length=6)
    assert (greedy.values == beam.values).all() and (greedy.log_prob == beam.log_prob).all()
    expected = [plain_beam(model, source, 1, 6)[0] for source in SOURCES]
    assert [list(y) for y in greedy.sequences] == [symbols for symbols, _ in expected]
    scored = hs.log_prob(model, hs.Pairs.of(SOURCES, greedy.sequences))
    np.testing.assert_allclose(greedy.log_prob[:, 0], scored, rtol=1e-12)
    assert (greedy.ended[:, 0] == (greedy.lengths[:, 0] < 6)).all()


def test_draws_follow_the_model():
    model, n, limit = encoder_decoder("both"), 4000, 3
    drawn = hs.generate(model, SOURCES[:2], how="sample", n=n, length=limit, key=jr.key(1))
    for i, source in enumerate(SOURCES[:2]):
        counts: dict[tuple, int] = {}
        for y in drawn.candidates(i):
            counts[tuple(y.tolist())] = counts.get(tuple(y.tolist()), 0) + 1
        total = 0.0
        for y in (y for y in EVERY_TARGET if len(y) <= limit):
            steps = plain_log_probs(model, source, y)
            if len(y) == limit:  # the limit ends these, whatever the stop symbol's probability
                context = context_of(model, source)
                state = first_state(model, context)
                for symbol in y:
                    state = after(model, state, context, symbol)
                steps[-1] -= next_log_probs(model, state, context, False)[-1]
            probability = np.exp(steps.sum())
            total += probability
            error = np.sqrt(probability * (1 - probability) / n)
            assert abs(counts.get(tuple(y), 0) / n - probability) < 4 * error
        assert total == pytest.approx(1.0, abs=1e-12)
        written = [list(y) for y in drawn.candidates(i)]
        scored = hs.log_prob(model, hs.Pairs.of([source] * 50, written[:50]))
        np.testing.assert_allclose(drawn.log_prob[i, :50], scored, rtol=1e-10)


def test_temperature_sharpens_draws():
    model, n = encoder_decoder("state"), 4000
    drawn = hs.generate(model, SOURCES[:1], how="sample", n=n, length=2, temperature=0.5, key=jr.key(2))
    context = context_of(model, SOURCES[0])
    odds = np.exp(2 * next_log_probs(model, first_state(model, context), context, True))
    probability = odds[0] / odds.sum()
    error = np.sqrt(probability * (1 - probability) / n)
    assert abs((drawn.values[0, :, 0] == 0).mean() - probability) < 4 * error


def test_an_answer_does_not_depend_on_the_other_sources():
    model = encoder_decoder("both", encoder=both_ways(), seed=7)
    limits = [3, 6, 1]
    together = hs.generate(model, SOURCES, how="beam", width=3, length=limits)
    for i, source in enumerate(SOURCES):
        alone = hs.generate(model, [source], how="beam", width=3, length=limits[i])
        assert [list(y) for y in together.candidates(i)] == [list(y) for y in alone.candidates(0)]
        np.testing.assert_allclose(together.log_prob[i], alone.log_prob[0], rtol=1e-12)
        assert together.lengths[i].max() <= limits[i]


# -- targets that are no symbols -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def numbers():
    """A model from two inputs and a number to numbers, whose length is given."""
    keys = jr.split(jr.key(3), 3)
    head = hs.heads.Gaussian(4 + 3, None, location=1.0, scale=2.0, key=keys[0])
    decoder = hs.RNN(hs.cells.GRU(1 + 3, 4, key=keys[1]), head, inputs=3)
    encoder = hs.cells.Vanilla(3, 3, key=keys[2])
    model = hs.EncoderDecoder(encoder, decoder, stop=False, inputs=2, key=keys[2])
    return cast(perturbed(model, keys[2]), jnp.float64)


@pytest.fixture(scope="module")
def series():
    random = np.random.default_rng(0)
    sources = [random.normal(size=n) for n in (4, 2)]
    return hs.Sequences.of(sources, inputs=[random.normal(size=(n, 2)) for n in (4, 2)])


def plain_means(model, values, inputs, follow):
    """Means and deviations of all steps, where each is followed by what `follow` gives (or by the mean)."""
    hidden = jnp.zeros(3)
    for x, u in zip(values, inputs, strict=True):
        hidden = model.encoder.step(hidden, model.encoder.prepare(jnp.array([x, *u])))
    hidden, out = np.asarray(hidden), []
    state = jnp.tanh(model.first_state.weight @ hidden + model.first_state.bias)
    for step in range(len(follow)):
        mean, spread = np.asarray(model.decoder.head.weight) @ np.concatenate([state, hidden]) + np.asarray(
            model.decoder.head.bias
        )
        out.append((1.0 + 2.0 * mean, 2.0 * np.log1p(np.exp(spread + np.log(np.expm1(1.0))))))
        y = out[-1][0] if follow[step] is None else follow[step]
        element = model.decoder.cell.prepare(jnp.concatenate([jnp.array([(y - 1.0) / 2.0]), hidden]))
        state = model.decoder.cell.step(state, element)
    return np.array(out).T


def test_numbers_are_scored_and_written_by_their_means(numbers, series):
    targets = [[0.3, -1.0, 2.0], [1.5]]
    found = np.asarray(hs.step_log_probs(numbers, hs.Pairs.of(series, targets)))
    written = hs.generate(numbers, series, length=[3, 1])
    assert written.lengths.tolist() == [[3], [1]] and written.ended.all()
    for i, target in enumerate(targets):
        values, inputs = series.values[i, : series.lengths[i]], series.inputs[i, : series.lengths[i]]
        mean, deviation = plain_means(numbers, values, inputs, target)
        expected = -0.5 * ((target - mean) / deviation) ** 2 - np.log(deviation) - 0.5 * np.log(2 * np.pi)
        np.testing.assert_allclose(found[i, : len(target)], expected, rtol=1e-9)
        mean, deviation = plain_means(numbers, values, inputs, [None] * len(target))
        np.testing.assert_allclose(written.sequences[i], mean, rtol=1e-9)
        highest = -(np.log(deviation) + 0.5 * np.log(2 * np.pi)).sum()
        assert written.log_prob[i, 0] == pytest.approx(highest, rel=1e-9)


def test_numbers_are_drawn(numbers, series):
    drawn = hs.generate(numbers, series, how="sample", length=2, n=3000, key=jr.key(0))
    mean, deviation = plain_means(numbers, series.values[0], series.inputs[0], [None])
    first = drawn.values[0, :, 0]
    assert abs(first.mean() - mean[0]) < 4 * deviation[0] / np.sqrt(3000)
    assert abs(first.std() / deviation[0] - 1) < 4 / np.sqrt(2 * 3000)
    scored = hs.log_prob(numbers, hs.Pairs.of(series[[1] * 5], list(drawn.values[1, :5])))
    np.testing.assert_allclose(drawn.log_prob[1, :5], scored, rtol=1e-10)


def test_bits_are_written_by_the_likelier():
    keys = jr.split(jr.key(8), 3)
    decoder = hs.RNN(hs.cells.GRU(2, 4, key=keys[0]), hs.heads.Bernoulli(4, 2, key=keys[1]))
    model = hs.EncoderDecoder(hs.cells.GRU(1, 3, key=keys[2]), decoder, context="state", stop=False, key=keys[0])
    written = hs.generate(model, [[0.1, 0.5]], length=3)
    every = [np.array(bits).reshape(3, 2) for bits in itertools.product((0, 1), repeat=6)]
    scored = hs.step_log_probs(model, hs.Pairs.of([[0.1, 0.5]] * 64, every))
    assert written.values[0, 0, 0].tolist() == every[int(np.argmax(scored[:, 0]))][0].tolist()


# -- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"how": "best"}, "how is 'best'; it must be 'greedy', 'sample' or 'beam'"),
        ({"how": "sample"}, "needs key="),
        ({"how": "sample", "key": 3}, "the key is 3"),
        ({"how": "sample", "key": jr.key(0), "n": 0}, "n is 0"),
        ({"how": "sample", "key": jr.key(0), "temperature": 0.0}, "temperature is 0.0; it must be a number above 0"),
        ({"how": "beam", "width": 0}, "width is 0"),
        ({"how": "beam", "length_penalty": -1.0}, "length_penalty is -1.0"),
        ({"n": 3}, "how is 'greedy', but n and temperature are for how='sample'"),
        ({"length": 0}, "length is 0"),
        ({"length": [1, 2]}, "one for each of 3 sources"),
    ],
)
def test_wrong_ways_of_generating_are_refused(options, said):
    with pytest.raises(hs.HiddenStateError, match=said):
        hs.generate(encoder_decoder("state"), SOURCES, **options)


def test_numbers_have_no_beam_no_temperature_and_no_end(numbers, series):
    with pytest.raises(hs.HiddenStateError, match="targets are real numbers; a beam search takes symbols"):
        hs.generate(numbers, series, how="beam", length=2)
    with pytest.raises(hs.HiddenStateError, match="only the probabilities of symbols can be sharpened"):
        hs.generate(numbers, series, how="sample", length=2, key=jr.key(0), temperature=0.5)
    with pytest.raises(hs.DataError, match="length is missing"):
        hs.generate(numbers, series)
    with pytest.raises(hs.HiddenStateError, match="writes no answers step by step"):
        hs.generate(hs.Summary(numbers.encoder, hs.heads.Gaussian(3, None, key=jr.key(0))), series, length=1)


def test_data_that_do_not_fit_are_refused():
    model = encoder_decoder("state")
    with pytest.raises(hs.DataError, match="whole numbers from 0 to 1"):
        hs.log_prob(model, hs.Pairs.of([[0]], [[2]]))
    with pytest.raises(hs.DataError, match="whole numbers from 0 to 2"):
        hs.generate(model, [[3]])
    with pytest.raises(hs.MissingDataError, match="needs every one of them"):
        hs.log_prob(model, hs.Pairs.of([[0]], [[0, 1]], missing=[[True, False]]))


def test_parts_that_do_not_fit_are_refused():
    gru, head = hs.cells.GRU, hs.heads.Categorical
    key = jr.key(0)
    encoder = gru(3, 4, key=key)
    decoder = hs.RNN(gru(3, 5, key=key), head(5, 3, key=key))
    learned = hs.RNN(gru(3, 5, key=key), head(5, 3, key=key), initial="learned")
    numbers = hs.RNN(gru(1, 5, key=key), hs.heads.Gaussian(5, None, key=key))
    single = hs.RNN(gru(1, 5, key=key), head(5, 1, key=key))
    for parts, options, said in (
        ((encoder, decoder), {"context": "all"}, "context is 'all'"),
        ((encoder, decoder), {"context": "both", "key": key}, "takes 0 inputs, .* make the RNN with inputs=4"),
        ((encoder, encoder), {"context": "state", "key": key}, "the decoder is a GRU; it must be an hs.RNN"),
        ((decoder, decoder), {"context": "state", "key": key}, "the body is a RNN"),
        ((encoder, learned), {"context": "state", "key": key}, "has a learned initial state"),
        ((encoder, decoder), {"context": "state"}, "the key is None"),
        ((encoder, numbers), {"context": "state", "key": key}, "a Gaussian head has no symbols"),
        ((encoder, single), {"context": "state", "key": key}, "knows a single symbol"),
    ):
        with pytest.raises(hs.HiddenStateError, match=said):
            hs.EncoderDecoder(*parts, **options)


# -- from data -----------------------------------------------------------------------------------------------


def test_the_recipe_takes_sizes_from_pairs():
    ragged = hs.Pairs.of([[0, 1, 2], [2]], [[1, 0], [0]])
    model = hs.build("encoder-decoder", ragged, hidden=3, key=jr.key(0))
    assert model.stop_symbol == 2 and model.decoder.head.symbols == 3 and model.context == "both"
    assert (model.encoder.input_size, model.decoder.inputs) == (3, 3)
    assert model.target_schema == ragged.targets.schema
    deep = hs.build(
        "encoder-decoder", ragged, cell="lstm", layers=2, bidirectional=True, embedding=4, dropout=0.1, key=jr.key(0)
    )
    assert deep.encoder.output_size == 2 * 64 and len(deep.decoder.cell.cells) == 2
    assert deep.reader.encoded_size == 4 and deep.decoder.encoder.weight.shape == (3, 4)


def test_the_stop_symbol_is_for_symbols_of_different_lengths():
    even, numbers = hs.Pairs.of([[0], [1, 1]], [[1, 0], [0, 0]]), hs.Pairs.of([[0], [1, 1]], [[0.1], [0.2, 0.3]])
    assert hs.build("encoder-decoder", even, hidden=2, key=jr.key(0)).stop is False
    assert hs.build("encoder-decoder", even, hidden=2, stop=True, key=jr.key(0)).stop_symbol == 2
    model = hs.build("encoder-decoder", numbers, hidden=2, context="state", cell="leaky", key=jr.key(0))
    assert model.stop is False and np.isfinite(hs.log_prob(model, numbers)).all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cell": "gruu"}, "cell is 'gruu'; it must be one of vanilla"),
        ({"hiden": 3}, "a gru cell has no option 'hiden'"),
        ({"stop": True}, "only single symbols can have one more"),
        ({"layers": 0}, "layers is 0"),
        ({"context": "none"}, "context is 'none'"),
    ],
)
def test_wrong_options_of_the_recipe_are_named(options, said):
    with pytest.raises(hs.HiddenStateError, match=said):
        hs.build("encoder-decoder", hs.Pairs.of([[0, 1]], [[0.1, 0.2, 0.3]]), key=jr.key(0), **options)
