"""A model that answers, so small that its answers can be computed by hand."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist

import hiddenstate as hs


@hs.register("test-labeller")
class Labeller(hs.ConditionalModel):
    """The label of every step from its symbol and the mean of all real ones: softmax of a row and a slope."""

    rows: object
    slope: object

    def answer_log_probs(self, source, target, strategy):
        valid = jnp.ones(source.length, bool) if source.valid is None else source.valid
        mean = jnp.where(valid, source.values, 0).sum() / jnp.maximum(valid.sum(), 1)
        logits = self.rows[source.values] + self.slope * mean
        return jax.vmap(lambda logits, y: dist.Categorical(logits=logits).log_prob(y))(logits, target.values)


def labeller(seed=0) -> Labeller:
    rows_key, slope_key = jr.split(jr.key(seed))
    return Labeller(jr.normal(rows_key, (3, 2)), jr.normal(slope_key, (2,)))


def labelled(count=10, length=7, *, seed=0, ragged=True, missing=False) -> hs.Pairs:
    """Symbols 0, 1, 2 with the label "is it a 2", wrong one time in ten."""
    random = np.random.default_rng(seed)
    lengths = random.integers(2, length + 1, count) if ragged else np.full(count, length)
    sources = [random.integers(0, 3, n) for n in lengths]
    targets = [(s == 2) ^ (random.random(len(s)) < 0.1) for s in sources]
    masks = [random.random(n) < 0.3 for n in lengths] if missing else None
    return hs.Pairs.of(sources, [t.astype(int) for t in targets], missing=masks)


def nats_by_hand(model: Labeller, pairs: hs.Pairs) -> list[np.ndarray]:
    """-log p of every target that counts, one array a pair, in plain NumPy."""
    rows, slope, out = np.asarray(model.rows, float), np.asarray(model.slope, float), []
    for number in range(len(pairs)):
        source, target = pairs[number]
        logits = rows[source] + slope * source.mean()
        log_probs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        out.append(-log_probs[np.arange(len(source)), target][pairs.scored[number, : len(source)]])
    return out
