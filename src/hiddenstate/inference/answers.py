"""Answers to sequences: what models of p(y | x) say of pairs."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from numpyro.distributions import Distribution

from hiddenstate._types import Array, Float
from hiddenstate.core import ConditionalModel, HiddenStateError, PairArrays, has, name_of, with_noise
from hiddenstate.inference.batches import rebatch, steps_of
from hiddenstate.inference.observations import arrays_for, sources_for
from hiddenstate.strategies import Strategy


def masked_answers(
    model: ConditionalModel, arrays: PairArrays, strategy: Strategy, keys: Any = None
) -> Float[Array, "pair time"]:
    """Log-probabilities of all steps of the targets, zeros where they are missing or behind the end."""

    def one(source, target, key):
        run = model if key is None else with_noise(model, key)
        return run.answer_log_probs(source, target, strategy)

    target = steps_of(arrays.target)
    out = jax.vmap(one)(steps_of(arrays.source), target, keys)
    if target.valid is not None:
        out = jnp.where(target.valid, out, 0.0)
    if target.observed is not None:
        out = jnp.where(target.observed.reshape(*out.shape, -1).any(-1), out, 0.0)
    return out


def answers(model: ConditionalModel, data: Any, strategy: Strategy) -> Distribution:
    """The distribution of the answers to each source, of batch shape (pair, time) or (pair,)."""
    if not has(model, "answers"):
        raise HiddenStateError(
            f"the answers of {name_of(model)} depend on each other, so none has a distribution by itself; hs.log_prob "
            "gives the probability of all together."
        )
    sources = sources_for(model, data)
    shape = sources.shape[: 1 if model.target_length == "one" else 2]
    return rebatch(_answers(model, arrays_for(model, sources), strategy), shape)


@eqx.filter_jit
def _answers(model, arrays, strategy):
    return jax.vmap(lambda source: model.answers(source, strategy))(steps_of(arrays))
