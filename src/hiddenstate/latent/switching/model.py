"""The switching linear Gaussian model: a regime that selects how a hidden state moves and is seen."""

from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from numpyro.distributions import CategoricalLogits, Distribution

from hiddenstate._types import Array, Float, Num, PRNGKeyArray, Shaped
from hiddenstate.core import (
    Frozen,
    HiddenStateError,
    Prior,
    Schema,
    SequenceModel,
    Sequences,
    Steps,
    checked_key,
    dtype_of,
    parameter_count,
    register,
)
from hiddenstate.distributions import MixtureDistribution, MultivariateNormalDistribution, NormalDistribution
from hiddenstate.inference.posterior import Decoded
from hiddenstate.latent import checks
from hiddenstate.latent.hmm.rows import Rows
from hiddenstate.latent.linear_gaussian.model import LinearGaussian
from hiddenstate.latent.linear_gaussian.parts import common_dtype, plain
from hiddenstate.latent.linear_gaussian.system import held as held_state
from hiddenstate.latent.switching import learning
from hiddenstate.latent.switching.belief import Mixture, Observation, SwitchingBelief, log_sum
from hiddenstate.latent.switching.collapse import (
    Switch,
    arrivals,
    conditioned,
    departures,
    first_belief,
    known,
    mixed,
)
from hiddenstate.latent.switching.given import all_parts, chain_sizes, check_names, rows_part, slopes_part
from hiddenstate.latent.switching.regimes import (
    RANKS,
    Parameters,
    Regimes,
    held,
    masks,
    regimes_of,
    unwrapped,
)
from hiddenstate.latent.switching.simulate import Simulated, simulated
from hiddenstate.latent.switching.smoothing import (
    Drawn,
    Filtered,
    Smoothed,
    decoded,
    drawn,
    held_at_the_end,
    smoothed,
    summed_up,
)
from hiddenstate.latent.switching.stacking import stacked_parts
from hiddenstate.latent.switching.starts import restarted
from hiddenstate.ops.gaussian import outer, symmetric
from hiddenstate.strategies import Strategy, in_chunks, over_time, prepared

METHODS = ("gpb2", "imm")
SMOOTHERS = ("corrected", "kim")
_SQUARE = ("initial_covariance", "dynamics", "dynamics_noise")


