import hiddenstate as hs
import hiddenstate.inspect.costs as costs


def test_exponents_are_printed_and_written(run, tmp_path, monkeypatch):
    tiny = hs.inspect.CostSizes(at_steps=8, steps=(8, 16), at_units=2, units=(), at_batch=1, batch=(), repeats=0)
    monkeypatch.setattr(costs, "QUICK", tiny)
    result = run("inspect", "cost", "--models", "vanilla", "--quick", "--out", tmp_path / "cost")
    assert result.exit_code == 0, result.stderr
    assert "vanilla, sequential gradient    bytes" in result.stdout
    assert "sequential: 16 of 16 steps wait for each other" in result.stdout
    assert {path.name for path in (tmp_path / "cost").iterdir()} == {"costs.csv", "exponents.csv", "cost.png"}


def test_unknown_models_are_refused_in_a_sentence(run, tmp_path):
    result = run("inspect", "cost", "--models", "gru,nonsense", "--out", tmp_path / "cost")
    assert result.exit_code == 2
    assert "nonsense" in result.stderr
    assert not (tmp_path / "cost").exists()
    assert "Traceback" not in result.stderr
