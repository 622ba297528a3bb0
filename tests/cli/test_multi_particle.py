"""Several particles from the command line."""

import hiddenstate as hs

COLUMNS = ("--sequence", "town", "--time", "day", "--columns", "sky")


def test_particles_are_fitted_saved_and_scored(run, fails, weather, tmp_path):
    out = tmp_path / "particles.safetensors"
    small = (*COLUMNS, "--model", "multi-particle", "--hidden", 2, "--epochs", 1, "--out", out)
    options = ("--option", "particles=3", "--option", "weighting=trajectory", "--option", "cell=vanilla")
    result = run("fit", weather, *small, *options)
    assert result.exit_code == 0, result.output
    model = hs.load(out)
    assert isinstance(model, hs.MultiParticle) and model.weighting == "trajectory"
    assert model.particles.count == 3 and isinstance(model.cell, hs.cells.Vanilla)
    scored = run("score", out, weather)
    assert scored.exit_code == 0 and "nats per step" in scored.output
    assert "weighting is 'now'; it must be one of 'step', 'trajectory'" in fails(
        "fit", weather, *small, "--option", "weighting=now"
    )


def test_a_contest_names_its_contenders(fails, tmp_path):
    said = fails("compare", "--task", "multimodal", "--models", "gru (large)", "--out", tmp_path / "out")
    assert "multimodal has no contender 'gru (large)'; it has multi-particle, gru, gru (mixture)" in said
    said = fails("compare", "sunspots", "--task", "multimodal", "--out", tmp_path / "out")
    assert "--task makes the data" in said
    assert "clock, or multimodal" in fails("compare", "--task", "multi", "--out", tmp_path / "out")
