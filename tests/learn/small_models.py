"""Models so small that what they should learn can be said beforehand."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist

import hiddenstate as hs


@hs.register("test-unigram")
class Unigram(hs.SequenceModel):
    """Symbols drawn independently: the optimum is their empirical distribution."""

    logits: object

    def initial(self):
        return jnp.zeros(())

    def prepare(self, x, u=None):
        return jnp.zeros(())

    def step(self, state, element):
        return state + element

    def readout(self, state, u=None):
        return dist.Categorical(logits=jnp.real(self.logits))


@hs.register("test-edge")
class Edge(Unigram):
    """A bit whose odds are a function of a weight, defined or with a slope for positive weights only."""

    function: str = eqx.field(static=True, default="log")

    def readout(self, state, u=None):
        odds = {"log": jnp.log, "sqrt": jnp.sqrt}[self.function](self.logits)
        return dist.Categorical(logits=jnp.stack([odds, jnp.zeros_like(odds)]))


def symbols(count=20, length=12, *, seed=0, ragged=False, probs=(0.2, 0.3, 0.5)) -> hs.Sequences:
    random = np.random.default_rng(seed)
    lengths = random.integers(2, length + 1, count) if ragged else np.full(count, length)
    return hs.Sequences.of([random.choice(len(probs), p=probs, size=n) for n in lengths])


def network(seed=0, hidden=3, cell=None, dtype=None, **options):
    cell_key, head_key = jr.split(jr.key(seed))
    made = (cell or hs.cells.Vanilla)(3, hidden, key=cell_key, **options)
    model = hs.RNN(made, hs.heads.Categorical(made.output_size, 3, key=head_key), initial="learned")
    return model if dtype is None else hs.cast(model, dtype)
