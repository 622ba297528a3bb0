import jax
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hiddenstate.core import Column, DataError, Schema, Sequences

ragged = st.lists(st.integers(1, 40), min_size=1, max_size=40)


def labelled(lengths):
    """Sequence i holds i * 1000 + t at step t, so that every value tells where it came from."""
    return Sequences.of([i * 1000 + np.arange(n) for i, n in enumerate(lengths)])


# -- making --------------------------------------------------------------------------------------------------


def test_a_list_of_arrays_is_one_sequence_each():
    data = Sequences.of([[1.0, 2.0, 3.0], [4.0]])
    assert (len(data), data.steps, data.length, data.shape, data.event_shape) == (2, 4, 3, (2, 3), ())
    assert data.ragged and not data.has_missing
    assert data.values.tolist() == [[1.0, 2.0, 3.0], [4.0, 0.0, 0.0]]
    assert data.valid.tolist() == [[True, True, True], [True, False, False]]
    assert data.names == ("0", "1")


def test_one_array_is_one_sequence():
    assert Sequences.of(np.zeros(5)).shape == (1, 5)
    assert Sequences.of([0, 1, 2]).shape == (1, 3)
    assert Sequences.of(np.zeros((5, 2))).shape == (1, 5, 2)


def test_an_array_of_three_axes_is_several_sequences():
    assert Sequences.of(np.zeros((4, 5, 2))).shape == (4, 5, 2)


def test_sequences_of_sequences_are_themselves():
    data = Sequences.of([[1, 2]])
    assert Sequences.of(data) is data


def test_jax_arrays_are_taken():
    assert Sequences.of([jax.numpy.arange(3), jax.numpy.arange(2)]).lengths.tolist() == [3, 2]


def test_padded_zeroes_what_lies_behind_the_end():
    data = Sequences.padded(np.full((2, 4), 7.0), [4, 2], names=["a", "b"])
    assert data.values.tolist() == [[7.0] * 4, [7.0, 7.0, 0.0, 0.0]]
    assert data.names == ("a", "b")
    assert Sequences.padded(np.zeros((2, 4))).lengths.tolist() == [4, 4]


def test_nan_behind_the_end_is_not_missing():
    data = Sequences.padded([[1.0, np.nan], [1.0, 2.0]], [1, 2])
    assert not data.has_missing


@pytest.mark.parametrize(
    ("values", "kind", "size"),
    [
        ([0.5, 1.0], "real", 0),
        ([0, 3, 1], "symbol", 4),
        ([-1, 3], "real", 0),
        ([[0, 1], [1, 1]], "bit", 0),
        ([[0, 1], [2, 1]], "count", 0),
        ([[0, -1], [2, 1]], "real", 0),
    ],
)
def test_plain_arrays_imply_a_schema(values, kind, size):
    schema = Sequences.of(np.array(values)).schema
    assert schema.kind == kind
    assert schema.columns[0].size == size
    assert schema.scalar == (np.ndim(values) == 1)


def test_precision_is_kept():
    assert Sequences.of(np.zeros(3, np.float32)).values.dtype == np.float32
    assert Sequences.of(np.zeros(3, np.float64)).values.dtype == np.float64
    assert Sequences.of(np.zeros(3, np.float16)).values.dtype == np.float32
    assert Sequences.of(np.zeros(3, np.int64)).values.dtype == np.int32
    assert Sequences.of(np.array([True, False])).values.tolist() == [[1, 0]]


def test_the_plain_array_of_sequences_of_one_length():
    assert np.asarray(Sequences.of([[1, 2], [3, 4]])).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(DataError, match="different lengths are no plain array"):
        np.asarray(Sequences.of([[1, 2], [3]]))


def test_repr_says_what_it_is():
    data = Sequences.of([[[1.0, np.nan]], [[1.0, 2.0]] * 3], inputs=[[0.0], [0.0] * 3])
    assert repr(data) == "Sequences(2 of lengths 1 to 3, real (2,), 1 inputs, some missing)"
    assert repr(Sequences.of([0, 1])) == "Sequences(1 of length 2, symbol)"


# -- missing values and inputs -------------------------------------------------------------------------------


def test_nan_is_missing_and_stays_nan():
    data = Sequences.of([[1.0, np.nan, 3.0], [4.0]])
    assert data.has_missing
    assert data.observed.tolist() == [[True, False, True], [True, True, True]]
    assert np.isnan(data.values[0, 1])
    assert data.arrays().values[0, 1] == 0.0
    assert data.arrays().observed is data.observed


