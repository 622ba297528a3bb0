r"""Does a network compute what the forward algorithm computes? The conditions of a homomorphism, measured.

Proposition 6 of Choe, Shin and Spencer (2017) says when the hidden vectors h of a network and the forward vectors
:math:`\alpha` of a hidden Markov model give the same predictions: there is a map :math:`\phi` from the second to the
first with

.. math::

    \text{C.1: } \phi(\alpha_1) = h_1, \qquad
    \text{C.2: } \phi \circ \tilde f_x = f_x \circ \phi \text{ for every symbol } x, \qquad
    \text{C.3: } \tilde g = g \circ \phi

Here they are measured on normalised beliefs :math:`p(z_t \mid x_{<t})` and in the time convention of this library. The
paper's forward vectors :math:`P(z_t, x_{\le t})` are not normalised: they shrink like the likelihood, so that after
some dozen steps all of them lie next to zero, where no continuous map can tell them apart. Predictions depend on their
ratios alone, so nothing is lost; and their vector at t has seen x_t where this one predicts it, a shift by one.
The proof needs the conditions only where the beliefs ever are, so they are checked on the beliefs of data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float, PRNGKeyArray, State
from hiddenstate.core import HiddenStateError, SequenceModel, Sequences, checked_key, dtype_of, name_of
from hiddenstate.inference import states
from hiddenstate.inference.observations import prototype, sequences_for
from hiddenstate.inspect.regression import affine_fit, bent_fit, parted
from hiddenstate.ops.vectors import as_vector, entries, from_vector

_AT_ONCE = 4096

Map = Callable[[Any], Any]


class Residual(NamedTuple):
    """By how much a condition is missed: the mean and the largest distance, and the spread of what is compared."""

    mean: float
    largest: float
    spread: float

    @property
    def relative(self) -> float:
        """The mean in units of the spread."""
        return _ratio(self.mean, self.spread)

    @property
    def relative_largest(self) -> float:
        """The largest in units of the spread."""
        return _ratio(self.largest, self.spread)


@dataclass(frozen=True, eq=False)
class Homomorphism:
    """How nearly a map from beliefs to hidden states makes a network and a hidden Markov model the same.

    `start`, `update` and `readout` are the residuals of the conditions C.1, C.2 and C.3: Euclidean distances between
    hidden states, and for the last between the probabilities of the next symbol. Their `spread` is the root mean
    squared distance from the mean, of the network's states and of the model's predictions. The mean of `update` counts
    each symbol as often as the model expects it; its largest value is over all symbols that are possible.

    What they imply: `states`, the distance between the image of the belief and the network's own state, which is zero
    at all steps where C.1 and C.2 hold; and mean Kullback-Leibler divergences in nats per step from the prediction of
    the forward algorithm, `network_divergence` to that of the network and `image_divergence` to what the network's
    read-out makes of the image of the belief. The first is zero where all conditions hold, the second where C.3 does.

    `steps` is the number of beliefs that this was measured on and `phi` the map, learned or given.
    """

    start: Residual
    update: Residual
    readout: Residual
    states: Residual
    network_divergence: float
    image_divergence: float
    steps: int
    phi: Map

    def __str__(self) -> str:
        lines = [f"{'':34}{'mean':>10}{'largest':>10}   relative to the spread, on {self.steps} steps"]
        for said, residual in (
            ("C.1  phi(belief_1) = h_1", self.start),
            ("C.2  phi(f~(belief)) = f(phi)", self.update),
            ("C.3  g~(belief) = g(phi)", self.readout),
            ("so   phi(belief_t) = h_t", self.states),
        ):
            lines.append(f"{said:34}{residual.relative:10.2g}{residual.relative_largest:10.2g}")
        lines.append(f"{'nats lost by g(phi(belief))':34}{self.image_divergence:10.2g}")
        lines.append(f"{'nats lost by the network':34}{self.network_divergence:10.2g}")
        return "\n".join(lines)


def homomorphism(
    hmm: SequenceModel,
    rnn: SequenceModel,
    phi: Map | Literal["linear", "mlp"],
    data: Any,
    *,
    key: PRNGKeyArray | None = None,
) -> Homomorphism:
    """The residuals of conditions C.1 to C.3 of Proposition 6 of Choe, Shin and Spencer (2017), for a map `phi`.

    `phi` is a function from the belief p(z_t | x_<t), a vector of probabilities, to a state of the network or to the
    vector of its numbers: then all of `data` are looked at. Or it is learned: ``"linear"`` is the affine map of least
    squares, ``"mlp"`` adds a hidden layer of 64 units to that, begun with `key`. A learned map is fitted to the states
    in the first three quarters of the sequences, and judged on the others.

    `hmm` is a model of symbols, usually an `HMM`, whose state is the belief; `rnn` any other model of the same symbols.
    For `exact_rnn` with the identity for `phi` all residuals are rounding errors.

    >>> print(hs.inspect.homomorphism(hmm, hs.exact_rnn(hmm), lambda belief: belief, data))  # doctest: +SKIP
    """
    symbols = _checked_symbols(hmm, rnn)
    data = sequences_for(rnn, sequences_for(hmm, data))
    if callable(phi):
        image = phi
    else:
        known, data = parted(data)
        image = _learned(phi, visited(hmm, known), visited(rnn, known), key)
    _check_image(image, hmm, jax.eval_shape(rnn.initial))
    beliefs, hidden = visited(hmm, data), visited(rnn, data)
    found = _measured(hmm, rnn, image, symbols, jnp.asarray(beliefs), jnp.asarray(hidden))
    found = jax.tree.map(lambda a: np.asarray(a, np.float64), found)
    spread = _spread(np.asarray(hidden, np.float64))
    return Homomorphism(
        start=Residual(float(found.start), float(found.start), spread),
        update=Residual(float(found.update.mean()), float(found.worst.max()), spread),
        readout=Residual(float(found.readout.mean()), float(found.readout.max()), _spread(found.predicted)),
        states=Residual(float(found.states.mean()), float(found.states.max()), spread),
        network_divergence=float(found.network.mean()),
        image_divergence=float(found.image.mean()),
        steps=len(beliefs),
        phi=image,
    )


def visited(model: SequenceModel, data: Sequences) -> np.ndarray:
    """The states of a model at all steps of data, as vectors, one row a step: what predicts x_t, for every t."""
    found = states(model, data)
    rows = jax.vmap(jax.vmap(as_vector))(found)
    return np.asarray(rows)[data.valid]


def symbols_of(model: SequenceModel, argument: str) -> int:
    """How many symbols a model knows; an error where it does not predict single symbols."""
    expected = prototype(model)
    most = getattr(expected.support, "upper_bound", None)
    if expected.event_shape or not isinstance(most, int | np.integer):
        raise HiddenStateError(f"{argument} is a {name_of(model)} that does not predict symbols; it must.")
    return int(most) + 1


class _Measured(NamedTuple):
    """What is measured at every step; `start` once."""

    start: Array
    update: Array
    worst: Array
    readout: Array
    states: Array
    predicted: Array
    network: Array
    image: Array


@eqx.filter_jit
def _measured(
    hmm: Any, rnn: Any, phi: Any, count: int, beliefs: Float[Array, "step state"], hidden: Float[Array, "step hidden"]
) -> _Measured:
    symbols = jnp.arange(count)
    like_belief, like = jax.eval_shape(hmm.initial), jax.eval_shape(rnn.initial)
    hmm_elements, rnn_elements = (jax.vmap(model.prepare)(symbols) for model in (hmm, rnn))

    def image_of(belief: State) -> Array:
        return as_vector(phi(belief)).astype(dtype_of(rnn))

    def one(row: Any) -> _Measured:
        belief, h = from_vector(row[0], like_belief), from_vector(row[1], like)
        image = image_of(belief)
        there = jax.vmap(lambda element: image_of(hmm.step(belief, element)))(hmm_elements)
        here = jax.vmap(lambda element: as_vector(rnn.step(from_vector(image, like), element)))(rnn_elements)
        missed = _distance(there, here)
        expected = hmm.readout(belief).log_prob(symbols)
        probs = jnp.exp(expected)
        by_image = rnn.readout(from_vector(image, like)).log_prob(symbols).astype(expected.dtype)
        by_network = rnn.readout(h).log_prob(symbols).astype(expected.dtype)
        possible = probs > 0
        return _Measured(
            start=jnp.zeros(()),
            update=jnp.where(possible, probs * missed, 0.0).sum(),
            worst=jnp.where(possible, missed, 0.0).max(),
            readout=_distance(probs, jnp.exp(by_image)),
            states=_distance(image, row[1]),
            predicted=probs,
            network=_divergence(expected, by_network),
            image=_divergence(expected, by_image),
        )

    each = jax.lax.map(one, (beliefs, hidden), batch_size=min(_AT_ONCE, len(beliefs)))
    return each._replace(start=_distance(image_of(hmm.initial()), as_vector(rnn.initial())))


def _distance(a: Float[Array, "*row entry"], b: Float[Array, "*row entry"]) -> Float[Array, "*row"]:
    """Euclidean; infinities that agree, as in the log-odds of what is impossible, are no distance apart."""
    return jnp.sqrt((jnp.where(a == b, 0.0, a - b) ** 2).sum(-1))


def _divergence(expected: Float[Array, " symbol"], found: Float[Array, " symbol"]) -> Float[Array, ""]:
    """The Kullback-Leibler divergence between distributions given by logarithms."""
    possible = expected > -jnp.inf
    return jnp.where(possible, jnp.exp(expected) * (expected - found), 0.0).sum()


def _learned(phi: Any, beliefs: np.ndarray, hidden: np.ndarray, key: PRNGKeyArray | None) -> Map:
    """The map from beliefs to hidden states that the word `phi` stands for, fitted to those of data."""
    if not isinstance(phi, str) or phi not in ("linear", "mlp"):
        raise HiddenStateError(f"phi is {phi!r}; it must be a function of a belief, 'linear' or 'mlp'.")
    if not np.isfinite(hidden).all():
        raise HiddenStateError("the network has states that are not finite, to which no map can be fitted; give phi.")
    if phi == "linear":
        return _OfVectors(affine_fit(beliefs, hidden))
    if key is None:
        raise HiddenStateError("key is None; phi='mlp' is learned from a random beginning, so give a key, jr.key(0).")
    return _OfVectors(bent_fit(beliefs, hidden, key=checked_key(key)))


class _OfVectors(eqx.Module):
    """A map of vectors as one of states."""

    inner: Any

    def __call__(self, belief: State) -> Float[Array, " hidden"]:
        vector = as_vector(belief)
        return self.inner(vector.astype(dtype_of(self.inner)))


def _checked_symbols(hmm: SequenceModel, rnn: SequenceModel) -> int:
    counts = [symbols_of(model, argument) for model, argument in ((hmm, "hmm"), (rnn, "rnn"))]
    for model, argument in ((hmm, "hmm"), (rnn, "rnn")):
        if model.inputs:
            raise HiddenStateError(f"{argument} takes {model.inputs} inputs at every step; it must take none.")
    if counts[1] != counts[0]:
        raise HiddenStateError(f"hmm has {counts[0]} symbols, but rnn {counts[1]}; they must be the same.")
    return counts[0]


def _check_image(phi: Map, hmm: SequenceModel, like: Any) -> None:
    """Raise if the map does not give a state of the network."""
    found = eqx.filter_eval_shape(lambda: phi(hmm.initial()))
    if not jax.tree.leaves(found) or not all(hasattr(leaf, "shape") for leaf in jax.tree.leaves(found)):
        raise HiddenStateError(f"phi makes {found!r} of a belief; it must be an array, or a state of the network.")
    shown = entries(found)
    if shown != entries(like):
        raise HiddenStateError(f"phi makes {shown} numbers of a belief; a state of the network has {entries(like)}.")


def _spread(rows: np.ndarray) -> float:
    """The root mean squared distance of rows from their mean, without entries that are infinite."""
    finite = np.where(np.isfinite(rows), rows, np.nan)
    if np.isnan(finite).any():
        finite = finite[:, ~np.isnan(finite).all(axis=0)]
    return float(np.sqrt(np.nanvar(finite, axis=0).sum()))


def _ratio(value: float, spread: float) -> float:
    return value / spread if spread > 0 else (0.0 if value == 0 else np.inf)
