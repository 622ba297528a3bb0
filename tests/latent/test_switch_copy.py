"""SwitchCopy against the sum over all states and switches, and against the dense hidden Markov model it stands for."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

import hiddenstate as hs
from hiddenstate.core import Steps, has, partition
from hiddenstate.inference import arrays_for, masked_log_probs, steps_of
from marks import quick

K, S = 3, 4
random = np.random.default_rng(11)
RESET, PRIOR = 0.3, random.dirichlet(np.ones(K))
SYMBOLS = random.dirichlet(np.ones(S), 2 * K)
BETWEEN = np.array([[0.2, 0.8, 0.0], [0.1, 0.3, 0.6], [1.0, 0.0, 0.0]])
XS = [1, 3, None, 2]
KINDS = {
    "states": (False, None),
    "resets seen": (True, None),
    "moving": (False, BETWEEN),
    "moving, resets seen": (True, BETWEEN),
}


@pytest.fixture(params=quick(KINDS), scope="module")
def kind(request):
    return KINDS[request.param]


def switch_copy(kind, reset=RESET):
    seen, between = kind
    return hs.SwitchCopy(
        reset, PRIOR, hs.emissions.Categorical(probs=SYMBOLS if seen else SYMBOLS[:K]), between=between
    )


def close(found, expected, tolerance=1e-10):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance)


# -- the sum over everything hidden ------------------------------------------------------------------------------


class Truth:
    """All ways that states and switches can go, with the probability of each together with the observations."""

    def __init__(self, kind, xs):
        seen, between = kind
        copied = np.eye(K) if between is None else between
        self.states, self.resets, joint = [], [], []
        for states in itertools.product(range(K), repeat=len(xs)):
            for later in itertools.product((0, 1), repeat=len(xs) - 1):
                resets = (1, *later)
                each = [PRIOR[states[0]]]
                for before, state, reset in zip(states[:-1], states[1:], later, strict=True):
                    each.append(RESET * PRIOR[state] if reset else (1 - RESET) * copied[before, state])
                for t, x in enumerate(xs):
                    if x is not None:
                        each[t] *= SYMBOLS[states[t] + (K if seen and resets[t] else 0), x]
                self.states.append(states)
                self.resets.append(resets)
                joint.append(each)
        self.states, self.resets, self.each = np.array(self.states), np.array(self.resets), np.array(joint)
        self.joint = self.each.prod(1)
        self.steps = len(xs)

    def posterior(self, upto):
        weights = self.each[:, :upto].prod(1)
        # later steps that were not yet seen are summed out: every beginning is counted once
        first = np.unique(np.hstack([self.states[:, :upto], self.resets[:, :upto]]), axis=0, return_index=True)[1]
        kept = np.zeros(len(weights))
        kept[first] = weights[first]
        return kept / kept.sum()

    def marginals(self, weights):
        return np.stack([np.bincount(self.states[:, t], weights, K) for t in range(self.steps)])

    @property
    def filtered(self):
        each = [self.posterior(t + 1) for t in range(self.steps)]
        return (
            np.stack([self.marginals(weights)[t] for t, weights in enumerate(each)]),
            np.array([weights @ self.resets[:, t] for t, weights in enumerate(each)]),
        )

    def best(self, seen):
        """Of states with switches summed out, or where these are seen, of both together."""
        if seen:
            top = np.argmax(self.joint)
            return self.states[top], self.joint[top]
        paths, which = np.unique(self.states, axis=0, return_inverse=True)
        sums = np.bincount(which.ravel(), self.joint)
        return paths[np.argmax(sums)], sums.max()


def data_of(xs):
    known = np.array([x is not None for x in xs])
    return hs.Sequences.of([np.array([0 if x is None else x for x in xs])], missing=[~known])


def test_everything_equals_the_sum_over_states_and_switches(kind):
    model, data, truth = switch_copy(kind), data_of(XS), Truth(kind, XS)
    posterior = truth.joint / truth.joint.sum()
    close(hs.log_prob(model, data)[0], np.log(truth.joint.sum()))
    marginals, resets = truth.filtered
    close(hs.filter(model, data)[0], marginals)
    close(model.filtered_resets(data)[0], resets)
    smoothed = hs.smooth(model, data)
    close(smoothed.marginals[0], truth.marginals(posterior))
    close(smoothed.resets[0], posterior @ truth.resets)
    states, best = truth.best(kind[0])
    decoded = hs.most_likely_states(model, data)
    np.testing.assert_array_equal(decoded.states[0], states)
    close(decoded.log_prob[0], np.log(best))


def test_an_em_step_takes_the_expected_shares(kind):
    model, truth = switch_copy(kind), Truth(kind, XS)
    steps = jax.tree.map(lambda a: jnp.asarray(a)[0], steps_of(arrays_for(model, data_of(XS))))
    found, total = model.expected_statistics(steps, hs.Sequential())
    derived, same = model.expected_statistics(steps, hs.Sequential(), how="gradient")
    close(total, np.log(truth.joint.sum()))
    close(total, same)
    jax.tree.map(close, found, derived)
    posterior = truth.joint / truth.joint.sum()
    later = posterior @ truth.resets[:, 1:]
    new = model.maximise(found)
    close(new.reset, later.sum() / (len(XS) - 1))
    fresh = sum(np.bincount(truth.states[:, t], posterior * truth.resets[:, t], K) for t in range(len(XS)))
    close(new.prior, fresh / fresh.sum())
    emitted = np.zeros((2 * K, S))
    for t, x in enumerate(XS):
        if x is not None:
            np.add.at(emitted[:, x], truth.states[:, t] + K * (kind[0] & (truth.resets[:, t] == 1)), posterior)
    emitted = emitted if kind[0] else emitted[:K]
    close(new.emission.probs, emitted / emitted.sum(1, keepdims=True), 1e-9)
    if kind[1] is not None:
        moves = np.zeros((K, K))
        for t in range(1, len(XS)):
            np.add.at(moves, (truth.states[:, t - 1], truth.states[:, t]), posterior * (truth.resets[:, t] == 0))
        close(new.between, moves / moves.sum(1, keepdims=True))


def test_posterior_samples_have_the_frequencies_of_their_paths(kind):
    model, truth, count = switch_copy(kind), Truth(kind, XS[:3]), 20_000
    draws = np.asarray(hs.sample_states(model, data_of(XS[:3]), key=jr.key(1), n=count))[0]
    powers = K ** np.arange(3)
    seen = np.bincount(draws @ powers, minlength=K**3) / count
    expected = np.bincount(truth.states @ powers, truth.joint, K**3) / truth.joint.sum()
    assert (np.abs(seen - expected) < 5 * np.sqrt(expected * (1 - expected) / count) + 1e-4).all()


# -- the hidden Markov model it stands for -----------------------------------------------------------------------


def dense(kind, reset=RESET):
    """The same as a hidden Markov model with all its transitions written out."""
    seen, between = kind
    kept = (1 - reset) * (np.eye(K) if between is None else between)
    fresh = np.broadcast_to(reset * PRIOR, (K, K))
    if not seen:
        return hs.HMM(PRIOR, kept + fresh, hs.emissions.Categorical(probs=SYMBOLS[:K]))
    rows = np.concatenate([kept, fresh], axis=1)
    return hs.HMM(
        np.concatenate([np.zeros(K), PRIOR]), np.concatenate([rows, rows]), hs.emissions.Categorical(probs=SYMBOLS)
    )


def folded(kind, beliefs):
    beliefs = np.asarray(beliefs)
    return beliefs[..., :K] + beliefs[..., K:] if kind[0] else beliefs


LONG = hs.Sequences.of([np.random.default_rng(1).integers(0, S, n) for n in (40, 1, 17)])
SHORT = hs.Sequences.of([np.random.default_rng(2).integers(0, S, n) for n in (7, 1, 5)])


def test_it_equals_the_dense_model_on_ragged_data(kind):
    model, whole = switch_copy(kind), dense(kind)
    close(hs.step_log_probs(model, LONG), hs.step_log_probs(whole, LONG))
    close(hs.filter(model, LONG), folded(kind, hs.filter(whole, LONG)))
    smoothed, reference = hs.smooth(model, LONG), hs.smooth(whole, LONG)
    close(smoothed.marginals, folded(kind, reference.marginals))
    if kind[0]:
        close(smoothed.resets, np.asarray(reference.marginals)[..., K:].sum(-1))
    close(hs.fixed_lag(model, LONG, 3), folded(kind, hs.fixed_lag(whole, LONG, 3)))
    found, best = hs.most_likely_states(model, LONG), hs.most_likely_states(whole, LONG)
    close(found.log_prob, best.log_prob)
    np.testing.assert_array_equal(found.states, np.asarray(best.states) % K)


@pytest.mark.parametrize("name", quick(["moving, resets seen", "states"]))
def test_the_gradient_is_that_of_a_plain_loop_over_the_dense_matrix(name):
    """Also in chunks, whose backward pass recomputes them, and for steps that count differently."""
    model = switch_copy(KINDS[name])
    learned, rest = partition(model)
    arrays = arrays_for(model, SHORT)._replace(context=np.array([3, 0, 1]))

    def fast(learned, strategy):
        return masked_log_probs(eqx.combine(learned, rest), arrays, strategy)[0].sum()

    def plain(learned):
        model = eqx.combine(learned, rest)
        keep = (1 - model.reset) * (jnp.eye(K) if model.between is None else model.between)
        fresh = jnp.broadcast_to(model.reset * model.prior, (K, K))
        likelihoods = model.emission.probs.T
        total = 0.0
        for xs, context in zip(SHORT, (3, 0, 1), strict=True):
            kept, drawn = jnp.zeros(K), model.prior
            for t, x in enumerate(xs):
                of_kept, of_drawn = likelihoods[x, :K], likelihoods[x, -K:]
                kept, drawn = kept * of_kept, drawn * of_drawn
                scale = kept.sum() + drawn.sum()
                total = total + (jnp.log(scale) if t >= context else 0.0)
                both = (kept + drawn) / scale
                kept, drawn = both @ keep, both @ fresh
        return total

    expected, slopes = jax.jit(jax.value_and_grad(plain))(learned)
    for strategy in (hs.Sequential(), hs.Sequential(checkpoint=3)):
        value, found = jax.jit(jax.value_and_grad(fast), static_argnums=1)(learned, strategy)
        close(value, expected)
        jax.tree.map(close, found, slopes)


# -- at a cost linear in the states ------------------------------------------------------------------------------


def largest(jaxpr) -> int:
    """The most numbers in any value of a program, and of the programs within."""
    sizes = [var.aval.size for eqn in jaxpr.eqns for var in eqn.outvars if hasattr(var.aval, "size")]
    inner = [sub for eqn in jaxpr.eqns for sub in jaxprs_in_params(eqn.params)]
    return max([*sizes, *(largest(sub) for sub in inner)], default=0)


@pytest.mark.parametrize("seen", [False, True])
def test_nothing_of_the_size_of_a_matrix_is_ever_built(seen):
    states, time = 50, 6
    means = np.linspace(-3, 3, states * (2 if seen else 1))
    model = hs.SwitchCopy(0.1, np.full(states, 1 / states), hs.emissions.Gaussian(means, np.ones_like(means)))
    steps = Steps(jnp.linspace(-1, 1, time))
    way = hs.Sequential()
    learned, rest = partition(model)
    score = lambda learned: eqx.combine(learned, rest).score_sequence(model.initial(), steps, way)[0].sum()  # noqa: E731
    calls = {
        "gradient": lambda: jax.grad(score)(learned),
        "filter": lambda: model.filter(steps, way),
        "smooth": lambda: model.smooth(steps, way),
        "fixed_lag": lambda: model.fixed_lag(steps, way, 2),
        "viterbi": lambda: model.most_likely_states(steps, way),
        "sample": lambda: model.sample_states(steps, way, jr.key(0)),
        "em": lambda: eqx.filter(model.maximise(model.expected_statistics(steps, way)[0]), eqx.is_array),
        "predict": lambda: model.step(model.initial(), model.prepare(steps.values[0])),
        "latent_next": lambda: model.latent_next(3).logits,
    }
    for name, call in calls.items():
        size = largest(jax.make_jaxpr(call)().jaxpr)
        assert 0 < size <= 2 * states * time < states**2, name


# -- learning ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def generated():
    """What a switch with resets at every tenth step gives, with states that are easy to tell apart."""
    truth = hs.SwitchCopy(0.1, [0.2, 0.3, 0.5], hs.emissions.Gaussian([-3.0, 0.0, 3.0], [0.5, 0.5, 0.5]))
    return truth, hs.sample(truth, 300, key=jr.key(3), n=10)


def test_em_recovers_the_switch_and_the_states(generated):
    truth, data = generated
    model = hs.build("switch-copy", data, states=3, key=jr.key(0))
    fit = hs.fit(model, data, hs.EM(restarts=2), key=jr.key(1), progress=False)
    loss = fit.history["loss"].to_numpy()
    assert fit.converged
    assert (np.diff(loss) < 1e-12).all()
    found = fit.model.permuted(np.argsort(np.asarray(fit.model.emission.means)))
    # standard errors: 0.006 for 3000 moves at 0.1, 0.03 for 300 resets, 0.02 for 1000 steps in a state
    close(found.reset, 0.1, 0.03)
    close(found.prior, truth.prior, 0.12)
    close(found.emission.means, truth.emission.means, 0.1)
    assert hs.log_prob(found, data, total=True) > hs.log_prob(truth, data, total=True)
    close(hs.log_prob(found, data), hs.log_prob(fit.model, data))
    assert found.free_parameters() == 1 + 2 + 6
    smoothed = hs.smooth(found, data)
    assert 0.08 < float(smoothed.resets[:, 1:].mean()) < 0.12


@pytest.mark.parametrize("form", quick([{}, {"sees_resets": True}, {"between": True}]))
def test_em_never_falls_and_repairs_what_is_empty(generated, form):
    data = generated[1][:3]
    model = hs.build("switch-copy", data, states=4, key=jr.key(5), **form)
    fit = hs.fit(model, data, hs.EM(iterations=25, repair=False), key=jr.key(1), progress=False)
    assert (np.diff(fit.history["loss"].to_numpy()) < 1e-12).all()
    empty = np.array([False, True, False, False])
    reseeded = model.reseed(empty, data, key=jr.key(2))
    changed = np.asarray(reseeded.emission.means) != np.asarray(model.emission.means)
    np.testing.assert_array_equal(changed, np.tile(empty, 2 if "sees_resets" in form else 1))
    assert reseeded.prior[1] > model.prior[1]


def test_what_is_frozen_or_not_named_stays(generated):
    data = generated[1][:2]
    emission = hs.emissions.Gaussian([-3.0, 0.0, 3.0], [1.0, 1.0, 1.0])
    frozen = hs.SwitchCopy(hs.Frozen(jnp.asarray(0.4)), hs.Frozen(jnp.asarray([0.5, 0.5, 0.0])), emission)
    assert frozen.free_parameters() == 6
    method = hs.EM(iterations=3, repair=False)
    found = hs.fit(frozen, data, method, key=jr.key(0), progress=False).model
    close(found.reset, 0.4)
    close(found.prior, [0.5, 0.5, 0.0])
    open_ = hs.SwitchCopy(0.4, [0.3, 0.3, 0.4], emission)
    found = hs.fit(open_, data, hs.EM(iterations=3, only="reset"), key=jr.key(0), progress=False).model
    assert found.reset < 0.39
    close(found.prior, open_.prior)
    close(found.emission.means, emission.means)
    with pytest.raises(hs.HiddenStateError, match=r"only names 'transition'; the parts .* reset, prior, emission\."):
        hs.fit(open_, data, hs.EM(only="transition"), key=jr.key(0), progress=False)


def test_pseudocounts_are_those_of_a_dirichlet_prior():
    model = switch_copy((False, None))
    steps = Steps(jnp.asarray([1, 3, 0, 2, 2, 2]))
    found, _ = model.expected_statistics(steps, hs.Sequential())
    new = model.maximise(found, prior=hs.Prior(pseudocount=2.0))
    resets = float(found.transition.resets.sum())
    close(new.reset, (resets + 2) / (5 + 4))
    counts = np.asarray(found.initial + found.transition.resets) + 2
    close(new.prior, counts / counts.sum())


# -- a switch that does nothing ----------------------------------------------------------------------------------


NEVER, ALWAYS = "the switch never fires", "the switch fires at every step"


@pytest.mark.parametrize(("reset", "said", "seen"), [(0.0, NEVER, False), (1.0, ALWAYS, True)])
def test_a_switch_that_is_stuck_works_and_is_reported(reset, said, seen):
    model = switch_copy((seen, None), reset)
    data = hs.Sequences.of([[1, 3, 0, 2, 2, 2], [0, 1]])
    close(hs.log_prob(model, data), hs.log_prob(dense((seen, None), reset), data))
    smoothed = hs.smooth(model, data)
    close(smoothed.resets[0], [1, *[reset] * 5])
    if reset == 1.0:  # nothing is remembered: every step is a draw from the prior
        expected = [np.log(PRIOR @ SYMBOLS[-K:] if seen else PRIOR @ SYMBOLS[:K])[x] for x in (1, 3, 0, 2, 2, 2)]
        close(hs.step_log_probs(model, data)[0], expected)
    else:
        states = np.asarray(hs.most_likely_states(model, data).states)
        assert (states == states[:, :1]).all()
    learned, rest = partition(model)
    arrays = arrays_for(model, data)
    slopes = jax.grad(lambda p: masked_log_probs(eqx.combine(p, rest), arrays, hs.Auto())[0].sum())(learned)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))
    fit = hs.fit(model, data, hs.EM(iterations=5), key=jr.key(0), progress=False)
    assert said in fit.reason
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(eqx.filter(fit.model, eqx.is_inexact_array)))
    close(fit.model.reset, reset)


def test_learning_that_loses_the_switch_says_so():
    data = hs.Sequences.of([[0] * 20, [1] * 20, [0] * 20])
    model = hs.SwitchCopy(0.3, [0.6, 0.4], hs.emissions.Categorical(probs=[[0.8, 0.2], [0.3, 0.7]]))
    fit = hs.fit(model, data, hs.EM(), key=jr.key(0), progress=False)
    assert fit.reason.endswith("every sequence keeps its first state.")
    assert "the switch never fires (probability" in fit.reason
    close(fit.model.prior, [2 / 3, 1 / 3], 1e-4)
    steady = hs.fit(model, [0, 0, 0, 1, 1, 1, 1, 0, 0], hs.EM(iterations=2), key=jr.key(0), progress=False)
    assert "the switch" not in steady.reason


# -- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"reset": 1.2}, r"reset is 1.2; a probability is from 0 to 1\."),
        ({"reset": -0.1}, r"reset is -0.1; a probability is from 0 to 1\."),
        ({"reset": [0.1, 0.2]}, r"reset has shape \(2,\); it must be one probability\."),
        ({"reset": float("nan")}, r"reset is nan; it must be finite\."),
        ({"prior": [0.5, 0.4, 0.4]}, r"prior sums to 1.3; probabilities must sum to 1\."),
        ({"prior": []}, r"prior has shape \(0,\); it holds no number\."),
        ({"prior": [0.5, 0.5]}, r"emission has 3 states, but prior has 2; it must have as many, or 4"),
        ({"emission": "gaussian"}, r"emission is 'gaussian'; it must be one of hs.emissions\."),
        ({"between": np.eye(2)}, r"between has shape \(2, 2\); it must be \(3, 3\), from each state to each\."),
        ({"between": np.ones((3, 2)) / 2}, r"between has shape \(3, 2\); it must be \(3, 3\)"),
        ({"between": np.ones((3, 3))}, r"row 0 of between sums to 3; probabilities must sum to 1\."),
    ],
)
def test_bad_input_is_refused_in_a_sentence(change, said):
    given = {"reset": 0.1, "prior": PRIOR, "emission": hs.emissions.Categorical(probs=SYMBOLS[:K]), **change}
    with pytest.raises(hs.HiddenStateError, match=said):
        hs.SwitchCopy(**given)


def test_a_recipe_without_states_and_a_parallel_scan_are_refused():
    with pytest.raises(hs.HiddenStateError, match="states is 0; it must be a whole number of at least 1"):
        hs.build("switch-copy", [0, 1, 1, 0], states=0, key=jr.key(0))
    model = switch_copy((False, None))
    assert not has(model, "combine")
    with pytest.raises(hs.StrategyError, match="combine"):
        hs.log_prob(model, LONG, strategy=hs.Associative())


def test_single_precision_is_kept_whatever_the_numbers_are_given_in():
    probs = jnp.asarray(SYMBOLS[:K], jnp.float32)
    model = hs.SwitchCopy(0.3, PRIOR, hs.emissions.Categorical(probs=probs / probs.sum(1, keepdims=True)))
    assert hs.log_prob(model, LONG).dtype == jnp.float32
    close(hs.log_prob(model, LONG), hs.log_prob(switch_copy((False, None)), LONG), 1e-5)


@pytest.mark.slow
def test_a_particle_filter_over_it_finds_the_same_likelihood():
    model = switch_copy(KINDS["moving, resets seen"])
    particles = hs.ParticleFilter(model, 4000, key=jr.key(0))
    # the error of 4000 particles over 17 steps is a few percent of a nat
    close(hs.log_prob(particles, LONG[2:]), hs.log_prob(model, LONG[2:]), 0.15)


def test_the_command_line_fits_and_decodes(tmp_path):
    from typer.testing import CliRunner

    from hiddenstate.cli.app import app

    table = tmp_path / "steps.csv"
    levels = np.repeat(np.random.default_rng(0).integers(0, 2, 12) * 4.0, 10) + np.random.default_rng(1).normal(
        size=120
    )
    table.write_text("level\n" + "\n".join(f"{x:.3f}" for x in levels))
    out = tmp_path / "model.safetensors"
    run = lambda *words: CliRunner().invoke(app, [str(w) for w in words])  # noqa: E731
    fitted = run("fit", table, "--model", "switch-copy", "--states", 2, "--out", out)
    assert fitted.exit_code == 0, fitted.output
    assert isinstance(hs.load(out), hs.SwitchCopy)
    decoded = run("decode", out, table, "--out", tmp_path / "decoded.csv")
    assert decoded.exit_code == 0, decoded.output
    refused = run("fit", table, "--model", "switch-copy", "--states", 2, "--option", "emission=gamma", "--out", out)
    assert refused.exit_code == 2 and "Traceback" not in refused.output
