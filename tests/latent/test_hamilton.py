"""Hamilton's autoregression against sums over all paths of regimes, dense chains, and stored results of statsmodels."""

import itertools
import math
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from typer.testing import CliRunner

import hiddenstate as hs
from hiddenstate.cli import app
from hiddenstate.core import Steps, partition
from hiddenstate.latent.hmm.operators import Dense
from hiddenstate.latent.hmm.recursions import Chain
from hiddenstate.latent.hmm.tuples import Tuples
from marks import quick

STORED = np.load(Path(__file__).parents[1] / "reference" / "hamilton.npz")
GROWTH = hs.Sequences.of([STORED["x"]])
X = np.array([0.3, -1.0, 0.8, 1.9, 0.2, -0.7, 1.1])

TWO = [[0.8, 0.2], [0.3, 0.7]]
THREE = [[0.6, 0.4, 0.0], [0.1, 0.7, 0.2], [0.5, 0.0, 0.5]]
CASES = {
    "mean": {"initial": "stationary", "transition": TWO, "means": [-1.0, 1.0], "coefficients": [0.5, -0.2]},
    "mean, switching": {
        "initial": [0.3, 0.7],
        "transition": TWO,
        "means": [-1.0, 1.0],
        "coefficients": [[0.5, -0.2], [-0.3, 0.4]],
        "variances": [0.5, 1.5],
    },
    "intercept": {
        "initial": [0.3, 0.7],
        "transition": TWO,
        "means": [-1.0, 1.0],
        "coefficients": [0.5, -0.2],
        "form": "intercept",
    },
    "three, zeros": {
        "initial": [0.5, 0.5, 0.0],
        "transition": THREE,
        "means": [-1.0, 0.0, 1.5],
        "coefficients": [0.6],
        "variances": [0.5, 1.0, 0.3],
        "start": (0.2, 2.0),
    },
}


def made(name, **changes):
    return hs.Hamilton(**{"variances": 0.7, **CASES[name], **changes})


def normal(x, mean, variance):
    return -0.5 * ((x - mean) ** 2 / variance + math.log(2 * math.pi * variance))


def paths(model, x, matrices=None):
    """log p(path, x) of every path of regimes, by the equation of the model, term by term."""
    initial, fixed = np.asarray(model.initial_probs), np.asarray(model.transition.probs)
    means, variances = np.asarray(model.means), np.broadcast_to(model.variances, model.states)
    slopes = np.broadcast_to(model.coefficients, (model.states, model.lags))
    first_mean, first_variance = np.asarray(model.emission.start)
    found = {}
    for path in itertools.product(range(model.states), repeat=len(x)):
        with np.errstate(divide="ignore"):
            total = float(np.log(initial[path[0]]))
            for t in range(1, len(x)):
                total += float(np.log((fixed if matrices is None else matrices[t - 1])[path[t - 1], path[t]]))
        for t, z in enumerate(path):
            if t < model.lags:
                total += normal(x[t], first_mean, first_variance)
                continue
            mean = means[z]
            for j in range(1, model.lags + 1):
                level = means[path[t - j]] if model.emission.form == "mean" else 0.0
                mean += slopes[z, j - 1] * (x[t - j] - level)
            total += normal(x[t], mean, variances[z])
        found[path] = total
    return found


def marginals(found, at, states):
    """p(z_at | x) from the weights of all paths."""
    keys, values = np.array(list(found)), np.exp(np.array(list(found.values())))
    return np.array([values[keys[:, at] == k].sum() for k in range(states)]) / values.sum()


@pytest.fixture(scope="module", params=CASES)
def case(request):
    model = made(request.param)
    return model, paths(model, X)


def test_log_probability_sums_over_all_paths(case):
    model, found = case
    np.testing.assert_allclose(hs.log_prob(model, X)[0], np.logaddexp.reduce(list(found.values())), rtol=1e-12)


def test_posteriors_are_those_of_all_paths(case):
    model, found = case
    smoothed = hs.smooth(model, X)
    wanted = [marginals(found, t, model.states) for t in range(len(X))]
    np.testing.assert_allclose(smoothed.marginals[0], wanted, atol=1e-12)
    keys, values = np.array(list(found)), np.exp(np.array(list(found.values())))
    pair = np.zeros((model.states, model.states))
    np.add.at(pair, (keys[:, 3], keys[:, 4]), values / values.sum())
    np.testing.assert_allclose(smoothed.pairwise[0, 3], pair, atol=1e-12)
    early = paths(model, X[:5])
    np.testing.assert_allclose(hs.filter(model, X)[0, 4], marginals(early, 4, model.states), atol=1e-12)