def test_a_mask_marks_missing_whole_numbers():
    data = Sequences.of([[1, 2, 3], [4]], missing=[[False, True, False], [True]])
    assert data.observed.tolist() == [[True, False, True], [False, True, True]]
    assert np.issubdtype(data.values.dtype, np.integer)
    assert data.schema.columns[0].size == 4  # the missing 4 is no symbol


def test_a_mask_of_steps_covers_all_columns():
    data = Sequences.of([np.ones((2, 3))], missing=[[True, False]])
    assert data.observed.tolist() == [[[False] * 3, [True] * 3]]
    padded = Sequences.padded(np.ones((1, 2, 3)), missing=[[True, False]])
    assert padded.observed.tolist() == data.observed.tolist()


def test_a_mask_for_one_plain_sequence():
    assert Sequences.of([1, 2, 3], missing=[False, True, False]).observed.tolist() == [[True, False, True]]


def test_a_mask_without_a_missing_value_is_none():
    assert Sequences.of([1, 2], missing=[False, False]).observed is None
    assert not Sequences.padded([[1, 2]], missing=[[False, False]]).has_missing


def test_masks_and_inputs_of_one_sequence_in_three_axes():
    values = np.zeros((1, 4, 2))
    data = Sequences.of(values, missing=np.ones((1, 4, 2), bool), inputs=np.zeros((1, 4, 3)))
    assert not data.observed.any()
    assert data.inputs.shape == (1, 4, 3)


def test_inputs_go_with_their_sequences():
    data = Sequences.of([[1.0, 2.0], [3.0]], inputs=[[[1, 2], [3, 4]], [[5, 6]]])
    assert data.inputs.tolist() == [[[1, 2], [3, 4]], [[5, 6], [0, 0]]]
    assert data.schema.inputs == ("u0", "u1")
    assert Sequences.of([[1.0, 2.0]], inputs=[[7.0, 8.0]]).inputs.tolist() == [[[7.0], [8.0]]]
    assert Sequences.padded(np.zeros((2, 3)), inputs=np.zeros((2, 3))).inputs.shape == (2, 3, 1)


def test_arrays_are_as_plain_as_the_data():
    full = Sequences.of([[1.0, 2.0], [3.0, 4.0]]).arrays(np.float32)
    assert full.lengths is None and full.inputs is None and full.observed is None
    assert full.values.dtype == np.float32
    some = Sequences.of([[1.0, 2.0], [3.0]], inputs=[[1.0, 1.0], [1.0]]).arrays(np.float32)
    assert some.lengths.tolist() == [2, 1]
    assert some.inputs.dtype == np.float32


