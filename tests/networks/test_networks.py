"""Networks: sizes that must fit, options, embeddings, and building by name."""

import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.networks.build import CELLS
from marks import quick

SYMBOLS = hs.Sequences.of([[0, 1, 2, 3, 1], [2, 0]])
REALS = hs.Sequences.of(np.random.default_rng(0).normal(5, 2, (30, 2)))


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("data", quick([pytest.param(SYMBOLS, id="symbols"), pytest.param(REALS, id="reals")]))
def test_every_cell_is_built_from_data_by_its_name(name, data):
    model = hs.build(name, data, hidden=3, key=jr.key(0))
    assert isinstance(model, hs.RNN) and type(model.cell) is CELLS[name]
    assert model.schema == data.schema
    assert np.isfinite(hs.log_prob(model, data)).all()


def test_initial_states_are_zero_or_learned():
    learned = hs.build("lstm", SYMBOLS, hidden=3, key=jr.key(0))
    zero = hs.build("lstm", SYMBOLS, hidden=3, initial="zero", key=jr.key(0))
    assert hs.parameter_count(learned) == hs.parameter_count(zero) + 6
    with pytest.raises(hs.HiddenStateError, match="initial is 'random'"):
        hs.build("lstm", SYMBOLS, initial="random", key=jr.key(0))


def test_an_embedding_takes_the_place_of_one_hot_codes():
    model = hs.build("gru", SYMBOLS, hidden=3, embedding=2, key=jr.key(0))
    assert model.cell.input_size == 2
    embedding = np.asarray(model.encoder.weight)
    one_hot = hs.RNN(
        hs.cells.GRU(4, 3, key=jr.key(0)),
        model.head,
    )
    import equinox as eqx

    same = eqx.tree_at(
        lambda m: m.cell,
        one_hot,
        eqx.tree_at(lambda c: c.input_weight, model.cell, model.cell.input_weight @ embedding.T),
    )
    np.testing.assert_allclose(hs.log_prob(model, SYMBOLS), hs.log_prob(same, SYMBOLS), rtol=1e-10)
    with pytest.raises(hs.HiddenStateError, match="only symbols can be embedded"):
        hs.build("gru", REALS, embedding=2, key=jr.key(0))


def test_parts_that_do_not_fit_are_named():
    cell, head = hs.cells.GRU(3, 4, key=jr.key(0)), hs.heads.Categorical(4, 5, key=jr.key(0))
    with pytest.raises(hs.HiddenStateError, match="input_size 3, but observations and inputs give 5"):
        hs.RNN(cell, head)
    with pytest.raises(hs.HiddenStateError, match="hidden_size 4, but the cell's output and the inputs give 6"):
        hs.RNN(hs.cells.GRU(5, 6, key=jr.key(0)), head)


def test_unknown_names_and_options_are_refused():
    with pytest.raises(hs.RegistryError, match=r"no model named 'gruu'; known are .*gru"):
        hs.build("gruu", SYMBOLS, key=jr.key(0))
    with pytest.raises(hs.HiddenStateError, match=r"'gru' has no option 'neurons'; it takes .*hidden"):
        hs.build("gru", SYMBOLS, neurons=3, key=jr.key(0))
    with pytest.raises(hs.HiddenStateError, match="'unigram' has no option 'hidden'; it takes head"):
        hs.build("unigram", SYMBOLS, hidden=3, key=jr.key(0))
    with pytest.raises(hs.HiddenStateError, match="the key is 3"):
        hs.build("gru", SYMBOLS, key=3)
    with pytest.raises(hs.DataError, match="'bigram' needs symbols"):
        hs.build("bigram", REALS, key=jr.key(0))
    assert "gru" in hs.recipe_names()


def test_public_names_are_all_there():
    for name in hs.__all__:
        assert getattr(hs, name) is not None
    assert set(hs.__all__) <= set(dir(hs))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        hs.nothing  # noqa: B018


def test_a_network_is_made_of_a_cell_and_a_head():
    cell = hs.cells.GRU(3, 2, key=jr.key(0))
    with pytest.raises(hs.HiddenStateError, match=r"cell is None; it must be one of hs\.cells"):
        hs.RNN(None, hs.heads.Categorical(2, 3, key=jr.key(0)))  # pyright: ignore
    with pytest.raises(hs.HiddenStateError, match=r"head is None; it must be one of hs\.heads"):
        hs.RNN(cell, None)  # pyright: ignore