def test_decoding_finds_the_best_of_all_paths(case):
    model, found = case
    best = max(found, key=lambda path: found[path])
    decoded = hs.most_likely_states(model, X)
    assert tuple(np.asarray(decoded.states[0])) == best
    np.testing.assert_allclose(decoded.log_prob[0], found[best], rtol=1e-12)


def test_smoothing_with_a_fixed_lag_sees_so_many_steps_more():
    model = made("three, zeros")
    early = paths(model, X[:5])
    np.testing.assert_allclose(hs.fixed_lag(model, X, 2)[0, 2], marginals(early, 2, 3), atol=1e-12)


def test_predictions_are_mixtures_over_all_pasts():
    model = made("mean, switching")
    ahead = hs.predictive(model, X)
    early = paths(model, X[:5])
    weights = np.exp(np.array(list(early.values())))
    means, slopes = np.asarray(model.means), np.asarray(model.coefficients)
    total = 0.0
    for path, weight in zip(early, weights / weights.sum(), strict=True):
        for z in range(2):
            mean = means[z] + sum(slopes[z, j - 1] * (X[5 - j] - means[path[5 - j]]) for j in (1, 2))
            total += weight * TWO[path[4]][z] * mean
    np.testing.assert_allclose(ahead.mean[0, 5], total, rtol=1e-12)
    forecast = hs.forecast(model, X[:5], 2, key=jr.key(0), n=200)
    assert forecast.mean is not None
    np.testing.assert_allclose(forecast.mean[0, 0], total, rtol=1e-12)


def test_drawn_regimes_follow_the_posterior():
    model = made("three, zeros")
    drawn = np.asarray(hs.sample_states(model, X, key=jr.key(0), n=4000))[0]
    moves = drawn[:, :-1] * 3 + drawn[:, 1:]
    assert not np.isin(moves, (2, 7)).any()  # moves that are impossible
    shares = np.stack([(drawn == k).mean(0) for k in range(3)], axis=1)
    np.testing.assert_allclose(shares, hs.smooth(model, X).marginals[0], atol=5 * 0.5 / math.sqrt(4000))


def test_transitions_that_inputs_drive():
    moves = hs.InputDriven(TWO, np.array([[[0.0], [1.5]], [[-2.0], [0.0]]]))
    model = made("mean, switching", transition=moves)
    inputs = np.array([[0.1], [-1.0], [0.7], [0.3], [1.2], [0.0], [0.4]])
    matrices = [np.asarray(moves.matrix(jnp.asarray(u))) for u in inputs]
    found = paths(model, X, matrices)
    data = hs.Sequences.of([X], inputs=[inputs])
    np.testing.assert_allclose(hs.log_prob(model, data)[0], np.logaddexp.reduce(list(found.values())), rtol=1e-12)
    np.testing.assert_allclose(hs.smooth(model, data).marginals[0, 2], marginals(found, 2, 2), atol=1e-12)


def test_other_names_of_regimes_change_nothing():
    for name in ("mean", "mean, switching"):
        model = made(name)
        np.testing.assert_allclose(hs.log_prob(model.permuted([1, 0]), X), hs.log_prob(model, X), rtol=1e-12)


def test_intercepts_are_an_autoregressive_hidden_markov_model():
    """After one lag, a chain that begins as it goes on does not care whether the first step is counted."""
    variances, slopes = [0.5, 1.5], [[0.5], [-0.3]]
    model = made("intercept", initial="stationary", coefficients=slopes, variances=variances)
    emission = hs.emissions.Autoregressive([-1.0, 1.0], slopes, variances, start=X[:1])
    plain = hs.HMM("stationary", TWO, emission)
    np.testing.assert_allclose(hs.log_prob(model, X, given=1), hs.log_prob(plain, X[1:]), rtol=1e-12)


def test_the_graph_has_an_arrow_from_every_regime_that_counts():
    """An observation depends on the regimes before in the mean form alone."""
    by_mean, by_intercept = (set(hs.inspect.graph(made(name), 4).edges) for name in ("mean", "intercept"))
    assert by_mean - by_intercept == {("Z1", "X2"), ("Z1", "X3"), ("Z2", "X3"), ("Z2", "X4"), ("Z3", "X4")}
    assert by_intercept < by_mean


