"""A million steps: the gradient within two gigabytes, and a sum that keeps its digits."""

import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from hiddenstate.ops.sums import sum_over_time

PROGRAM = """
import os, resource, sys
import jax.numpy as jnp, jax.random as jr, numpy as np, equinox as eqx
import hiddenstate as hs
model = hs.RNN(hs.cells.Vanilla(3, 32, key=jr.key(0)), hs.heads.Categorical(32, 3, key=jr.key(1)))
xs = np.random.default_rng(0).integers(0, 3, 1_000_000)
value, gradient = eqx.filter_value_and_grad(lambda m: hs.log_prob(m, xs, total=True))(model)
assert value.dtype == jnp.float32 and np.isfinite(value)
assert np.isfinite(gradient.cell.recurrent_weight).all() and np.abs(gradient.head.weight).max() > 0
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1 / 1024)
if os.path.exists("/proc/self/status"):  # what getrusage says there may be the peak of the process that started this
    peak = 1024 * int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
print(peak)
"""


@pytest.mark.slow
def test_the_gradient_of_a_million_steps_fits_in_two_gigabytes():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 2 * 1024**3


def test_a_long_sum_in_single_precision_keeps_its_digits():
    values = np.random.default_rng(1).normal(-1.1, 0.3, 1_000_003).astype(np.float32)
    exact = values.astype(np.float64).sum()
    found = float(sum_over_time(jnp.asarray(values)))
    assert abs(found - exact) < 1e-6 * abs(exact)
