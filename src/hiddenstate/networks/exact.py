"""A hidden Markov model as a recurrent network, exactly: the belief is the hidden vector."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from hiddenstate._types import Array, Float, Num
from hiddenstate.cells import Cell
from hiddenstate.core import HiddenStateError, dtype_of, register
from hiddenstate.heads import Head
from hiddenstate.latent.emissions import Categorical
from hiddenstate.latent.hmm import HMM
from hiddenstate.latent.hmm.initials import InitialProbs
from hiddenstate.latent.hmm.recursions import condition
from hiddenstate.latent.hmm.rows import Rows
from hiddenstate.latent.hmm.transitions import TransitionMatrix
from hiddenstate.latent.zeros import logs_of
from hiddenstate.networks.rnn import RNN
from hiddenstate.ops.simplex import safe_log


@register("belief")
class Belief(Cell):
    r"""A cell whose hidden vector is a belief over the states of a Markov chain, updated by Bayes' rule.

    .. math::

        h_{t+1} = P^\top \frac{h_t \odot \ell(x_t)}{h_t \cdot \ell(x_t)}, \qquad \ell_i(x) = p(x \mid z = i)

    It reads symbols one-hot. `initial` (state), `transition` (state, next state) and `emission` (state, symbol) are
    rows of probabilities, kept as unconstrained logits and learned like the weights of any cell; exact zeros stay.

    With `reduced` the hidden vector is one number shorter, the log-odds :math:`\log h_i - \log h_m` to the last state,
    and what the cell shows is still the belief. A state that has become impossible has log-odds of minus infinity,
    with which everything goes on exactly; only the last state must stay possible.
    """

    start: Rows
    transition: Rows
    emission: Rows
    reduced: bool = eqx.field(static=True)

    def __init__(self, initial: Rows, transition: Rows, emission: Rows, *, reduced: bool = False):
        if reduced:
            _check_reference(np.asarray(initial.allowed), np.asarray(transition.allowed))
        self.start = initial
        self.transition = transition
        self.emission = emission
        self.reduced = reduced

    @property
    def input_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """One entry a symbol."""
        return self.emission.allowed.shape[1]

    @property
    def hidden_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """One number a state, and one fewer where it is reduced."""
        return self.output_size - self.reduced

    @property
    def output_size(self) -> int:
        """One probability a state."""
        return self.emission.allowed.shape[0]

    def initial(self) -> Float[Array, " hidden"]:
        """The belief before anything was seen."""
        return self._hidden(self.start.probs)

    def prepare(self, x: Float[Array, " symbol"], u: Num[Array, " inputs"] | None = None) -> Float[Array, " state"]:
        """The log-likelihoods of a one-hot symbol under each state."""
        del u
        possible = self.emission.allowed
        logs = jnp.where(possible, self.emission.log_probs, 0.0)
        ruled_out = (~possible & (x != 0)).any(axis=1)
        return jnp.where(ruled_out, -jnp.inf, logs @ x)

    def step(self, state: Float[Array, " hidden"], element: Float[Array, " state"]) -> Float[Array, " hidden"]:
        """The belief given the symbol, moved on."""
        return self._hidden(condition(self.output(state), element)[0] @ self.transition.probs)

    def output(self, state: Float[Array, " hidden"]) -> Float[Array, " state"]:
        """The belief."""
        return jax.nn.softmax(jnp.append(state, 0.0)) if self.reduced else state

    def _hidden(self, belief: Float[Array, " state"]) -> Float[Array, " hidden"]:
        return log_odds(belief) if self.reduced else belief


@register("belief-head")
class BeliefHead(Head):
    r"""Symbols mixed as a belief says: :math:`p(x) = \sum_i h_i\, p(x \mid z = i)`, linear in the hidden vector.

    `emission` are rows of probabilities (state, symbol), kept as unconstrained logits. Symbols are encoded one-hot.
    """

    emission: Rows

    def __init__(self, emission: Rows):
        self.emission = emission
        self.hidden_size = emission.allowed.shape[0]
        self.weight = None
        self.bias = None

    def __call__(self, h: Float[Array, " state"]) -> dist.Distribution:
        """The mixture that the belief `h` stands for."""
        return self.distribution(safe_log(h @ self.emission.probs))

    @property
    def event_shape(self) -> tuple[int, ...]:
        """One symbol."""
        return ()

    @property
    def parameter_count(self) -> int:
        """One logit a symbol."""
        return self.emission.allowed.shape[1]

    @property
    def encoded_size(self) -> int:
        """One entry a symbol."""
        return self.emission.allowed.shape[1]

    def distribution(self, parameters: Float[Array, " symbol"]) -> dist.Distribution:
        """The categorical distribution with these logits."""
        return dist.CategoricalLogits(parameters, validate_args=False)

    def encode(self, x: Num[Array, ""]) -> Float[Array, " symbol"]:
        """One-hot."""
        return jax.nn.one_hot(jnp.asarray(x, jnp.int32), self.encoded_size, dtype=dtype_of(self))


def exact_rnn(hmm: HMM, reduced: bool = False) -> RNN:
    r"""A recurrent network that predicts what the hidden Markov model predicts, to the last digits.

    .. math::

        h_1 = \pi, \qquad f(h, x) = P^\top \frac{D_x h}{1^\top D_x h}, \qquad g(h) = E^\top h

    with :math:`D_x` the diagonal matrix of the likelihoods of x. This is the construction behind section 3.2 of
    Choe, Shin and Spencer (2017), whose update :math:`D_x V \alpha` is linear because their forward vectors are not
    normalised; those shrink like the likelihood, so here they are beliefs, which sum to one. Their vector at t has
    seen x_t; this one has seen x_1 .. x_{t-1} and predicts x_t, as everywhere in this library. With `reduced` the
    hidden vector is the log-odds of the belief to its last state, one number fewer.

    The network is an `RNN` like any other and can be trained further. The likelihoods in its update and those in its
    read-out are then parameters of their own, so that training makes it more general than any hidden Markov model.
    Exact zeros stay zeros, and what the model holds fixed stays fixed; a stationary start becomes a start of its own.

    With `reduced` the last state must stay possible whatever is seen: `initial` and the whole last column of
    `transition` must be above zero there. ``hmm.permuted(order)`` puts another state last.

    >>> chain = hs.HMM(  # doctest: +SKIP
    ...     initial=[0.5, 0.5],
    ...     transition=[[0.7, 0.3], [0.3, 0.7]],
    ...     emission=hs.emissions.Categorical(probs=[[0.9, 0.1], [0.2, 0.8]]),
    ... )
    >>> hs.exact_rnn(chain, reduced=True).initial()  # doctest: +SKIP
    Array([0.], dtype=float32)
    """
    _check_hmm(hmm)
    if not isinstance(reduced, bool):
        raise HiddenStateError(f"reduced is {reduced!r}; it must be True or False.")
    emission: Any = hmm.emission
    seen = Rows(emission.logits, emission.possible)
    cell = Belief(_initial_rows(hmm), hmm.transition.rows, seen, reduced=reduced)
    return RNN(cell, BeliefHead(seen), schema=hmm.schema)


def log_odds(belief: Float[Array, " state"]) -> Float[Array, " fewer"]:
    """The logarithms of all probabilities of a belief but the last, relative to the last; minus infinity at zeros."""
    logs = safe_log(belief)
    return logs[:-1] - logs[-1]


def _initial_rows(hmm: HMM) -> Rows:
    if isinstance(hmm.start, InitialProbs):
        return hmm.start.rows
    probs = np.asarray(hmm.initial_probs)
    return Rows(*logs_of(probs, probs.dtype))


def _check_hmm(hmm: Any) -> None:
    if type(hmm) is not HMM:
        raise HiddenStateError(f"hmm is of the class {type(hmm).__name__}; it must be an hs.HMM.")
    if not isinstance(hmm.emission, Categorical):
        raise HiddenStateError(
            f"hmm has emissions of the family {type(hmm.emission).__name__}; they must be hs.emissions.Categorical."
        )
    if not isinstance(hmm.transition, TransitionMatrix):
        raise HiddenStateError("hmm has transitions that inputs drive; they must be a matrix.")


def _check_reference(initial: np.ndarray, transition: np.ndarray) -> None:
    """Raise if the state that log-odds are taken to can become impossible."""
    last = len(initial) - 1
    if not initial[last]:
        where = f"initial[{last}]"
    elif not transition[:, last].all():
        where = f"transition[{int(np.argmin(transition[:, last]))}, {last}]"
    else:
        return
    raise HiddenStateError(
        f"{where} is 0; reduced takes log-odds to the last state, {last}, which must be possible at every step. Put "
        "another state last with hmm.permuted(order), or use reduced=False."
    )