# -- the chain of tuples -------------------------------------------------------------------------------------


def dense(matrix, memory):
    """The matrix over tuples, entry by entry."""
    states = len(matrix)
    every = list(itertools.product(range(states), repeat=memory + 1))
    whole = np.zeros((len(every), len(every)))
    for i, before in enumerate(every):
        for j, after in enumerate(every):
            if before[1:] == after[:-1]:
                whole[i, j] = matrix[before[-1]][after[-1]]
    return whole


@pytest.mark.parametrize("memory", quick([2, 1, 0]))
def test_tuples_move_as_their_dense_matrix(memory):
    tuples = Tuples(jnp.asarray(THREE), memory)
    whole = Dense(jnp.asarray(dense(THREE, memory)))
    belief = jr.dirichlet(jr.key(0), jnp.ones(3 ** (memory + 1)))
    values = jr.normal(jr.key(1), belief.shape)
    for method, of in (("move", belief), ("back", values)):
        np.testing.assert_allclose(getattr(tuples, method)(of), getattr(whole, method)(of), atol=1e-15)
    logs, whole_logs = Chain(tuples).logarithms().operator, Chain(whole).logarithms().operator
    np.testing.assert_allclose(logs.best(values), whole_logs.best(values), atol=1e-15)
    for following in (0, 3 ** (memory + 1) - 1):
        before = logs.previous(values, following)
        assert before == whole_logs.previous(values, following)
        np.testing.assert_allclose(logs.log_move(before, following), whole_logs.log_move(before, following))


def test_no_array_has_the_square_of_the_tuples():
    """Three regimes and four lags are 243 tuples: a step of filtering or of learning keeps far from 243 squared."""
    model = made("three, zeros", coefficients=[0.4, 0.1, -0.1, 0.05])
    tuples = 3**5

    def sizes(jaxpr):
        for equation in jaxpr.eqns:
            yield from (math.prod(v.aval.shape) for v in equation.outvars)
            for inner in jaxprs_in_params(equation.params):
                yield from sizes(inner)

    steps = Steps(jnp.zeros(5))
    for run in (
        lambda: model.step(model.initial(), model.prepare(jnp.zeros(()))),
        lambda: model.smooth(steps, hs.Sequential()).marginals,
        lambda: model.maximise(model.expected_statistics(steps, hs.Sequential())[0]),
    ):
        traced = jax.make_jaxpr(lambda run=run: [a for a in jax.tree.leaves(run()) if hasattr(a, "dtype")])()
        assert max(sizes(traced.jaxpr)) <= 36 * tuples  # products of the 6 moments of each tuple


# -- learning ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", quick(["mean, switching", "intercept"]))
def test_em_rises_to_where_the_slope_is_zero(name):
    """Closed forms of the blocks, checked by what they must lead to: a maximum, never falling on the way."""
    truth = made(name, coefficients=CASES[name]["coefficients"], means=[-1.5, 1.5])
    data = hs.sample(truth, 60, key=jr.key(3), n=2)
    start = made(name, means=[-0.5, 0.8], initial=hs.Frozen(jnp.array([0.3, 0.7])))
    fit = hs.fit(start, data, hs.EM(iterations=400, tolerance=1e-10), key=jr.key(0), progress=False)
    losses = fit.history["loss"].to_numpy()
    assert (np.diff(losses) <= 1e-12).all() and losses[-1] < losses[0] - 0.01
    learned, rest = partition(fit.model)

    def loss(learned):
        return -hs.log_prob(eqx.combine(learned, rest), data, total=True) / data.steps

    slopes = jax.tree.leaves(jax.jit(jax.grad(loss))(learned))
    assert max(float(jnp.abs(a).max()) for a in slopes) < 1e-4


def test_expected_statistics_by_recursion_and_by_gradient():
    model, steps = made("three, zeros"), Steps(jnp.asarray(X))
    both = jax.jit(
        lambda: [model.expected_statistics(steps, hs.Sequential(), how)[0] for how in ("backward", "gradient")]
    )
    back, gradient = both()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-10), back, gradient)
    np.testing.assert_allclose(back.occupancy, hs.smooth(model, X).marginals[0].sum(0), rtol=1e-12)