@register("switching-linear-gaussian")
class SwitchingLinearGaussian(SequenceModel):
    r"""A hidden state that moves linearly and is seen through a linear map, both selected by a regime that switches.

    .. math::

        z_1 \sim \pi, \quad z_{t+1} \sim P_{z_t}, \qquad s_1 \sim N(m_{z_1}, V_{z_1}), \quad
        s_{t+1} = A_{z_{t+1}} s_t + a_{z_{t+1}} + N(0, Q_{z_{t+1}}), \qquad
        x_t = C_{z_t} s_t + c_{z_t} + N(0, R_{z_t})

    With K regimes and n hidden numbers:

    - `initial` :math:`\pi` is (K,) and `transition` P is (K, K), row i the probabilities of what follows regime i;
      exact zeros stay zeros in learning;
    - `initial_mean` m is (K, n), `initial_covariance` V is (K, n, n): zero and the identity unless given;
    - `dynamics` A is (K, n, n), `dynamics_offset` a is (K, n) or None, `dynamics_noise` Q is (K, n, n);
    - `observation` C is (K, m, n), `observation_offset` c is (K, m) or None, `observation_noise` R is (K, m, m). Where
      an observation is a single number, C is (K, n), c is (K,) and R is (K,): R says which of the two it is.

    Each of them may be given without its first axis: all regimes then share it, also in learning. Covariances must be
    positive definite. `recurrence` r, (K, n), lets the switch look at the state: the log-odds of a move to regime k
    get the addend :math:`r_k \cdot s_t`. `fixed` names parts that are not learned.

    `chains` (n_1, .., n_K) says that the state is made of one chain for each regime, which move independently of each
    other and of the regime, and that regime k sees chain k alone: the model of Ghahramani and Hinton (2000), see
    `of_chains`.

    The exact belief is a mixture of K^t Gaussians. Here it is cut down by matching moments: with ``method="gpb2"``
    each step computes K² Gaussians, one for each pair of the last two regimes, and joins them to one for each regime
    once the observation is known, which is Kim's filter (1994); with ``"imm"`` they are joined before it (Blom and
    Bar-Shalom 1988), at the cost of K updates a step. The read-out is the mixture that this belief predicts, so that
    the model is normalised as it stands. `hs.log_prob` is the log-probability under these read-outs. That is exactly
    the switching model's own where there is one regime, and for the first two steps of a sequence (with ``"imm"``,
    or where the switch looks at the state, for the first); afterwards it is an approximation of it.

    `smoother` says how `hs.smooth` goes back from there: ``"kim"`` as Kim (1994), who leaves out what the next state
    tells of the regime before it, or ``"corrected"`` with that put in (Barber 2006), which is nearer to the truth
    where regimes differ by how the state moves.
    """

    start: Rows
    switching: Rows
    slopes: Any
    parameters: Parameters
    method: Literal["gpb2", "imm"] = eqx.field(static=True)
    smoother: Literal["corrected", "kim"] = eqx.field(static=True)
    scalar: bool = eqx.field(static=True)
    """Whether an observation is a single number."""
    chains: tuple[int, ...] | None = eqx.field(static=True)
    """How many hidden numbers each chain has, where there is one for each regime."""

    def __init__(
        self,
        *,
        initial: Any,
        transition: Any,
        dynamics: Any,
        dynamics_offset: Any = None,
        dynamics_noise: Any,
        observation: Any,
        observation_offset: Any = None,
        observation_noise: Any,
        initial_mean: Any = None,
        initial_covariance: Any = None,
        recurrence: Any = None,
        chains: tuple[int, ...] | list[int] | None = None,
        method: Literal["gpb2", "imm"] = "gpb2",
        smoother: Literal["corrected", "kim"] = "corrected",
        fixed: tuple[str, ...] | list[str] = (),
        schema: Schema | None = None,
    ):
        check_names(fixed)
        if method not in METHODS:
            raise HiddenStateError(f"method is {method!r}; it must be 'gpb2' or 'imm'.")
        if smoother not in SMOOTHERS:
            raise HiddenStateError(f"smoother is {smoother!r}; it must be 'corrected' or 'kim'.")
        given = {
            "initial_mean": initial_mean,
            "initial_covariance": initial_covariance,
            "dynamics": dynamics,
            "dynamics_offset": dynamics_offset,
            "dynamics_noise": dynamics_noise,
            "observation": observation,
            "observation_offset": observation_offset,
            "observation_noise": observation_noise,
        }
        inside = {name: unwrapped(part) for name, part in given.items()}
        given = {name: part for name, (part, _) in inside.items()}
        kept = {name for name, (_, frozen) in inside.items() if frozen} | set(fixed)
        dtype = common_dtype(*given.values())
        self.start = rows_part("initial", initial, 1, "initial" in fixed, dtype)
        count = self.start.allowed.shape[0]
        self.switching = rows_part("transition", transition, 2, "transition" in fixed, dtype)
        if self.switching.allowed.shape != (count, count):
            raise HiddenStateError(
                f"transition has shape {self.switching.allowed.shape}; it must be ({count}, {count}), as initial has "
                f"{count} regimes."
            )
        self.scalar = np.ndim(given["observation_noise"]) < 2
        parts = all_parts(given, count, self.scalar, dtype)
        self.parameters = Parameters(**{name: held(part, name in kept) for name, part in parts.items()})
        self.slopes = slopes_part(recurrence, count, self.state_size, dtype, "recurrence" in fixed)
        self.method, self.smoother, self.schema, self.inputs = method, smoother, schema, 0
        self.chains = None if chains is None else chain_sizes(chains, self.parameters, self.regimes, self.state_size)

    @classmethod
    def of_chains(
        cls,
        chains: list[LinearGaussian] | tuple[LinearGaussian, ...],
        *,
        initial: Any = None,
        transition: Any,
        observation_noise: Any = None,
        **rest: Any,
    ) -> "SwitchingLinearGaussian":
        """Several linear Gaussian models side by side and a switch that selects which one is seen, one for each regime.

        That is the model of Ghahramani and Hinton (2000). The state is all chains' states, one behind the other; all
        of them move at every step. `observation_noise` is that of all regimes, as in the paper; without it each
        chain's own. `initial` is uniform unless given. The rest is as in the constructor.
        """
        models = list(chains) if isinstance(chains, list | tuple) else [chains]
        even = np.full(len(models), 1 / max(1, len(models)))
        parts = stacked_parts(models)
        if observation_noise is not None:
            parts["observation_noise"] = observation_noise
        return cls(initial=even if initial is None else initial, transition=transition, **parts, **rest)

    # -- what a person would write down ----------------------------------------------------------------------------

    @property
    def regimes(self) -> int:
        """K, how many regimes there are."""
        return self.start.allowed.shape[0]

    @property
    def state_size(self) -> int:
        """n, how many hidden numbers there are."""
        return plain(self.parameters.dynamics).shape[-1]

    @property
    def event_size(self) -> int:
        """m, how many numbers one observation has."""
        return plain(self.parameters.observation).shape[-2]

    @property
    def shared(self) -> tuple[str, ...]:
        """The names of the parts that all regimes have in common."""
        return tuple(name for name in RANKS if self.parameters.is_shared(name))

    @property
    def initial_probs(self) -> Float[Array, " regime"]:
        """The probabilities of the first regime."""
        return self.start.probs

    @property
    def transition_probs(self) -> Float[Array, "regime regime"]:
        """The probabilities of the next regime (at the state zero, where the switch looks at it)."""
        return self.switching.probs

    @property
    def recurrence(self) -> Float[Array, "regime state"] | None:
        """How the log-odds of the next regime hang on the state, or None."""
        return plain(self.slopes)

    @property
    def initial_mean(self) -> Float[Array, "regime state"]:
        """The mean of the first state in each regime, also where it is shared; so are all that follow."""
        return self.arrays().initial_mean

    @property
    def initial_covariance(self) -> Float[Array, "regime state state"]:
        """The covariance of the first state."""
        return self.arrays().initial_covariance

    @property
    def dynamics(self) -> Float[Array, "regime state state"]:
        """A."""
        return self.arrays().dynamics

    @property
    def dynamics_offset(self) -> Float[Array, "regime state"]:
        """a, zero where it was not given."""
        return self.arrays().dynamics_offset

    @property
    def dynamics_noise(self) -> Float[Array, "regime state state"]:
        """Q, a covariance."""
        return self.arrays().dynamics_noise

    @property
    def observation(self) -> Float[Array, "regime ..."]:
        """C: (K, m, n), or (K, n) where an observation is a single number."""
        found = self.arrays().observation
        return found[:, 0] if self.scalar else found

    @property
    def observation_offset(self) -> Float[Array, "regime ..."]:
        """c, zero where it was not given."""
        found = self.arrays().observation_offset
        return found[:, 0] if self.scalar else found

    @property
    def observation_noise(self) -> Float[Array, "regime ..."]:
        """R, a covariance, or a variance where an observation is a single number."""
        found = self.arrays().observation_noise
        return found[:, 0, 0] if self.scalar else found

    def arrays(self) -> Regimes:
        """The parts of all regimes as plain arrays; an observation is a vector here, if of one number."""
        return regimes_of(self.parameters, self.regimes, self.chains)

    def switch(self) -> Switch:
        """How regimes follow each other."""
        return Switch(self.start.log_probs, self.switching.log_probs, self.recurrence)

    def with_parts(self, **parts: Any) -> "SwitchingLinearGaussian":
        """The same model with other values of the parts that are named, unchecked; those held fixed stay.

        `initial` and `transition` are expected counts, or probabilities, all else arrays of the shape that is kept:
        with an axis for the regimes just where the part is not `shared`, observations as vectors.
        """
        model, parameters = self, self.parameters
        for name, rows in (("initial", "start"), ("transition", "switching")):
            if name in parts:
                new = getattr(self, rows).with_counts(parts[name])
                model = eqx.tree_at(lambda m, rows=rows: getattr(m, rows), model, new)
        if "recurrence" in parts and self.slopes is not None and not isinstance(self.slopes, Frozen):
            model = eqx.tree_at(lambda m: m.slopes, model, parts["recurrence"])
        for name in RANKS:
            if name in parts:
                parameters = parameters.with_part(name, parts[name])
        return eqx.tree_at(lambda m: m.parameters, model, parameters)

    # -- the contract ----------------------------------------------------------------------------------------------

    def initial(self) -> SwitchingBelief:
        """The first weights and Gaussians."""
        return first_belief(self.arrays(), self.switch(), pairs=self.method == "gpb2")

    def prepare(self, x: Num[Array, "..."], u: Num[Array, " inputs"] | None = None) -> Observation:
        """The observation itself: the rest depends on the belief."""
        del u
        return Observation(self._event(x))

    def prepare_partial(
        self, x: Num[Array, "..."], u: Num[Array, " inputs"] | None, observed: Shaped[Array, "..."]
    ) -> Observation:
        """The same, with only the entries known where `observed` is True."""
        del u
        return Observation(self._event(x), jnp.reshape(observed, (self.event_size,)))

    def step(self, state: SwitchingBelief, element: Observation) -> SwitchingBelief:
        """The belief over the next regime and state: conditioned on the observation, joined, then moved."""
        regimes = self.arrays()
        now, _ = known(conditioned(regimes, state, element))
        return self._ahead(regimes, self.switch(), now)

    def evidence(self, state: SwitchingBelief, element: Observation) -> Float[Array, ""]:
        """The log-probability of the observation (of the entries that are known)."""
        return log_sum(conditioned(self.arrays(), state, element).log_weights)

    def readout(self, state: SwitchingBelief, u: Num[Array, " inputs"] | None = None) -> Distribution:
        """The mixture of Gaussians of the next observation."""
        del u
        return predicted(self.arrays(), state, scalar=self.scalar)

    def score_sequence(
        self, state: SwitchingBelief, steps: Steps, strategy: Strategy
    ) -> tuple[Float[Array, " time"], SwitchingBelief]:
        """The log-probabilities of all steps, found on the way, and the last state."""
        regimes, switch = self.arrays(), self.switch()

        def advance(state, step):
            element, inside = step
            now, evidence = known(conditioned(regimes, state, element))
            return held_state(inside, self._ahead(regimes, switch, now), state), evidence

        def run(state, steps):
            return jax.lax.scan(advance, state, (prepared(self, steps), steps.valid))

        return in_chunks(run, state, steps, strategy.chunk_length(steps.length))

    # -- what observations say of regimes and states ---------------------------------------------------------------

    def filter(self, steps: Steps, strategy: Strategy) -> Filtered:
        """p(z_t, s_t | x_1 .. x_t), by the collapsed filter."""
        return summed_up(self._mixtures(steps, strategy))

    def smooth(self, steps: Steps, strategy: Strategy) -> Smoothed:
        """p(z_t, s_t | x_1 .. x_T), by the `smoother` that was chosen."""
        corrected = self.smoother == "corrected"
        return smoothed(self.arrays(), self.switch(), self._mixtures(steps, strategy), steps, corrected=corrected)

    def most_likely_states(self, steps: Steps, strategy: Strategy) -> Decoded:
        """The most probable path of regimes that is found when each step keeps the best path into each regime.

        `.log_prob` is that of this path and the observations together, with the state integrated out.
        """
        del strategy
        return decoded(self.arrays(), self.switch(), prepared(self, steps), steps.valid)

    def sample_states(self, steps: Steps, strategy: Strategy, key: PRNGKeyArray) -> Drawn:
        """One draw of all regimes and states given all observations, backward from the collapsed filter."""
        return drawn(self.arrays(), self.switch(), self._mixtures(steps, strategy), steps, key)

    def simulate(self, length: int, *, key: PRNGKeyArray, n: int = 1) -> Simulated:
        """`n` draws of regimes, states and observations together, from the switching model itself.

        `hs.sample` draws observations from the read-outs, and so from the collapsed filter's approximation of it.
        """
        for name, value in (("length", length), ("n", n)):
            checks.whole(name, value)
        found = _simulate(self, length, jr.split(checked_key(key), n))
        return found._replace(values=found.values[..., 0]) if self.scalar else found

    def free_parameters(self) -> int:
        """How many numbers can be chosen: rows of probabilities have one less than entries, chains only their own."""
        count = self.start.free_parameters + self.switching.free_parameters
        if self.slopes is not None and not isinstance(self.slopes, Frozen):
            count += self.slopes.size - self.state_size
        same, seen = masks(self.chains) if self.chains is not None else (None, None)
        for name in RANKS:
            if not self.parameters.is_learned(name):
                continue
            part = getattr(self.parameters, name)
            mask = seen if name == "observation" else same if name in _SQUARE else None
            if mask is None or self.chains is None:
                count += parameter_count(part)
            elif name == "observation":
                count += self.event_size * int(mask.sum())
            else:
                count += int(mask.sum() if name == "dynamics" else np.tril(mask).sum())
        return count

    # -- variational EM, where the switch does not look at the state -----------------------------------------------

    def _only_if_closed(self, function: Callable) -> Callable:
        if self.slopes is not None:
            raise AttributeError("a switch that looks at the state has no expectations in closed form.")
        return function

    @property
    def variational_start(self) -> Callable[[Steps, Strategy], Array]:
        """``variational_start(steps, strategy)``: marginals of the regimes, from which coordinate ascent begins."""
        return self._only_if_closed(lambda steps, strategy: learning.start(self, steps, strategy))

    @property
    def variational_statistics(self) -> Callable[..., Any]:
        """``variational_statistics(steps, marginals, temperature)``: one sweep of coordinate ascent from there.

        It gives the expected statistics, the bound, and the marginals to go on from.
        """
        return self._only_if_closed(lambda steps, marginals, heat: learning.continued(self, steps, marginals, heat))

    @property
    def expected_statistics(self) -> Callable[[Steps, Strategy], Any]:
        """``expected_statistics(steps, strategy)``: what `maximise` needs, and a bound on the log-probability."""
        return self._only_if_closed(lambda steps, strategy: learning.expected(self, steps, strategy))

    @property
    def maximise(self) -> Callable[..., "SwitchingLinearGaussian"]:
        """``maximise(statistics, prior=None, only=None)``: the model of greatest expected likelihood."""

        def best(statistics, *, prior=None, only=None):
            return learning.best_model(self, statistics, Prior() if prior is None else prior, only)

        return self._only_if_closed(best)

    def restart(self, data: Sequences, *, key: PRNGKeyArray, how: str) -> "SwitchingLinearGaussian":
        """The model with starting parameters made for the data, from windows that are sorted by how they move."""
        return restarted(self, data, key=key, how=how)

    def reseed(self, empty: np.ndarray, data: Sequences, *, key: PRNGKeyArray) -> "SwitchingLinearGaussian":
        """The model with new parts for the regimes that nothing is in, and a way into them."""
        return learning.reseeded(self, empty, data, key=key)

    def _mixtures(self, steps: Steps, strategy: Strategy) -> Mixture:
        """The filter's beliefs once each observation is known, the last one behind the end."""
        regimes = self.arrays()
        every, _ = over_time(
            self,
            strategy,
            self.initial(),
            steps,
            lambda state, element, *_: known(conditioned(regimes, state, element))[0],
        )
        return held_at_the_end(every, steps)

    def _ahead(self, regimes: Regimes, switch: Switch, now: Mixture) -> SwitchingBelief:
        ahead = arrivals(regimes, departures(switch, now))
        return ahead if self.method == "gpb2" else mixed(ahead)

    def _event(self, x: Any) -> Array:
        return jnp.reshape(jnp.asarray(x, dtype_of(self)), (self.event_size,))


