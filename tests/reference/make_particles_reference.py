"""Write particles.npz: what the library particles says of two small models.

Run once, in an environment of its own; the library never needs particles:

    python3 -m venv particlesenv && particlesenv/bin/pip install particles==0.4 numpy scipy
    particlesenv/bin/python tests/reference/make_particles_reference.py

- ``volatility/observed``, ``linear/observed``: data drawn from a stochastic volatility model and a linear Gaussian one.
- ``MODEL/KIND/log_likelihoods``: its estimates over many runs, KIND being bootstrap, guided or auxiliary. They are
  random: what is to be compared is their mean and their standard deviation.
- ``resampling/weights``, ``uniforms``, and the ancestors ``systematic`` and ``stratified`` found with these uniforms.
- ``resampling/log_weights`` (not normalised) and their ``effective_sample_size``.
"""

from importlib.metadata import version
from pathlib import Path

import numpy as np
import particles
from particles import distributions as dists
from particles import kalman, resampling
from particles import state_space_models as ssm

PARTICLES, RUNS, TIME = 100, 1000, 30


class Volatility(ssm.StateSpaceModel):
    """z' = -1 + 0.9 (z + 1) + 0.5 e, x = exp(z / 2) e'."""

    def PX0(self):
        return dists.Normal(loc=-1.0, scale=0.8)

    def PX(self, t, xp):
        return dists.Normal(loc=-1.0 + 0.9 * (xp + 1.0), scale=0.5)

    def PY(self, t, xp, x):
        return dists.Normal(loc=0.0, scale=np.exp(0.5 * x))


class Linear(ssm.StateSpaceModel):
    """z' = 0.9 z + 0.7 e, x = z + 0.5 e'."""

    def PX0(self):
        return dists.Normal(loc=0.0, scale=1.0)

    def PX(self, t, xp):
        return dists.Normal(loc=0.9 * xp, scale=0.7)

    def PY(self, t, xp, x):
        return dists.Normal(loc=x, scale=0.5)

    def proposal0(self, data):
        return self.PX0().posterior(data[0], sigma=0.5)

    def proposal(self, t, xp, data):
        return self.PX(t, xp).posterior(data[t], sigma=0.5)

    def logeta(self, t, x, data):
        return dists.Normal(loc=0.9 * x, scale=np.hypot(0.7, 0.5)).logpdf(data[t + 1])


def estimates(feynman_kac) -> np.ndarray:
    found = []
    for _ in range(RUNS):
        run = particles.SMC(fk=feynman_kac, N=PARTICLES, resampling="systematic", ESSrmin=0.5)
        run.run()
        found.append(run.logLt)
    return np.array(found)


def main() -> None:
    np.random.seed(0)
    store: dict[str, np.ndarray] = {
        "versions": np.array([f"particles {version('particles')}", f"numpy {np.__version__}"])
    }
    for name, model in (("volatility", Volatility()), ("linear", Linear())):
        _, data = model.simulate(TIME)
        store[f"{name}/observed"] = np.array(data).ravel()
        store[f"{name}/bootstrap/log_likelihoods"] = estimates(ssm.Bootstrap(ssm=model, data=data))
        if name == "linear":
            store[f"{name}/guided/log_likelihoods"] = estimates(ssm.GuidedPF(ssm=model, data=data))
            store[f"{name}/auxiliary/log_likelihoods"] = estimates(ssm.AuxiliaryPF(ssm=model, data=data))
            exact = kalman.LinearGauss(rho=0.9, sigmaX=0.7, sigmaY=0.5, sigma0=1.0)
            kalman_filter = kalman.Kalman(ssm=exact, data=data)
            kalman_filter.filter()
            store[f"{name}/exact"] = np.sum(kalman_filter.logpyt)

    count = 200
    log_weights = np.where(np.random.rand(count) < 0.3, -np.inf, 3 * np.random.randn(count))
    weights = resampling.exp_and_normalise(log_weights)
    uniforms = np.random.rand(count)
    store["resampling/log_weights"] = log_weights
    store["resampling/weights"] = weights
    store["resampling/effective_sample_size"] = resampling.essl(log_weights)
    store["resampling/uniforms"] = uniforms
    strata = np.arange(count)
    store["resampling/stratified"] = resampling.inverse_cdf((strata + uniforms) / count, weights)
    store["resampling/systematic"] = resampling.inverse_cdf((strata + uniforms[0]) / count, weights)
    np.savez_compressed(Path(__file__).parent / "particles.npz", **store)


if __name__ == "__main__":
    main()