def test_growth_is_fitted_as_well_as_by_statsmodels():
    """From the recipe's own start, by EM alone, which maximises what is conditional on the first four quarters."""
    start = hs.build("hamilton", GROWTH, key=jr.key(0))
    fit = hs.fit(start, GROWTH, hs.EM(), key=jr.key(0), progress=False)
    assert fit.converged
    assert (np.diff(fit.history["loss"].to_numpy()) <= 1e-12).all()
    assert hs.log_prob(fit.model, GROWTH, given=4)[0] > STORED["ar4/maximum"] - 1e-3
    np.testing.assert_allclose(np.sort(fit.model.means), STORED["ar4/means"], atol=0.01)


def test_gradients_learn_what_is_conditional():
    model = made("mean")
    data = hs.sample(made("mean", means=[-2.0, 2.0]), 40, key=jr.key(0))
    fit = hs.fit(model, data, hs.SGD(steps=5, learning_rate=0.05), key=jr.key(0), given=2, progress=False)
    assert hs.log_prob(fit.model, data, given=2)[0] > hs.log_prob(model, data, given=2)[0]
    np.testing.assert_array_equal(fit.model.emission.start, model.emission.start)


def test_a_new_start_keeps_the_kind_of_model():
    for options in ({}, {"switching_coefficients": True, "switching_variance": True, "form": "intercept"}):
        model = hs.build("hamilton", GROWTH, key=jr.key(0), states=3, lags=2, initial="free", **options)
        again = model.restart(GROWTH, key=jr.key(1), how="random")
        shapes = [[a.shape for a in jax.tree.leaves(m)] for m in (model, again)]
        assert shapes[0] == shapes[1]
        assert model.coefficients.shape == ((3, 2) if options else (2,))
        assert model.variances.shape == ((3,) if options else ())
        assert np.isfinite(hs.log_prob(again, GROWTH)[0])
        fresh = again.reseed(np.array([False, True, False]), GROWTH, key=jr.key(2))
        np.testing.assert_allclose(fresh.means[0], again.means[0], rtol=1e-12)
        assert abs(float(fresh.means[1] - again.means[1])) > 1e-3


def test_sequences_shorter_than_the_lags_say_nothing_of_levels():
    model, method = made("mean, switching"), hs.EM(iterations=1)
    alone, beside = (
        hs.fit(model, data, method, key=jr.key(0), progress=False).model for data in ([X], [X, X[:2], X[:1]])
    )
    for part in ("means", "coefficients", "variances"):
        np.testing.assert_allclose(getattr(beside, part), getattr(alone, part), rtol=1e-9)
    assert not np.allclose(alone.means, model.means)


def test_a_series_that_never_moves_has_a_model():
    for level in (0.0, 3.0):
        data = hs.Sequences.of([np.full(20, level)])
        model = hs.build("hamilton", data, key=jr.key(0), lags=1, initial="fixed")
        fit = hs.fit(model, data, hs.EM(iterations=3), key=jr.key(0), progress=False)
        np.testing.assert_allclose(fit.model.means, level, atol=1e-6)
        assert np.isfinite(hs.log_prob(fit.model, data)[0])


# -- statsmodels ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", quick(["ar4", "ar2-switching", "three-variances", "intercept"]))
def test_statsmodels(name):
    """Its log-likelihood given the first observations, and its probabilities of the regimes: the same sums."""
    parts = (STORED[f"{name}/{part}"] for part in ("transition", "means", "coefficients", "variances"))
    model = hs.Hamilton("stationary", *parts, form="intercept" if name == "intercept" else "mean")
    lags = model.lags
    np.testing.assert_allclose(hs.log_prob(model, GROWTH, given=lags)[0], STORED[f"{name}/log_prob"], atol=1e-8)
    np.testing.assert_allclose(hs.filter(model, GROWTH)[0, lags:], STORED[f"{name}/filtered"], atol=1e-8)
    np.testing.assert_allclose(hs.smooth(model, GROWTH).marginals[0, lags:], STORED[f"{name}/smoothed"], atol=1e-8)


