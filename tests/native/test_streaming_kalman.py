"""Compiled streams of linear Gaussian models against the square-root filter over the whole sequence."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hiddenstate as hs
from native.kernels import each_instruction_set, needs_kernels
from native.streams import PRECISIONS, STEPS, check, close, is_compiled

SYSTEMS = {
    "number": {"event": None},
    "vector": {"event": 2},
    "more seen than hidden": {"state": 2, "event": 5},
    "offsets": {"offsets": True},
    "diagonal": {"diagonal": True},
    "few directions move": {"moving": 1},
    "one entry has no noise": {"noisy": 1},
    "inputs": {"inputs": 2, "offsets": True},
    "inputs of a number": {"inputs": 1, "event": None},
    "seen inputs only": {"inputs": 2, "driven": False},
}


def system(
    state=3, event=2, precision="float64", *,
    offsets=False, diagonal=False, moving=None, noisy=None, inputs=0, driven=True, seed=0, **rest
):  # fmt: skip
    """A stable model; `moving` and `noisy` directions only have noise, where not all do."""
    random = np.random.default_rng(seed)
    size = 1 if event is None else event

    def covariance(size, rank):
        if diagonal:
            return random.gamma(2.0, size=size)
        root = random.normal(size=(size, rank or size))
        return root @ root.T + (0.1 * np.eye(size) if rank is None else 0.0)

    turned = random.normal(size=(state, state))
    transition = 0.9 * turned / np.linalg.norm(turned, 2)
    noise = np.arange(size) < noisy if noisy else covariance(size, None)
    emission, offset, seen = random.normal(size=(size, state)), random.normal(size=size), random.normal(size=(size, 2))
    single = (lambda a: a[0]) if event is None else (lambda a: a)
    model = hs.LinearGaussian(
        transition=transition,
        transition_noise=covariance(state, moving),
        transition_offset=random.normal(size=state) if offsets else None,
        transition_input=random.normal(size=(state, inputs)) if inputs and driven else None,
        emission=single(emission),
        emission_noise=float(np.ravel(noise)[0]) if event is None else noise.astype(float),
        emission_offset=single(offset) if offsets else None,
        emission_input=single(seen[:, :inputs]) if inputs else None,
        initial_mean=random.normal(size=state),
        **rest,
    )
    return hs.cast(model, precision)


def observations(event, count=STEPS, seed=1):
    return np.random.default_rng(seed).normal(0.5, 2.0, (count,) if event is None else (count, event))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", SYSTEMS)
def test_linear_gaussian_models_stream_as_they_score(name, precision):
    options = SYSTEMS[name]
    model = system(**options, precision=precision)
    assert is_compiled(model) == bool(hs.native.available())
    inputs = options.get("inputs")
    us = np.random.default_rng(2).normal(size=(STEPS, inputs)) if inputs else None
    check(model, observations(options.get("event", 2)), us)


@needs_kernels
@settings(max_examples=10, deadline=None)
@given(
    state=st.sampled_from([1, 2, 5, 16, 17, 32]),
    event=st.sampled_from([None, 1, 4, 5, 16, 32]),
    precision=st.sampled_from(PRECISIONS),
    seed=st.integers(0, 99),
)
def test_any_sizes(state, event, precision, seed):
    check(system(state, event, precision, seed=seed), observations(event, 30, seed))


@needs_kernels
@each_instruction_set
@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_instruction_set_gives_the_same_to_rounding(instructions, precision):
    with hs.native.limited(instructions=instructions):
        check(system(19, 18, precision), observations(18, 30))
        check(system(2, None, precision), observations(None, 30))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("event", [None, 1, 4])
def test_missing_entries_are_summed_out(event, precision):
    """With noise that the entries of an observation share."""
    model, xs = system(3, event, precision), observations(event, 60)
    gone = np.random.default_rng(3).uniform(size=xs.shape) < 0.4
    gone[10] = True
    data = hs.Sequences.padded(xs[None], missing=gone[None])
    expected = hs.step_log_probs(model, data, strategy=hs.Sequential())[0]
    stream = hs.Stream(model)
    for x, out, due in zip(xs, gone, expected, strict=True):
        following = stream.push(None if out.all() else np.where(out, np.nan, x))
        close(stream.last_log_prob, due, precision)
    assert stream.steps == len(xs)
    close(following.log_prob(xs[0]), model.readout(stream.state).log_prob(xs[0]), precision)


def test_streams_may_miss_different_entries():
    model, random = system(3, 4, "float64"), np.random.default_rng(4)
    together, alone = hs.Stream(model, streams=5), [hs.Stream(model) for _ in range(5)]
    for rows in random.normal(size=(20, 5, 4)):
        rows[random.uniform(size=rows.shape) < 0.3] = np.nan
        together.push(rows)
        for stream, row in zip(alone, rows, strict=True):
            stream.push(row)
    np.testing.assert_allclose(together.log_prob, [stream.log_prob for stream in alone], rtol=1e-12)
    together.push([*rows[:4].tolist(), None])
    np.testing.assert_allclose(together.last_log_prob[4], 0.0)


@needs_kernels
def test_a_covariance_stays_positive_for_any_number_of_steps():
    """A smooth trend that is hardly disturbed: its variances are ten million to one, and only one of them is fed."""
    noise = np.diag([0.0, 0.0, 1e-7])
    transition = [[1.0, 1.0, 0.5], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]]
    parts = {"transition": transition, "transition_noise": noise, "emission": [1.0, 0.0, 0.0], "emission_noise": 1.0}
    single, double = (hs.Stream(hs.cast(hs.LinearGaussian(**parts), precision)) for precision in PRECISIONS)
    xs = np.random.default_rng(5).normal(size=1000).tolist()
    for _ in range(100):
        for x in xs:
            single.push(x)
    for x in 2 * xs:
        double.push(x)
    found, rest = np.asarray(single.state.covariance, float), np.asarray(double.state.covariance)
    np.testing.assert_array_equal(found, found.T)
    assert np.linalg.eigvalsh(found).min() > 0
    np.testing.assert_allclose(found, rest, rtol=1e-3)  # where it has come to rest


def test_a_state_can_be_set_and_a_copy_goes_on_bit_for_bit():
    model, xs = system(precision="float32"), observations(2, 20)
    stream, other = hs.Stream(model), hs.Stream(model)
    for x in xs:
        stream.push(x)
    other.state = stream.state
    for x in xs:
        stream.push(x)
        other.push(x)
        assert other.last_log_prob == stream.last_log_prob


def test_what_no_kernel_takes_streams_by_the_plain_path():
    class Doubled(hs.LinearGaussian):
        def prepare(self, x, u=None):
            return super().prepare(2 * x, u)

    xs, varying = observations(2, 10), np.stack([0.5 * np.eye(3)] * 12)
    parts = {"transition": 0.5 * np.eye(3), "transition_noise": np.ones(3), "emission": np.eye(3)[:2]}
    for other in (
        hs.LinearGaussian(**parts, emission_noise=np.ones(2), diffuse=True),
        hs.LinearGaussian(**{**parts, "transition": varying}, emission_noise=np.ones(2)),
        system(33, 2),
        Doubled(**parts, emission_noise=np.ones(2)),
    ):
        assert not is_compiled(other)
        stream = hs.Stream(other)
        for x in xs:
            stream.push(x)
        twice = 2 * xs if isinstance(other, Doubled) else xs
        model = hs.LinearGaussian(**parts, emission_noise=np.ones(2)) if isinstance(other, Doubled) else other
        np.testing.assert_allclose(stream.log_prob, hs.log_prob(model, twice)[0], rtol=1e-4)


def test_what_is_no_observation_is_refused():
    stream = hs.Stream(system(precision="float32"))
    for bad in ([1.0], 1.0, [np.inf, 0.0], [1e60, 0.0], "a", [[1.0, 2.0]]):
        with pytest.raises(hs.DataError):
            stream.push(bad)
    assert stream.steps == 0 and stream.log_prob == 0
    driven = hs.Stream(system(inputs=2))
    with pytest.raises(hs.DataError, match="takes 2 inputs at every step"):
        driven.push([1.0, 2.0])
    assert driven.push([1.0, 2.0], [0.0, 1.0]) is None
    assert driven.push([1.0, 2.0], [0.0, 1.0], next_u=[1.0, 1.0]).event_shape == (2,)
