"""The recursions of a `Copy` chain, whose state is kept or drawn afresh, by compiled kernels."""

from hiddenstate._types import Array, Float, Shaped
from hiddenstate.latent.hmm import recursions
from hiddenstate.latent.hmm.recursions import Chain, Forward
from hiddenstate.native import copying
from hiddenstate.native.operation import one_precision
from hiddenstate.ops.derivatives import differentiated_as
from hiddenstate.ops.simplex import safe_log


def score(
    chain: Chain,
    belief: Float[Array, " state"],
    log_likelihoods: Float[Array, "time state"],
    valid: Shaped[Array, " time"] | None,
) -> tuple[Float[Array, " time"], Float[Array, " state"]]:
    """The log-probability of every step and the last belief, with a derivative that costs one way back."""
    stay, fresh, belief, seen = one_precision(chain.operator.stay, chain.operator.fresh, belief, log_likelihoods)
    found = copying.forward(stay, fresh, belief, seen, valid)
    return found.evidence, found.final


def forward(
    chain: Chain,
    belief: Float[Array, " state"],
    log_likelihoods: Float[Array, "time state"],
    valid: Shaped[Array, " time"] | None,
) -> Forward:
    """The forward recursion from a belief before the first observation."""

    def plain(operator, belief, seen, valid):
        return recursions.forward(Chain(operator), belief, seen, valid)

    def native(operator, belief, seen, valid):
        stay, fresh, belief, seen = one_precision(operator.stay, operator.fresh, belief, seen)
        found = copying.forward(stay, fresh, belief, seen, valid, keep=True)
        return Forward(found.predicted, found.filtered, found.evidence, found.final)  # pyright: ignore[reportArgumentType]

    return differentiated_as(plain, native)(chain.operator, belief, log_likelihoods, valid)


def smooth(chain: Chain, found: Forward, valid: Shaped[Array, " time"] | None) -> Float[Array, "time state"]:
    """The marginals p(z_t | all observations). Behind the end they are of no meaning."""

    def plain(operator, found, valid):
        return recursions.smooth(Chain(operator), found, valid)

    def native(operator, found, valid):
        dtype = found.filtered.dtype
        arrays = operator.stay.astype(dtype), operator.fresh.astype(dtype), found.filtered
        return copying.smooth(*arrays, valid)

    return differentiated_as(plain, native)(chain.operator, found, valid)


def best_path(
    chain: Chain,
    belief: Float[Array, " state"],
    log_likelihoods: Float[Array, "time state"],
    valid: Shaped[Array, " time"] | None,
) -> tuple[Shaped[Array, " time"], Float[Array, " time"]]:
    """The most probable path, and its log-probability with the observations, step by step."""
    stay, fresh, belief, seen = one_precision(chain.operator.stay, chain.operator.fresh, belief, log_likelihoods)
    return copying.best_path(safe_log(stay), safe_log(fresh), safe_log(belief), seen, valid)


def sampled_path(
    chain: Chain, found: Forward, noise: Float[Array, "time state"], valid: Shaped[Array, " time"] | None
) -> Shaped[Array, " time"]:
    """A path drawn from the posterior, the same as in sequence."""
    stay, fresh, filtered, noise = one_precision(chain.operator.stay, chain.operator.fresh, found.filtered, noise)
    return copying.sampled_path(stay, fresh, filtered, noise, valid)
