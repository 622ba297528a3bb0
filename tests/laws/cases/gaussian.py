"""Models of a continuous hidden state: linear Gaussian ones, and filters of nonlinear ones."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import hiddenstate as hs
from laws.cases.chains import latent
from laws.cases.parts import INEXACT, Case, line, perturbed, plane, turn
from laws.laws import LENGTH, Limits

CASES: dict[str, Case] = {}
MOVING = {"transition": [[0.9, 0.2], [0.0, 0.7]], "transition_noise": [[0.3, 0.1], [0.1, 0.2]]}
CASES["linear-gaussian, scalar"] = Case(
    "linear-gaussian",
    latent(lambda: hs.LinearGaussian(**MOVING, emission=[1.0, 0.5], emission_noise=0.4)),
    line(),
    precisions=turn(1),
)
CASES["linear-gaussian, vector"] = Case(
    "linear-gaussian",
    latent(
        lambda: hs.LinearGaussian(
            **MOVING,
            transition_offset=[0.1, -0.2],
            emission=[[1.0, 0.5], [0.3, 1.0]],
            emission_offset=[0.3, 0.0],
            emission_noise=[[0.4, 0.1], [0.1, 0.5]],
            initial_mean=[0.2, 0.1],
            initial_covariance=[[0.5, 0.1], [0.1, 0.3]],
        )
    ),
    plane(),
    precisions=turn(0),
)


DRIVEN = {"transition_input": [[0.5, -0.3], [0.2, 0.4]], "emission_input": [0.3, -0.7]}
VARYING = {
    "transition": [[[0.9, 0.2], [0.1 * t, 0.7]] for t in range(LENGTH)],
    "transition_noise": [[[0.3 + 0.1 * t, 0.1], [0.1, 0.2]] for t in range(LENGTH)],
    "emission": [[1.0, 0.5 - 0.3 * t] for t in range(LENGTH)],
    "emission_noise": [0.4 + 0.2 * t for t in range(LENGTH)],
    "scalar": True,
}
PAIR = {"emission": [[1.0, 0.5], [0.3, 1.0]], "emission_noise": [0.4, 0.5]}
SERIES = [np.array([0.2, 1.1, -0.3, 0.9, 0.1, 1.3, -0.2, 1.0, 0.4, 1.2])]


def linear(**parts):
    return latent(lambda: hs.LinearGaussian(**parts))


def structural(structure: str, **options):
    """A model of a named structure, as it is built for data."""
    return lambda key: hs.build(
        "linear-gaussian", hs.Sequences.of(SERIES), structure=structure, key=key, diffuse=True, **options
    )


for number, (name, make, grid, past) in enumerate(
    (
        ("inputs", linear(**MOVING, **DRIVEN, emission=[1.0, 0.5], emission_noise=0.4), line(), ()),
        ("varying", linear(**VARYING), line(), ()),
        ("diffuse", linear(**MOVING, emission=[1.0, 0.5], emission_noise=0.4, diffuse=True), line(), (0.3, -0.4)),
        (
            "partly diffuse",
            linear(**MOVING, emission=[1.0, 0.5], emission_noise=0.4, diffuse=[True, False]),
            line(),
            (0.3,),
        ),
        ("diffuse, vector", linear(**MOVING, **PAIR, diffuse=True), plane(), ((0.3, -0.4),)),
        ("diffuse, varying, inputs", linear(**VARYING, **DRIVEN, diffuse=True), line(), (0.3, -0.4)),
        ("level+seasonal", structural("level+seasonal", period=2), line(), (0.3, -0.4)),
        ("trend", structural("trend"), line(), (0.3, -0.4)),
        ("level+ar", structural("level+ar", order=1), line(), (0.3,)),
    )
):
    CASES[f"linear-gaussian, {name}"] = Case(
        "diffuse" if past else f"linear-gaussian, {name}", make, grid, limits=Limits(past=past), precisions=turn(number)
    )
for name, structure, grid in (("ar", "ar", line()), ("oscillation", "oscillation", line())):
    CASES[f"linear-gaussian, {name}"] = Case(
        "structure",
        lambda key, s=structure: perturbed(
            hs.build("linear-gaussian", hs.Sequences.of(SERIES), structure=s, key=key), key
        ),
        grid,
        precisions=turn(name == "ar"),
    )


@hs.register("laws-bent")
class Bent(eqx.Module):
    """A matrix, a bend and, where there are inputs, what they add."""

    matrix: jax.Array
    driven: jax.Array | None = None

    def __call__(self, z, u):
        bent = self.matrix @ (z + 0.3 * jnp.sin(2 * z))
        return bent if self.driven is None else bent + self.driven @ u


def nonlinear(method: str = "extended", emission=(1.0, 0.5), noise=0.4, inputs: bool = False):
    first = jnp.asarray([[0.5, -0.3], [0.2, 0.4]]) if inputs else None
    second = jnp.asarray([0.3, -0.7]) if inputs else None
    return hs.NonlinearGaussian(
        transition=Bent(jnp.asarray(MOVING["transition"]), first),
        emission=Bent(jnp.asarray(emission), second),
        transition_noise=MOVING["transition_noise"],
        emission_noise=noise,
        initial_mean=[0.2, 0.1],
        initial_covariance=[[0.5, 0.1], [0.1, 0.3]],
        method=method,
        inputs=2 if inputs else 0,
    )


TWICE = {"emission": PAIR["emission"], "noise": PAIR["emission_noise"]}
# The read-out is the Gaussian that the filter predicts, so that it is normalised and can be drawn from; but the mean of
# what a function makes of a Gaussian is approximated, and a missing observation is not summed out exactly.
for number, (name, make, grid) in enumerate(
    (
        ("unscented, inputs", lambda: nonlinear("unscented", inputs=True), line()),
        ("extended", nonlinear, line()),
        ("unscented, vector", lambda: nonlinear("unscented", **TWICE), plane()),
        ("extended, vector", lambda: nonlinear("extended", **TWICE), plane()),
    )
):
    CASES[f"nonlinear-gaussian, {name}"] = Case(
        "nonlinear-gaussian", latent(make), grid, limits=INEXACT, precisions=turn(number)
    )
