"""Whatever happens to a file's bytes, loading gives the model that was saved or a FileError, nothing else."""

from functools import cache
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hiddenstate as hs
from hiddenstate.files import header, load, save

CAREFUL = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def network():
    cell_key, head_key = jr.split(jr.key(0))
    return hs.RNN(hs.cells.Vanilla(2, 2, key=cell_key), hs.heads.Categorical(2, 2, key=head_key))


@cache
def original() -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        save(network(), Path(folder) / "model")
        return (Path(folder) / "model").read_bytes()


def loads_the_original_or_refuses(content: bytes, folder: Path) -> bool:
    path = folder / "damaged"
    path.write_bytes(content)
    try:
        loaded = load(path)
    except hs.FileError as error:
        assert str(error).endswith(".")
        with pytest.raises(hs.FileError):
            header(path) and load(path)
        return False
    assert eqx.tree_equal(loaded, network(), typematch=True)
    return True


def test_the_file_itself_loads(tmp_path):
    assert loads_the_original_or_refuses(original(), tmp_path)


def test_truncated_anywhere(tmp_path):
    whole = original()
    for length in [*range(0, len(whole), 7), *range(len(whole) - 20, len(whole))]:
        assert not loads_the_original_or_refuses(whole[:length], tmp_path)


def test_with_something_behind(tmp_path):
    assert not loads_the_original_or_refuses(original() + b"\0", tmp_path)


@CAREFUL
@given(place=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_one_bit_flipped(place, bit, tmp_path):
    content = bytearray(original())
    content[place % len(content)] ^= 1 << bit
    loads_the_original_or_refuses(bytes(content), tmp_path)


def test_every_flip_in_the_numbers_is_noticed(tmp_path):
    whole = original()
    start = 8 + int.from_bytes(whole[:8], "little")
    assert start < len(whole)
    for place in range(start, len(whole), 5):
        content = bytearray(whole)
        content[place] ^= 4
        assert not loads_the_original_or_refuses(bytes(content), tmp_path)


@CAREFUL
@given(start=st.integers(0, 10**6), junk=st.binary(min_size=1, max_size=40))
def test_overwritten_with_anything(start, junk, tmp_path):
    whole = original()
    start %= len(whole)
    loads_the_original_or_refuses(whole[:start] + junk + whole[start + len(junk) :], tmp_path)


@CAREFUL
@given(content=st.binary(max_size=200))
def test_any_bytes_at_all(content, tmp_path):
    assert not loads_the_original_or_refuses(content, tmp_path)


@CAREFUL
@given(
    tree=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["class", "fields", "array", "tuple", "list", "dict", "float", "key", "numpy"]),
                inner,
            )
            | st.fixed_dictionaries(
                {"class": st.sampled_from(["rnn", "vanilla", "frozen", "schema", "nothing"]), "fields": inner}
            )
        ),
        max_leaves=15,
    )
)
def test_any_tree_at_all(tree, tmp_path):
    from hiddenstate.core.storage import write_tensors

    write_tensors(tmp_path / "odd", {"a": jnp.zeros(2)}, {"format": 1, "kind": "model", "model": tree})
    with pytest.raises(hs.FileError):
        load(tmp_path / "odd")
