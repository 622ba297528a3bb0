"""What an emission is: for each hidden state, a distribution of the observation."""

import dataclasses
from abc import abstractmethod
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Float, Num, PRNGKeyArray, PyTree, Shaped
from hiddenstate.core import HiddenStateError, Prior, Sequences, Steps, dtype_of, parameter_count
from hiddenstate.core.padding import generator
from hiddenstate.distributions import partial_log_prob
from hiddenstate.latent.emissions.seeding import Seen, clusters, standardised

Statistics = PyTree
"""Sums over steps, from which `maximise` finds new parameters."""

Self = TypeVar("Self", bound="Emission")

NOTHING = Prior()
"""Maximum likelihood."""


class Emission(eqx.Module):
    """A distribution of the observation for each of K hidden states, all of one family.

    A family is made of constrained numbers (probabilities, rates, covariances), keeps unconstrained ones of order
    one, and shows the constrained ones again as properties of the same names. It says how probable an observation is
    under each state (`distribution`, `log_likelihoods`), and how it learns: `statistics` are sums over steps that are
    weighted by the posterior probabilities of the states, and `maximise` turns them into parameters under which the
    expected log-probability is not lower than before (EM, or generalised EM). Sums of several sequences add up.

    Methods take one step of one sequence; `statistics` takes all steps of one.
    """

    rounds: ClassVar[int] = 1
    """How many rounds of `maximise` make parameters out of given clusters: one where it is in closed form."""

    @property
    @abstractmethod
    def states(self) -> int:
        """The number of hidden states."""

    @property
    @abstractmethod
    def event_shape(self) -> tuple[int, ...]:
        """The shape of one observation."""

    @property
    def history(self) -> int:
        """How many past observations the distribution depends on."""
        return 0

    @property
    def inputs(self) -> int:
        """How many inputs the distribution depends on."""
        return 0

    @property
    def block(self) -> int:
        """How many steps are summed at once."""
        return 1024

    @property
    def free_parameters(self) -> int:
        """How many numbers are free to vary: what a criterion such as BIC counts."""
        return parameter_count(self)

    @property
    def options(self) -> dict[str, Any]:
        """What else the constructor takes."""
        return {}

    @property
    def shared(self) -> tuple[str, ...]:
        """The fields that belong to all states together; the others have the states as their first axis."""
        return ()

    @abstractmethod
    def distribution(self, u: Num[Array, " inputs"] | None = None, past: Any = None) -> Distribution:
        """The distributions of an observation under the states, of batch shape (states,).

        `u` are the inputs of the step; `past` are the last `history` observations, the oldest first.
        """

    def log_likelihoods(self, x: Any, u: Any = None, past: Any = None) -> Float[Array, " states"]:
        """The log-probability of `x` under each state."""
        return self.distribution(u, past).log_prob(x)  # pyright: ignore[reportReturnType]

    def statistics(self, weights: Float[Array, "time states"], steps: Steps, pasts: Any = None) -> Statistics:
        """The sums over the steps of one sequence that `maximise` needs.

        `weights` are the posterior probabilities of the states, 0 behind the sequence's end; `pasts`
        (time, history, ...) where the family has a history. Sums run over blocks of steps, which bounds both the
        memory they take and their rounding errors.
        """
        weights = jnp.asarray(weights, dtype_of(self))
        steps = steps._replace(valid=None)
        time, block = steps.length, self.block
        if time <= block:
            return self.sums(weights, steps, pasts)
        count = -(-time // block)

        def blocks(array: Any) -> Any:
            padded = jnp.pad(array, [(0, count * block - time), *((0, 0) for _ in array.shape[1:])])
            return padded.reshape(count, block, *array.shape[1:])

        folded = jax.tree.map(blocks, (weights, steps, pasts))
        shapes = jax.eval_shape(lambda block: self.sums(*block), jax.tree.map(lambda a: a[0], folded))
        nothing = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
        total, _ = jax.lax.scan(
            lambda sums, block: (jax.tree.map(jnp.add, sums, self.sums(*block)), None), nothing, folded
        )
        return total

    @abstractmethod
    def sums(self, weights: Float[Array, "time states"], steps: Steps, pasts: Any = None) -> Statistics:
        """The `statistics` of some steps, in one go."""

    @abstractmethod
    def maximise(self: Self, statistics: Statistics, prior: Prior = NOTHING) -> Self:
        """The parameters that fit the statistics best; a state that has none of the weight keeps its own."""

    def recentred(self: Self) -> Self:
        """The same distributions, with the fixed points that sums are taken around moved to where they are best.

        Second moments are summed around fixed points near the means, for the sake of precision. Between rounds of EM
        over all data they may be moved; statistics from before and after a move do not add up.
        """
        return self

    # -- starting ------------------------------------------------------------------------------------------------

    def restart(self: Self, data: Sequences, *, key: PRNGKeyArray, how: str = "kmeans") -> Self:
        """New starting parameters: those of clusters of the observations, or at random around all of them.

        ``how="kmeans"`` seeds clusters by k-means++, improves them by Lloyd's rounds, and takes each state's
        parameters from one cluster; symbols have no distances, so that theirs start at random. ``how="random"``
        spreads the states at random. Both take at most 10,000 steps, and depend on nothing but data and key.
        """
        if how not in ("kmeans", "random"):
            raise HiddenStateError(f"how is {how!r}; it must be 'kmeans' or 'random'.")
        random = generator(key)
        seen = Seen.of(data, self, random)
        start = self.around(seen, random)
        points = self.points(seen) if how == "kmeans" else None
        if points is None:
            return start
        return start.clustered(seen, clusters(points, self.states, random), random)

    def reseed(self: Self, empty: Any, data: Sequences, *, key: PRNGKeyArray) -> Self:
        """New parameters at random for the states where `empty` is True; the others keep theirs."""
        random = generator(key)
        return self.reseeded(np.asarray(empty, bool), Seen.of(data, self, random), random)

    def reseeded(self: Self, empty: np.ndarray, seen: Seen, random: np.random.Generator) -> Self:
        """New parameters around the values that were seen for the states where `empty` is True."""
        new = self.around(seen, random).in_units_of(self)

        def choose(fresh: Any, kept: Any) -> Any:
            return jnp.where(empty.reshape(-1, *(1 for _ in kept.shape[1:])), fresh, kept)

        names = self._state_fields
        return replaced(self, **{n: jax.tree.map(choose, getattr(new, n), getattr(self, n)) for n in names})

    def in_units_of(self: Self, other: Any) -> Self:
        """The same distributions in the units of another emission of this kind, where the kind has units."""
        return self

    def rebuilt(self: Self, arguments: dict[str, Any]) -> Self:
        """A new emission of this kind from constrained numbers, in the same precision."""
        dtype = dtype_of(self)
        return type(self)(**{name: np.asarray(value, dtype) for name, value in arguments.items()}, **self.options)

    @abstractmethod
    def around(self: Self, seen: Seen, random: np.random.Generator) -> Self:
        """As many states of this kind at random around the values that were seen."""

    def points(self, seen: Seen) -> np.ndarray | None:
        """The observations as points (row, number) for k-means; None where they have no distances."""
        return standardised(seen.filled)

    def clustered(self: Self, seen: Seen, labels: np.ndarray, random: np.random.Generator) -> Self:
        """The parameters of the rows in each cluster, coming from these."""
        weights = np.asarray(labels[:, None] == np.arange(self.states), dtype_of(self))
        return _clustered(self, weights, seen.steps(dtype_of(self)), seen.lags(dtype_of(self)), seen.floor).recentred()

    def permuted(self: Self, order: Any) -> Self:
        """The same states in another order: state i is what state ``order[i]`` was."""
        order = np.asarray(order)
        if sorted(order.tolist()) != list(range(self.states)):
            raise HiddenStateError(
                f"order is {order.tolist()}; it must hold each of the {self.states} states from 0 on once."
            )
        names = self._state_fields
        return replaced(self, **{name: jax.tree.map(lambda a: a[order], getattr(self, name)) for name in names})

    @property
    def _state_fields(self) -> list[str]:
        fields = [field for field in dataclasses.fields(self) if not field.metadata.get("static", False)]
        return [field.name for field in fields if field.name not in self.shared]


class PartialEmission(Emission):
    """An emission that can sum missing entries of an observation out."""

    def partial_log_likelihoods(self, x: Any, u: Any, observed: Shaped[Array, "*event"]) -> Float[Array, " states"]:
        """The log-probability, under each state, of the entries of `x` where `observed` is True."""
        return partial_log_prob(self.distribution(u), x, observed)


def replaced(module: Self, **fields: Any) -> Self:
    """The same module with other values in these fields."""
    names = list(fields)
    return eqx.tree_at(
        lambda m: [getattr(m, name) for name in names], module, list(fields.values()), is_leaf=lambda node: node is None
    )


def enough(weights: Float[Array, "states *event"]) -> Shaped[Array, "states *event"]:
    """Which states have weight: more than rounding leaves of all states' weight together."""
    return weights > 10 * jnp.finfo(weights.dtype).eps * weights.sum(0)


def total(weights: Float[Array, "time states"], values: Float[Array, "time *event"]) -> Float[Array, "states *event"]:
    """Sums over time of values that are weighted for each state."""
    return jnp.einsum("tk,t...->k...", weights, values, precision="highest")


def entry_weights(weights: Float[Array, "time states"], steps: Steps) -> Float[Array, "states *event"]:
    """The weight of each state at each entry of the observation, where it was observed."""
    if steps.observed is not None:
        return total(weights, steps.observed.astype(weights.dtype))
    shape = steps.values.shape[1:]
    return jnp.broadcast_to(weights.sum(0).reshape(-1, *(1 for _ in shape)), (weights.shape[1], *shape))


def known(steps: Steps, dtype: Any) -> Float[Array, "time *event"]:
    """The observations as floats, zero where they are missing."""
    values = jnp.asarray(steps.values, dtype)
    return values if steps.observed is None else jnp.where(steps.observed, values, 0)


def safe_ratio(top: Array, bottom: Array) -> Array:
    """top / bottom, and 0 where the bottom is 0."""
    good = bottom > 0
    return jnp.where(good, top / jnp.where(good, bottom, 1), 0)


@eqx.filter_jit
def _clustered(emission, weights, steps, pasts, floor):
    prior = Prior(pseudocount=1.0, variance_floor=floor)
    arrays, static = eqx.partition(emission, eqx.is_array)

    def once(_, arrays):
        current = eqx.combine(arrays, static)
        new = current.maximise(current.statistics(weights, steps, pasts), prior)
        return eqx.filter(new, eqx.is_array)

    return eqx.combine(jax.lax.fori_loop(0, emission.rounds, once, arrays), static)
