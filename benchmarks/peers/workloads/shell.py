"""From the shell to the first result: a process that starts, reads a model and a file, scores it and ends."""

import os
import re
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from peers.case import Agreement, Case, Run, Scale, Size
from peers.workloads.hmm import COLUMNS, arrays

SIZE = {"states": 5, "sequences": 1, "steps": 500}

READ = """
import warnings; warnings.simplefilter("ignore")
import sys, numpy as np
part = np.load(sys.argv[1] + "/parameters.npz")
xs = np.loadtxt(sys.argv[1] + "/data.csv", delimiter=",", skiprows=1)
"""
SCRIPTS = {
    "hmmlearn": """
from hmmlearn.hmm import GaussianHMM
model = GaussianHMM(len(part["initial"]), "diag")
model.startprob_, model.transmat_ = part["initial"], part["transition"]
model.means_, model.covars_ = part["means"], part["variances"]
print(model.score(xs))
""",
    "dynamax": """
import jax.numpy as jnp
from dynamax.hidden_markov_model import DiagonalGaussianHMM
model = DiagonalGaussianHMM(len(part["initial"]), xs.shape[1])
parameters, _ = model.initialize(
    initial_probs=jnp.asarray(part["initial"]), transition_matrix=jnp.asarray(part["transition"]),
    emission_means=jnp.asarray(part["means"]), emission_scale_diags=jnp.sqrt(jnp.asarray(part["variances"])))
print(float(model.marginal_log_prob(parameters, jnp.asarray(xs, jnp.float32))))
""",
    "pomegranate": """
import torch
from pomegranate.distributions import Normal
from pomegranate.hmm import DenseHMM
initial, transition, means, variances = (
    part[name].astype("float32") for name in ("initial", "transition", "means", "variances"))
emitted = [Normal(m, v, covariance_type="diag") for m, v in zip(means, variances)]
model = DenseHMM(emitted, edges=transition, starts=initial, ends=np.full(len(initial), 1e-6, "float32"))
print(float(model.log_probability(torch.tensor(xs[None], dtype=torch.float32))) - np.log(1e-6))
""",
}


def files(size: Size) -> tempfile.TemporaryDirectory:
    """A folder with the model's arrays and the data."""
    found, xs = arrays(size["states"], 1, size["steps"])
    folder = tempfile.TemporaryDirectory()
    names = ",".join("ab"[:COLUMNS])
    np.savetxt(Path(folder.name) / "data.csv", xs[0], delimiter=",", header=names, comments="", fmt="%.6f")
    np.savez(Path(folder.name) / "parameters.npz", **found._asdict())
    return folder


def run(words: list[str], **variables: str) -> str:
    """What a command prints; as a person has it, without settings of JAX."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")} | variables
    return subprocess.run(words, capture_output=True, text=True, check=True, env=env).stdout


def ours(size: Size, kept: bool = True) -> Run:
    """The command, which keeps compiled programs from one time to the next; or as it is the very first time."""
    import jax.numpy as jnp

    import hiddenstate as hs

    folder = files(size)
    found, _ = arrays(size["states"], 1, size["steps"])
    data = hs.read(Path(folder.name) / "data.csv")
    emission = hs.emissions.Gaussian(means=found.means, covariances=found.variances, covariance="diagonal")
    model = hs.HMM(found.initial, found.transition, emission, schema=data.schema)
    hs.save(hs.cast(model, jnp.float32), Path(folder.name) / "model.safetensors")
    start = [sys.executable, "-m", "hiddenstate.cli"]
    if (command := Path(sys.executable).with_name("hiddenstate")).exists():
        start = [str(command)]
    words = [*start, "score", f"{folder.name}/model.safetensors", f"{folder.name}/data.csv"]
    score = partial(run, words, HIDDENSTATE_CACHE=f"{folder.name}/cache" if kept else "0")

    def result():
        assert folder  # which would otherwise be gone
        said = re.search(r"log-probability\s+(-?[\d.]+)", score())
        assert said is not None
        return {"log_prob": np.asarray(float(said[1]))}

    return Run(score, result)


def script(size: Size, name: str) -> Run:
    folder = files(size)
    words = [sys.executable, "-c", READ + SCRIPTS[name], folder.name]

    def result():
        assert folder
        return {"log_prob": np.asarray(float(run(words).split()[-1]))}

    return Run(lambda: run(words), result)


def cases(scale: Scale) -> list[Case]:
    """A small HMM and 500 steps."""
    makers: dict[str, Any] = {
        "hiddenstate": ours,
        "hiddenstate with nothing kept": partial(ours, kept=False),
        **{name: partial(script, name=name) for name in SCRIPTS},
    }
    return [
        Case(
            workload="shell",
            title="from the shell to the first score",
            size=SIZE,
            makers=makers,
            agreement={"log_prob": Agreement(1e-4)},
            note="`hiddenstate score model data.csv` also judges calibration and intervals; the others only score. It "
            "finds the programs that an earlier command compiled; with nothing kept it compiles them.",
        )
    ]
