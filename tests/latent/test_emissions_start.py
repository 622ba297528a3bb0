"""Where emissions start: clusters of the data, the same for the same key; families that fit the data."""

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
import pytest

from hiddenstate.core import Column, DataError, HiddenStateError, Schema, Sequences, cast
from hiddenstate.latent import emissions
from hiddenstate.latent.emissions import (
    Autoregressive,
    Bernoulli,
    Categorical,
    Columns,
    Gaussian,
    Poisson,
    emission_for,
)
from hiddenstate.latent.emissions.seeding import clusters
from latent.emission_examples import EXAMPLES

KEY = jr.key(0)


def data_of(example):
    return Sequences.of(
        [np.asarray(example.steps.values)], inputs=None if example.steps.inputs is None else [example.steps.inputs]
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_starting_anew_keeps_the_kind_and_follows_the_key(name):
    example = EXAMPLES[name]
    data, single = data_of(example), cast(example.emission, np.float32)
    for how in ("random", "kmeans"):
        started = single.restart(data, key=KEY, how=how)
        assert jax.tree.structure(started) == jax.tree.structure(single)
        shapes = [[(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(each)] for each in (started, single)]
        assert shapes[0] == shapes[1]
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(started))
    assert eqx.tree_equal(started, single.restart(data, key=KEY, how="kmeans"))
    assert not eqx.tree_equal(started, single.restart(data, key=jr.key(1), how="random"))


def test_reseeding_changes_the_empty_states_alone():
    for name, example in EXAMPLES.items():
        emission = example.emission
        empty = np.arange(emission.states) == 1
        new = emission.reseed(empty, data_of(example), key=KEY)
        assert jax.tree.structure(new) == jax.tree.structure(emission)
        x, u, past = jax.tree.map(
            lambda a: np.asarray(a)[0], (example.steps.values, example.steps.inputs, example.pasts)
        )
        before, after = (np.asarray(_log_likelihoods(e, x, u, past)) for e in (emission, new))
        np.testing.assert_allclose(after[~empty], before[~empty], rtol=1e-10, err_msg=name)
        assert after[1] != before[1] and np.isfinite(after).all()


@eqx.filter_jit
def _log_likelihoods(emission, x, u, past):
    return emission.log_likelihoods(x, u, past)


def test_k_means_finds_clusters_that_lie_apart():
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, 300)
    points = np.array([[0, 0], [0, 9], [9, 0], [9, 9]])[labels] + random.normal(size=(300, 2))
    found = clusters(points, 4, np.random.default_rng(1))
    assert len({(a, b) for a, b in zip(labels, found, strict=True)}) == 4
    assert set(clusters(np.zeros((10, 2)), 3, np.random.default_rng(1))) == {0}
    assert len(set(clusters(np.array([[0.0], [0.0], [1.0], [1.0]]), 3, np.random.default_rng(1)))) == 2


def test_states_start_at_clusters_also_where_entries_are_missing():
    random = np.random.default_rng(0)
    state = random.integers(0, 2, 500)
    x = np.array([[0.0, 1000.0], [5.0, 1000.0]])[state] + random.normal(size=(500, 2)) * [0.5, 100]
    x[random.random(x.shape) < 0.1] = np.nan
    emission = emission_for(Sequences.of(x), 2, key=KEY)
    assert isinstance(emission, Gaussian) and emission.covariance == "full"
    np.testing.assert_allclose(np.sort(emission.means[:, 0]), [0.0, 5.0], atol=0.6)
    np.testing.assert_allclose(emission.means[:, 1], 1000.0, atol=40)

    counts = Sequences.of(random.poisson(np.array([1.0, 30.0])[state])[:, None])
    np.testing.assert_allclose(np.sort(emission_for(counts, 2, key=KEY).rates[:, 0]), [1.0, 30.0], rtol=0.2)

    u = random.normal(size=(500, 1))
    lines = Sequences.of(np.array([-2.0, 2.0])[state] * u[:, 0] + 0.1 * random.normal(size=500), inputs=u)
    np.testing.assert_allclose(
        np.sort(emission_for(lines, 2, key=KEY, family="regression").weights[:, 0]), [-2, 2], atol=0.1
    )