# -- what cannot be taken ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Sequences.of([]), "no sequence"),
        (lambda: Sequences.of([[1, 2], []]), "sequence 1 has length 0"),
        (lambda: Sequences.of([np.zeros((2, 2, 2))]), r"sequence 0 has shape \(2, 2, 2\)"),
        (lambda: Sequences.of(np.float64(3.0)), r"sequence 0 has shape \(\)"),
        (
            lambda: Sequences.of([np.zeros(3), np.zeros((3, 2))]),
            r"sequence 1 has observations of shape \(2,\)",
        ),
        (lambda: Sequences.of([np.zeros((3, 1)), np.zeros((3, 2))]), r"those of sequence 0 have \(1,\)"),
        (lambda: Sequences.of([1, [2]]), "mix single values with arrays"),
        (lambda: Sequences.of([[[1, 2], [3]]]), "sequence 0 is no regular array"),
        (lambda: Sequences.of(["a", "b"]), "hs.read"),
        (lambda: Sequences.of([np.array([1j])]), "complex128"),
        (lambda: Sequences.of([2**40]), "32 bits"),
        (lambda: Sequences.of([[1.0], [2.0, np.inf]]), "sequence 1 holds an infinite value at step 2"),
        (lambda: Sequences.of([[1, 2]], missing=[[True]]), r"missing\[0\] has shape \(1,\)"),
        (lambda: Sequences.of([[[1, 2]]], missing=[[[True]]]), r"missing\[0\] has shape \(1, 1\)"),
        (lambda: Sequences.of([[1], [2]], missing=[[True]]), "missing holds 1 arrays for 2 sequences"),
        (lambda: Sequences.of([[1.0]], inputs=[[1.0, 2.0]]), r"inputs\[0\] has shape"),
        (lambda: Sequences.of([[1.0]], inputs=[[np.nan]]), "inputs of sequence 0 are not finite at step 1"),
        (lambda: Sequences.of([[1.0]], inputs=[["a"]]), "inputs"),
        (lambda: Sequences.of([[1.0], [1.0]], inputs=[[[1.0]], [[1.0, 2.0]]]), "inputs"),
        (lambda: Sequences.of([[1.0]], names=["a", "b"]), "2 names for 1 sequences"),
        (
            lambda: Sequences.of([[1.0]], schema=Schema((Column("a", "real"), Column("b", "real")), scalar=False)),
            r"the schema says \(2,\)",
        ),
        (lambda: Sequences.padded(np.zeros(3)), r"values has shape \(3,\)"),
        (lambda: Sequences.padded(np.zeros((0, 3))), "no step"),
        (
            lambda: Sequences.padded(np.zeros((2, 3)), [3, 4]),
            r"lengths\[1\] is 4; it must be between 1 and 3",
        ),
        (lambda: Sequences.padded(np.zeros((2, 3)), [0, 3]), r"lengths\[0\] is 0"),
        (lambda: Sequences.padded(np.zeros((2, 3)), [3]), "lengths must be 2 whole numbers"),
        (lambda: Sequences.padded(np.zeros((2, 3)), [1.5, 2.0]), "lengths must be 2 whole numbers"),
        (lambda: Sequences.padded(np.zeros((2, 3)), missing=np.zeros((2, 2))), r"missing has shape \(2, 2\)"),
        (
            lambda: Sequences.padded(np.zeros((2, 3)), inputs=np.zeros((2, 2, 1))),
            r"inputs has shape \(2, 2, 1\)",
        ),
        (lambda: Sequences.padded(np.zeros((2, 3)), inputs=np.full((2, 3), "a")), "inputs"),
    ],
)
def test_a_sentence_says_what_is_wrong(make, sentence):
    with pytest.raises(DataError, match=sentence):
        make()


# -- choosing and cutting ------------------------------------------------------------------------------------


def test_an_index_gives_one_sequence_without_padding():
    data = labelled([3, 1])
    assert data[1].tolist() == [1000]
    assert data[-1].tolist() == [1000]
    assert [a.tolist() for a in data] == [[0, 1, 2], [1000]]


def test_slices_lists_and_masks_choose_sequences():
    data = labelled([3, 1, 2])
    assert data[1:].lengths.tolist() == [1, 2]
    assert data[1:].length == 2
    assert data[[2, 0]].names == ("2", "0")
    assert data[np.array([False, True, False])][0].tolist() == [1000]
    with pytest.raises(DataError, match="selects none of 3"):
        data[3:]


def test_choosing_keeps_inputs_and_what_is_missing():
    data = Sequences.of([[1.0, np.nan], [3.0, 4.0]], inputs=[[1.0, 2.0], [3.0, 4.0]])
    assert data[[0]].has_missing and not data[[1]].has_missing
    assert data[[1]].inputs.tolist() == [[[3.0], [4.0]]]


def test_split_leaves_the_last_part_the_rest():
    parts = labelled([2] * 10).split(0.5, 0.2)
    assert [part.names for part in parts] == [tuple("01234"), tuple("56"), tuple("789")]


def test_split_shuffles_by_its_key_alone():
    data = labelled([2] * 20)
    one, other = data.split(0.5, key=jr.key(1))
    again, _ = data.split(0.5, key=jr.key(1))
    assert one.names == again.names != data.split(0.5, key=jr.key(2))[0].names
    assert sorted(one.names + other.names) == sorted(data.names)
    assert data.split(0.5, key=jr.PRNGKey(1))[0].names == one.names  # old keys serve too


@pytest.mark.parametrize("fractions", [(), (0.0,), (1.0,), (0.5, 0.5), (-0.1, 0.5)])
def test_fractions_must_leave_a_rest(fractions):
    with pytest.raises(DataError, match="must be positive and sum to less than 1"):
        labelled([2] * 10).split(*fractions)


