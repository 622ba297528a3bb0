"""Switching linear Gaussian models by their name, from data and from the command line."""

import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from latent.test_switching import line, turning


@pytest.fixture(scope="module")
def single():
    return hs.Sequences.of(list(np.asarray(line().simulate(60, key=jr.key(0), n=2).values)))


def test_the_recipe_knows_what_regimes_share(single):
    model = hs.build("slds", single, states=2, size=2, key=jr.key(0))
    assert (model.regimes, model.state_size, model.scalar) == (2, 2, True)
    assert {"observation", "observation_noise"} <= set(model.shared)
    assert not {"dynamics", "dynamics_noise", "dynamics_offset"} & set(model.shared)
    assert np.isfinite(hs.log_prob(model, single)).all()


def test_the_recipe_makes_chains():
    data = hs.Sequences.of(list(np.asarray(turning().simulate(60, key=jr.key(0), n=2).values)))
    model = hs.build("slds", data, states=2, size=1, form="chains", key=jr.key(0))
    assert model.chains == (1, 1)
    assert "dynamics" in model.shared
    assert np.isfinite(hs.log_prob(model, data)).all()


def test_a_start_from_the_data_beats_one_normal_distribution(single):
    model = hs.build("slds", single, states=2, size=1, recurrent=True, key=jr.key(0))
    assert np.all(np.asarray(model.recurrence) == 0)
    values = np.concatenate([np.asarray(row) for row in single])
    alone = -0.5 * len(values) * (np.log(2 * np.pi * values.var()) + 1)
    assert hs.log_prob(model, single, total=True) > alone


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"states": 0}, "states is 0; it must be a whole number of at least 1"),
        ({"size": 0}, "size is 0; it must be a whole number of at least 1"),
        ({"form": "both"}, "form is 'both'; it must be 'dynamics' or 'chains'"),
        ({"method": "exact"}, "method is 'exact'; it must be 'gpb2' or 'imm'"),
    ],
)
def test_bad_options_are_refused(single, options, sentence):
    with pytest.raises(hs.HiddenStateError, match=sentence):
        hs.build("slds", single, key=jr.key(0), **options)


def test_symbols_are_refused():
    with pytest.raises(hs.DataError, match="needs numbers, but the data hold symbols"):
        hs.build("slds", hs.Sequences.of([np.array([0, 1, 2, 1])]), key=jr.key(0))


def test_the_command_line_fits_one(single, tmp_path):
    from typer.testing import CliRunner

    from hiddenstate.cli import app

    table, out = tmp_path / "line.csv", tmp_path / "line.safetensors"
    np.savetxt(table, np.asarray(single[0]), header="x", comments="")
    words = ["fit", table, "--model", "slds", "--states", 2, "--option", "size=1", "--epochs", 2, "--out", out]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    model = hs.load(out)
    assert isinstance(model, hs.SwitchingLinearGaussian)
    assert (model.regimes, model.state_size) == (2, 1)
    refused = CliRunner().invoke(app, ["fit", str(table), "--model", "slds", "--option", "size=0", "--out", str(out)])
    assert refused.exit_code == 2