def test_fewer_rows_than_components_are_enough():
    few = Sequences.of(np.array([0.0, 1.0, 5.0]))
    made = emission_for(few, 2, key=KEY, family="gaussian-mixture", components=3)
    assert np.isfinite(made.means).all() and (made.covariances > 0).all()


def test_zeros_survive_a_new_start():
    symbols = Categorical([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    data = Sequences.of([0, 1, 2, 1, 0])
    for how in ("kmeans", "random"):
        np.testing.assert_array_equal(symbols.restart(data, key=KEY, how=how).probs == 0, symbols.probs == 0)
    assert (symbols.reseed([True, False], data, key=KEY).probs[0] != symbols.probs[0]).any()


def test_the_family_follows_the_kind_of_the_data():
    random = np.random.default_rng(0)
    reals = random.normal(size=(60, 2))

    def family(data, **options):
        return emission_for(Sequences.of(data), 2, key=KEY, **options)

    assert isinstance(family(random.integers(0, 4, 60)), Categorical)
    assert isinstance(family(random.integers(0, 2, (60, 3))), Bernoulli)
    assert isinstance(family(random.integers(0, 9, (60, 3))), Poisson)
    assert family(reals[:, 0]).event_shape == ()
    assert family(random.normal(size=(60, 11))).covariance == "diagonal"
    assert family(reals, covariance="tied").covariance == "tied"
    mixture = family(reals, family="gaussian-mixture", components=3, covariance="diagonal")
    assert mixture.means.shape == mixture.covariances.shape == (2, 3, 2)
    assert isinstance(family(reals, family="autoregressive", lags=3), Autoregressive)
    for name, kind in (("negative-binomial", "NegativeBinomial"), ("student-t", "StudentT")):
        made = family(random.integers(0, 9, 60), family=name)
        assert isinstance(made, getattr(emissions, kind))

    columns = (Column("sky", "symbol", 3, ("clear", "cloud", "fog")), Column("heat", "real"), Column("rain", "count"))
    values = np.stack([random.integers(0, 3, 60), random.normal(size=60), random.integers(0, 9, 60)], axis=1)
    records = Sequences.of([values], schema=Schema(columns, scalar=False))
    made = emission_for(records, 2, key=KEY)
    assert isinstance(made, Columns) and list(made.emissions) == ["sky", "heat", "rain"]
    assert [type(part) for part in made.parts] == [Categorical, Gaussian, Poisson]


def test_data_that_do_not_fit_are_refused_in_a_sentence():
    reals = Sequences.of(np.array([0.5, 1.5, 2.5]))
    wrong = {
        "4 hidden states need at least 4 observed steps, but the data hold 3": lambda: emission_for(reals, 4, key=KEY),
        "states is 0; it must be a whole number of at least 1": lambda: emission_for(reals, 0, key=KEY),
        "emission is 'bimodal'; it must be one of categorical": lambda: emission_for(
            reals, 2, key=KEY, family="bimodal"
        ),
        "there is no option 'lags'": lambda: emission_for(reals, 2, key=KEY, lags=2),
        "column 'x' holds 0.5, but poisson emissions take whole": lambda: emission_for(
            reals, 2, key=KEY, family="poisson"
        ),
        "regression emissions depend on inputs": lambda: emission_for(reals, 2, key=KEY, family="regression"),
        "lags is 0": lambda: emission_for(reals, 2, key=KEY, family="autoregressive", lags=0),
        r"each observation has shape \(\), but this Gaussian is for": lambda: EXAMPLES[
            "gaussian full"
        ].emission.restart(reals, key=KEY),
        "takes 3 inputs at every step, but the data have 0": lambda: EXAMPLES["regression scalar"].emission.restart(
            reals, key=KEY
        ),
        "how is 'best'": lambda: EXAMPLES["gaussian scalar"].emission.restart(reals, key=KEY, how="best"),
    }
    for sentence, call in wrong.items():
        with pytest.raises((DataError, HiddenStateError), match=sentence):
            call()
    gaps = Sequences.of(np.array([0.5, np.nan, np.nan]))
    with pytest.raises(DataError, match="2 hidden states need at least 2 observed steps, but the data hold 1"):
        EXAMPLES["gaussian scalar"].emission.restart(gaps, key=KEY)
