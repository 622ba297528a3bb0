"""Speed of latent-state models against hmmlearn and statsmodels, side by side in one process.

The peers are no requirement of the project; those that are not installed are left out.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import hiddenstate as hs
from hiddenstate.inference import arrays_for, masked_log_probs, sequences_for, steps_of

HMMS = [(4, 1, 50_000), (8, 50, 1_000), (32, 10, 1_000)]
"""States, sequences, steps of each."""

SERIES = [("local-level", 2_000), ("level+seasonal", 1_000)]


def hmm(states, sequences, length):
    """A Gaussian HMM of two columns with diagonal covariances, in double precision as hmmlearn's."""
    random = np.random.default_rng(0)
    transition = 0.8 * np.eye(states) + 0.2 * random.dirichlet(np.ones(states), states)
    means, variances = random.normal(size=(states, 2)) * 3, random.uniform(0.5, 1.5, (states, 2))
    emission = hs.emissions.Gaussian(means=means, covariances=variances, covariance="diagonal")
    return hs.HMM(np.full(states, 1 / states), transition, emission)


def hmm_functions(states, sequences, length):
    """What is timed: ours, and hmmlearn's where it is installed."""
    model = hmm(states, sequences, length)
    data = hs.sample(model, length, key=jr.key(0), n=sequences)
    arrays = jax.tree.map(jnp.asarray, arrays_for(model, sequences_for(model, data)))
    learned, rest = eqx.partition(model, eqx.is_inexact_array)

    @jax.jit
    def score(learned):
        return masked_log_probs(eqx.combine(learned, rest), arrays, hs.Auto())[0].sum()

    @jax.jit
    def around(learned):
        model = eqx.combine(learned, rest)
        found, total = jax.vmap(lambda steps: model.expected_statistics(steps, hs.Sequential()))(steps_of(arrays))
        new = model.maximise(jax.tree.map(lambda a: a.sum(0), found))
        return eqx.filter(new, eqx.is_inexact_array), total.sum()

    @jax.jit
    def decode(learned):
        model = eqx.combine(learned, rest)
        return jax.vmap(lambda steps: model.most_likely_states(steps, hs.Sequential()))(steps_of(arrays))

    gradient = jax.jit(jax.grad(score))
    ours = {"score": score, "gradient": gradient, "EM iteration": around, "Viterbi": decode}
    timed = {
        name: {"ours": lambda function=function: jax.block_until_ready(function(learned))}
        for name, function in ours.items()
    }
    try:
        from hmmlearn.hmm import GaussianHMM
    except ImportError:
        return timed
    xs, lengths = np.concatenate(list(data)), [length] * sequences

    def fresh(**options):
        peer = GaussianHMM(states, "diag", covars_prior=0, covars_weight=0, min_covar=0, **options)
        peer.startprob_, peer.transmat_ = np.asarray(model.initial()), np.asarray(model.transition)
        peer.means_, peer.covars_ = np.asarray(model.emission.means), np.asarray(model.emission.covariances)
        return peer

    peer = fresh()
    timed["score"]["hmmlearn"] = lambda: peer.score(xs, lengths)
    timed["Viterbi"]["hmmlearn"] = lambda: peer.decode(xs, lengths)
    timed["EM iteration"]["hmmlearn"] = lambda: fresh(init_params="", n_iter=1).fit(xs, lengths)
    return timed


def series_functions(structure, length):
    """The likelihood and the smoother of a structural model of one series."""
    random = np.random.default_rng(1)
    xs = np.cumsum(random.normal(size=length)) + random.normal(size=length)
    options = {"period": 12} if "seasonal" in structure else {}
    model = hs.cast(
        hs.build("linear-gaussian", xs, structure=structure, diffuse=True, key=jr.key(0), **options), jnp.float64
    )
    data = sequences_for(model, xs)
    timed = {
        "score": {"ours": lambda: jax.block_until_ready(hs.log_prob(model, data))},
        "smooth": {"ours": lambda: jax.block_until_ready(hs.smooth(model, data))},
    }
    try:
        from statsmodels.tsa.statespace.structural import UnobservedComponents
    except ImportError:
        return timed
    peer = UnobservedComponents(xs, "llevel", seasonal=options.get("period"), use_exact_diffuse=True)
    start = peer.start_params
    timed["score"]["statsmodels"] = lambda: peer.loglike(start)
    timed["smooth"]["statsmodels"] = lambda: peer.smooth(start)
    return timed


def cases():
    """What there is to time: a label, and functions by what they do and whose they are."""
    jax.config.update("jax_enable_x64", True)
    for shape in HMMS:
        yield "hmm, {} states, {} x {}".format(*shape), hmm_functions(*shape)
    for structure, length in SERIES:
        yield f"{structure}, {length} steps", series_functions(structure, length)