@eqx.filter_jit
def _simulate(model: SwitchingLinearGaussian, length: int, keys: Any) -> Simulated:
    regimes, switch = model.arrays(), model.switch()
    return jax.vmap(lambda key: simulated(regimes, switch, length, key))(keys)


def predicted(regimes: Regimes, belief: SwitchingBelief, *, scalar: bool) -> Distribution:
    """The mixture of Gaussians of the next observation under a belief."""
    mean = jnp.einsum("kmn,jkn->jkm", regimes.observation, belief.mean) + regimes.observation_offset
    spread = jnp.einsum("kmn,jkno,klo->jkml", regimes.observation, belief.covariance, regimes.observation)
    spread = symmetric(spread + outer(regimes.observation_root))
    mean, spread = mean.reshape(-1, mean.shape[-1]), spread.reshape(-1, *spread.shape[-2:])
    weights = CategoricalLogits(belief.log_weights.reshape(-1), validate_args=False)
    if scalar:
        each = NormalDistribution(mean[:, 0], jnp.sqrt(spread[:, 0, 0]), validate_args=False)
        return MixtureDistribution(weights, each)
    roots = jnp.linalg.cholesky(spread)
    return MixtureDistribution(weights, MultivariateNormalDistribution(mean, scale_tril=roots, validate_args=False))