# -- bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"variances": 0.0}, "variances is 0; variances must be above 0"),
        ({"variances": [0.5, -1.0]}, r"variances\[1\] is -1"),
        ({"variances": [0.5, 0.5, 0.5]}, "means is for 2 hidden states, but variances has 3"),
        ({"coefficients": [[0.1], [0.2], [0.3]]}, "means is for 2 hidden states, but coefficients has 3"),
        ({"coefficients": []}, r"coefficients has shape \(0,\); it holds no number"),
        ({"coefficients": [float("nan")]}, "it must be finite"),
        ({"means": []}, r"means has shape \(0,\); it holds no number"),
        ({"means": [0.0, 1.0, 2.0]}, "transition has 2 states, but emission has 3"),
        ({"coefficients": np.zeros(20)}, r"2 states and 20 lags make 2\^21 tuples"),
        ({"form": "median"}, "form is 'median'; it must be 'mean' or 'intercept'"),
        ({"start": (0.0, 0.0)}, r"start\[1\] is 0; a variance must be above 0"),
        ({"start": 1.0}, r"start has shape \(\); it must be \(2,\), a mean and a variance"),
        ({"initial": "uniform"}, "initial is 'uniform'"),
    ],
)
def test_what_makes_no_model(changes, said):
    with pytest.raises(hs.HiddenStateError, match=said):
        made("mean", **changes)


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        ([X[:4]], {}, "lags is 4, but the longest sequence has 4 steps; an autoregression needs more than 4"),
        ([X], {"states": 0}, "states is 0; it must be a whole number of at least 1"),
        ([X], {"lags": 0}, "lags is 0; it must be a whole number of at least 1"),
        ([X], {"initial": "any"}, "initial is 'any'; it must be one of free, fixed, stationary"),
        ([np.array([0, 1, 1, 0, 1, 1])], {}, "the data hold symbols"),
        ([np.zeros((7, 2)) + 0.5], {}, r"each observation has shape \(2,\)"),
        ([np.where(np.arange(7) == 2, np.nan, X)], {}, "sequence 0 has a missing value at step 3"),
    ],
)
def test_data_that_it_cannot_be_built_for(data, options, said):
    with pytest.raises(hs.HiddenStateError, match=said):
        hs.build("hamilton", hs.Sequences.of(data), key=jr.key(0), **options)


def test_data_that_it_cannot_learn_from_or_read():
    model = made("mean")
    assert np.isfinite(hs.log_prob(model, X[:2])[0])  # a short sequence has a probability
    for method in (hs.EM(), hs.SGD(steps=1)):  # but says nothing of the regimes
        with pytest.raises(hs.DataError, match="lags is 2, but the longest sequence has 2 steps"):
            hs.fit(model, X[:2], method, key=jr.key(0), progress=False)
    with pytest.raises(hs.MissingDataError, match="missing value at step 4"):
        hs.log_prob(model, np.where(np.arange(7) == 3, np.nan, X))


# -- the command line ----------------------------------------------------------------------------------------


@pytest.fixture
def growth(tmp_path):
    path = tmp_path / "growth.csv"
    path.write_text("growth\n" + "\n".join(str(value) for value in STORED["x"][:60]) + "\n")
    return path


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_it_is_fitted_from_the_shell(growth):
    out = growth.with_name("model.safetensors")
    fitted = run("fit", growth, "--model", "hamilton", "--option", "lags=1", "--out", out)
    assert fitted.exit_code == 0, fitted.output
    model = hs.load(out)
    assert isinstance(model, hs.Hamilton) and model.lags == 1
    short = run("fit", growth, "--model", "hamilton", "--option", "lags=70", "--out", out)
    assert short.exit_code == 2 and "lags is 70, but the longest sequence has 60 steps" in short.output


@pytest.mark.slow
def test_it_is_compared_from_the_shell(growth):
    out = growth.with_name("table")
    compared = run("compare", growth, "--models", "ar1,hamilton", "--out", out)
    assert compared.exit_code == 0, compared.output
    assert "hamilton" in (out / "table.json").read_text()


@pytest.mark.parametrize("lags", [1, 3])
def test_one_step_is_smoothed(lags):
    """The first steps say nothing of the regime, so that it has the shares of the long run."""
    model = hs.Hamilton("stationary", [[0.9, 0.1], [0.2, 0.8]], [1.0, -1.0], [0.3] * lags, 0.2)
    found = hs.smooth(model, [0.0])
    np.testing.assert_allclose(found.marginals, [[[2 / 3, 1 / 3]]], rtol=1e-6)
    assert found.pairwise.shape == (1, 0, 2, 2)