def test_too_little_to_split():
    with pytest.raises(DataError, match="too few sequences \\(1\\) for 2 parts"):
        labelled([10]).split(0.5)
    with pytest.raises(DataError, match="too few steps of the shortest sequence \\(2\\)"):
        labelled([10, 2]).split_time(0.8, 0.1)


def test_split_time_cuts_each_sequence_at_its_own_fraction():
    early, late = labelled([10, 4]).split_time(0.5)
    assert [a.tolist() for a in early] == [[0, 1, 2, 3, 4], [1000, 1001]]
    assert [a.tolist() for a in late] == [[5, 6, 7, 8, 9], [1002, 1003]]


def test_window_keeps_inputs_and_what_is_missing():
    data = Sequences.of([[1.0, 2.0, np.nan], [4.0, 5.0]], inputs=[[1.0, 2.0, 3.0], [4.0, 5.0]], names=["a", "b"])
    part = data.window(1, 3)
    assert part.names == ("a", "b") and part.lengths.tolist() == [2, 1]
    assert part.inputs[..., 0].tolist() == [[2.0, 3.0], [5.0, 0.0]]
    assert part.observed.tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize(("start", "stop"), [(2, 2), (3, 1), (5, 9), (-1, 2), (-3, -1)])
def test_window_of_no_steps(start, stop):
    with pytest.raises(DataError, match="of sequence"):
        labelled([4, 5]).window(start, stop)


@given(ragged, st.data())
@settings(deadline=None)
def test_window_gives_the_steps_between(lengths, draw):
    data = labelled(lengths)
    start = np.array([draw.draw(st.integers(0, n - 1)) for n in lengths])
    stop = np.array([draw.draw(st.integers(s + 1, n + 3)) for s, n in zip(start, lengths, strict=True)])
    part = data.window(start, stop)
    for i, array in enumerate(part):
        assert array.tolist() == data[i][start[i] : stop[i]].tolist()


# -- batches -------------------------------------------------------------------------------------------------


@given(ragged, st.integers(1, 12), st.integers(1, 6), st.one_of(st.none(), st.integers(0, 5)))
@settings(deadline=None)
def test_batches_hold_every_sequence_once(lengths, size, buckets, seed):
    data = labelled(lengths)
    key = None if seed is None else jr.key(seed)
    batches = list(data.batches(size, key=key, buckets=buckets))
    seen = {}
    for batch in batches:
        assert len(batch) == min(size, len(data))
        for name, length, array in zip(batch.names, batch.lengths, batch, strict=True):
            if length:
                assert name not in seen
                seen[name] = array.tolist()
            else:
                assert name == ""
    assert seen == {name: array.tolist() for name, array in zip(data.names, data, strict=True)}
    assert len({batch.shape for batch in batches}) <= buckets


@given(ragged, st.integers(1, 12))
@settings(deadline=None)
def test_batches_are_no_longer_than_their_group(lengths, size):
    data = labelled(lengths)
    for batch in data.batches(size):
        assert batch.length <= data.length
        assert batch.length == batch.values.shape[1] >= batch.lengths.max()


def test_batches_are_decided_by_the_key():
    data = labelled(np.arange(1, 31))
    names = [[batch.names for batch in data.batches(4, key=jr.key(seed))] for seed in (0, 0, 1)]
    assert names[0] == names[1] != names[2]


def test_batches_of_sorted_lengths_have_little_padding():
    data = labelled(np.arange(1, 401))
    computed = sum(batch.values.size for batch in data.batches(10, buckets=8))
    assert computed < 1.15 * data.steps  # in one group it would be twice as much
    one_group = sum(batch.values.size for batch in data.batches(10, buckets=1))
    assert one_group == 400 * 400


def test_sequences_of_one_length_share_a_group():
    shapes = [batch.shape for batch in labelled([5] * 10).batches(4)]
    assert shapes == [(4, 5)] * 3


def test_batches_carry_inputs_and_what_is_missing():
    data = Sequences.of([[1.0, np.nan], [3.0, 4.0], [5.0, 6.0]], inputs=[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    first, last = data.batches(2)
    assert first.has_missing and not last.has_missing
    assert last.inputs[..., 0].tolist() == [[5.0, 6.0], [0.0, 0.0]]
    assert last.lengths.tolist() == [2, 0]


def test_a_batch_holds_at_least_one():
    with pytest.raises(DataError, match="batch size is 0"):
        list(labelled([2]).batches(0))
