"""Transitions made of blocks, each with few parameters of its own, free to take any value."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hiddenstate._types import Array, Float
from hiddenstate.core import Frozen, register
from hiddenstate.latent.linear_gaussian.parts import Free, plain
from hiddenstate.ops.gaussian import semidefinite_inverse

_EDGE = 1e-6
"""How close to the border of what is stationary the maximisation goes."""


@register("constant-block")
class Constant(eqx.Module):
    """A block that is known."""

    matrix: Frozen

    def maximise(self, before: Any, crossed: Any) -> "Constant":
        """As it is."""
        del before, crossed
        return self

    def perturbed(self, noise: Any, spread: float) -> "Constant":
        """As it is."""
        del noise, spread
        return self


@register("autoregressive-block")
class Autoregressive(eqx.Module):
    """The companion matrix of an autoregression that is stationary whatever its parameters.

    They are the inverse hyperbolic tangents of the partial autocorrelations (Monahan 1984).
    """

    partial: Free

    @property
    def coefficients(self) -> Float[Array, " order"]:
        """The weights of the last values, the newest first."""
        return coefficients_of(jnp.tanh(plain(self.partial)))

    @property
    def matrix(self) -> Float[Array, "order order"]:
        """The coefficients above a shifted identity."""
        found = self.coefficients
        return jnp.concatenate([found[None], jnp.eye(found.shape[0], dtype=found.dtype)[:-1]])

    def maximise(self, before: Float[Array, "order order"], crossed: Float[Array, "order order"]) -> "Autoregressive":
        """The regression on the last values; where that is not stationary, as far towards it as stays so."""
        if isinstance(self.partial, Frozen):
            return self
        old = self.coefficients
        change = crossed[0] @ semidefinite_inverse(before) - old
        steps = jnp.concatenate([0.5 ** jnp.arange(12), jnp.zeros(1)]).astype(old.dtype)
        tried = jax.vmap(lambda step: partials_of(old + step * change))(steps)
        inside = (jnp.abs(tried) < 1 - _EDGE).all(1).at[-1].set(True)
        chosen = jnp.arctanh(jnp.where(inside[:, None], tried, 0.0))[jnp.argmax(inside)]
        return Autoregressive(jnp.where(jnp.argmax(inside) == len(steps) - 1, self.partial, chosen))

    def perturbed(self, noise: Any, spread: float) -> "Autoregressive":
        """Other coefficients."""
        if isinstance(self.partial, Frozen):
            return self
        return Autoregressive(self.partial + 0.5 * spread * noise(self.partial.shape))


@register("oscillating-block")
class Oscillating(eqx.Module):
    """A rotation by a frequency between 0 and pi, damped by a factor between 0 and 1: both through logits."""

    damping_logit: Free
    frequency_logit: Free

    @property
    def damping(self) -> Float[Array, ""]:
        """What is left after one step."""
        return jax.nn.sigmoid(plain(self.damping_logit))

    @property
    def period(self) -> Float[Array, ""]:
        """Steps of one turn."""
        return 2 / jax.nn.sigmoid(plain(self.frequency_logit))

    @property
    def matrix(self) -> Float[Array, "2 2"]:
        """The damped rotation."""
        turn = 2 * jnp.pi / self.period
        cosine, sine = jnp.cos(turn), jnp.sin(turn)
        return self.damping * jnp.stack([jnp.stack([cosine, sine]), jnp.stack([-sine, cosine])])

    def maximise(self, before: Float[Array, "2 2"], crossed: Float[Array, "2 2"]) -> "Oscillating":
        """The nearest damped rotation, which is linear in damping times cosine and sine."""
        total = jnp.maximum(jnp.trace(before), jnp.finfo(before.dtype).tiny)
        along, across = jnp.trace(crossed) / total, jnp.maximum((crossed[0, 1] - crossed[1, 0]) / total, 0.0)
        if isinstance(self.frequency_logit, Frozen):
            turn = 2 * jnp.pi / self.period
            damping = along * jnp.cos(turn) + across * jnp.sin(turn)
        else:
            turn = jnp.arctan2(across, along)
            damping = jnp.sqrt(along**2 + across**2)
            if isinstance(self.damping_logit, Frozen):
                damping = self.damping
        inside = [jnp.clip(a, _EDGE, 1 - _EDGE) for a in (damping, turn / jnp.pi)]
        new = [jnp.log(a) - jnp.log1p(-a) for a in inside]
        old = (self.damping_logit, self.frequency_logit)
        return Oscillating(*[o if isinstance(o, Frozen) else n for o, n in zip(old, new, strict=True)])

    def perturbed(self, noise: Any, spread: float) -> "Oscillating":
        """Another damping and frequency."""
        old = (self.damping_logit, self.frequency_logit)
        return Oscillating(*[o if isinstance(o, Frozen) else o + 0.5 * spread * noise(()) for o in old])


@register("block-transition")
class Blocks(eqx.Module):
    """A transition whose blocks do not act on each other."""

    blocks: tuple[Constant | Autoregressive | Oscillating, ...]

    @property
    def matrix(self) -> Float[Array, "state state"]:
        """All blocks along the diagonal."""
        return jax.scipy.linalg.block_diag(*[plain(block.matrix) for block in self.blocks])

    @property
    def _places(self) -> list[slice]:
        sizes = [plain(block.matrix).shape[0] for block in self.blocks]
        ends = np.cumsum(sizes)
        return [slice(int(end - size), int(end)) for size, end in zip(sizes, ends, strict=True)]

    def maximise(self, before: Float[Array, "state state"], crossed: Float[Array, "state state"]) -> "Blocks":
        """Each block by itself: their noises are independent."""
        new = [block.maximise(before[p, p], crossed[p, p]) for block, p in zip(self.blocks, self._places, strict=True)]
        return Blocks(tuple(new))

    def perturbed(self, noise: Any, spread: float) -> "Blocks":
        """Each block moved."""
        return Blocks(tuple(block.perturbed(noise, spread) for block in self.blocks))


def coefficients_of(partials: Float[Array, " order"]) -> Float[Array, " order"]:
    """Autoregressive coefficients from partial autocorrelations (Durbin and Levinson's recursion)."""
    found = partials[:1]
    for k in range(1, partials.shape[0]):
        found = jnp.concatenate([found - partials[k] * found[::-1], partials[k : k + 1]])
    return found


def partials_of(coefficients: Float[Array, " order"]) -> Float[Array, " order"]:
    """The inverse; all lie within -1 and 1 just where the autoregression is stationary."""
    found, rest = [], coefficients
    for k in range(coefficients.shape[0] - 1, -1, -1):
        last = rest[k]
        found.append(last)
        below = 1 - last**2
        safe = jnp.where(jnp.abs(below) > 1e-12, below, 1e-12)
        rest = (rest[:k] + last * rest[:k][::-1]) / safe
    return jnp.stack(found[::-1])
