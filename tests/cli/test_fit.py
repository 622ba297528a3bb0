import jax.random as jr
import pytest

import hiddenstate as hs
from hiddenstate.cli.building import option_value
from hiddenstate.cli.training import Training
from hiddenstate.learn.scores import score

SMALL = ("--sequence", "town", "--time", "day", "--columns", "sky", "--model", "vanilla", "--hidden", 2)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory, weather):
    from typer.testing import CliRunner

    from hiddenstate.cli import app

    out = tmp_path_factory.mktemp("fit") / "sky.safetensors"
    words = ["fit", weather, *SMALL, "--epochs", 2, "--out", out, "--seed", 3]
    return out, CliRunner().invoke(app, [str(word) for word in words])


def test_it_saves_a_model_and_says_how_good_it_is(fitted, weather):
    out, result = fitted
    assert result.exit_code == 0, result.output
    model = hs.load(out)
    data = hs.read(weather, sequence="town", time="day", columns="sky")
    assert model.schema == data.schema
    train, held = data.split(0.9, key=jr.split(jr.key(3), 3)[0])
    assert f"train        {score(model, train)}" in result.stdout
    assert f"validation   {score(model, held)}" in result.stdout
    assert "ran all 2 epochs" in result.stdout
    assert f"{hs.parameter_count(model)} parameters; seed 3" in result.stderr
    assert "12 sequences of 6 to 8 steps, 1 column: sky (3 symbols: dry, rain, sun)" in result.stderr


def test_the_checkpoint_goes_when_the_run_is_done(fitted):
    out, _ = fitted
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_the_same_seed_gives_the_same_file(fitted, run, weather, tmp_path):
    out, _ = fitted
    again = tmp_path / "again.safetensors"
    run("fit", weather, *SMALL, "--epochs", 2, "--seed", 3, "--out", again)
    assert again.read_bytes() == out.read_bytes()


def test_an_interrupted_run_says_how_to_go_on_and_goes_on(fitted, run, fails, weather, tmp_path, monkeypatch):
    out, _ = fitted
    path = tmp_path / "model.safetensors"
    words = ("fit", weather, *SMALL, "--seed", 3, "--out", path)
    checkpoint = path.with_name("model.safetensors.checkpoint")
    real = hs.fit

    def interrupted(*args, **options):
        real(*args, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(hs, "fit", interrupted)
    result = run(*words, "--epochs", 2)
    assert result.exit_code == 130
    assert "The same command goes on" in result.stderr
    assert checkpoint.exists() and not path.exists()
    monkeypatch.setattr(hs, "fit", real)
    said = fails(*words, "--epochs", 1)
    assert "is the checkpoint of another run" in said and "or --restart to begin anew" in said
    assert run(*words, "--epochs", 2).exit_code == 0
    assert path.read_bytes() == out.read_bytes()
    assert not checkpoint.exists()


def test_restart_forgets_the_checkpoint(run, weather, tmp_path):
    path = tmp_path / "model.safetensors"
    path.with_name("model.safetensors.checkpoint").write_text("of something else")
    words = ("fit", weather, *SMALL, "--epochs", 1, "--validation", 0, "--out", path)
    assert run(*words).exit_code == 2
    assert run(*words, "--restart").exit_code == 0


def test_options_reach_the_model(run, weather, tmp_path):
    path = tmp_path / "model.safetensors"
    words = [*SMALL, "--epochs", 1, "--option", "nonlinearity=relu", "--option", "embedding=2", "--out", path]
    assert run("fit", weather, *words).exit_code == 0
    model = hs.load(path)
    assert (model.cell.nonlinearity, model.encoder.encoded_size) == ("relu", 2)


def test_options_are_checked(fails, weather):
    layout = ("--sequence", "town", "--time", "day", "--columns", "temp")
    assert "there is no model named 'nope'; known are" in fails("fit", weather, *layout, "--model", "nope")
    assert "'unigram' has no option 'hidden'; it takes head." in fails(
        "fit", weather, *layout, "--model", "unigram", "--hidden", 3
    )
    assert "must be KEY=VALUE" in fails("fit", weather, *layout, "--option", "reset")
    assert "has no option 'colour'" in fails("fit", weather, *layout, "--option", "colour=red")
    assert "head is 'nope'" in fails("fit", weather, *layout, "--head", "nope")
    assert "learning_rate is -1.0" in fails("fit", weather, *layout, "--learning-rate", -1)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("true", True),
        ("relu", "relu"),
        ("1,10", (1, 10)),
        ("[1, 4]", [1, 4]),
        ("a,b", "a,b"),
    ],
)
def test_values_of_options_are_read(written, value):
    assert option_value(written) == value


def test_one_short_sequence_gets_enough_updates_and_a_long_one_is_cut():
    short = Training().how("sgd", "gru", hs.Sequences.of([0.0] * 300))
    assert (short.epochs, short.truncate, short.evaluate_steps) == (1500, None, 10)
    long = Training().how("sgd", "gru", hs.Sequences.of([0.0] * 5120))
    assert (long.epochs, long.truncate, long.evaluate_steps) == (100, 256, 20)
    assert Training(epochs=7, truncate=0).how("sgd", "gru", hs.Sequences.of([0.0] * 5120)).truncate is None
    pairs = hs.Pairs.of([[0.0] * 1000], [1])
    assert Training().how("sgd", "gru", pairs).truncate is None


def test_markov_models_learn_by_em(run, fails, weather, tmp_path):
    out = tmp_path / "hmm.safetensors"
    columns = ("--sequence", "town", "--time", "day", "--columns", "sky")
    result = run("fit", weather, *columns, "--model", "hmm", "--states", 2, "--restarts", 2, "--out", out)
    assert result.exit_code == 0, result.output
    assert "hmm by em" in result.stderr and "of 2 starts was the best" in result.stdout
    assert "validation" not in result.stdout and hs.load(out).states == 2
    assert f"hiddenstate decode {out} {weather}" in result.stderr
    assert "--restarts is for --method em" in fails("fit", weather, *SMALL, "--restarts", 2)
    assert "cannot learn by EM" in fails("fit", weather, *SMALL, "--method", "em", "--out", out)
