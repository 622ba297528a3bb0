"""Whole jobs, as a person runs them: EM from ten starts until it has converged, and an epoch of an LSTM."""

from typing import Any

import numpy as np

from peers.case import Agreement, Case, Run, Scale, Size
from peers.workloads.hmm import COLUMNS, arrays
from peers.workloads.recurrent import weights

EM_SIZES = {"full": (5, 20, 500), "quick": (3, 10, 100), "tiny": (2, 4, 30)}
RESTARTS = {"full": 10, "quick": 3, "tiny": 2}
EPOCH_SIZES = {"full": (64, 1_024, 100), "quick": (32, 128, 50), "tiny": (4, 8, 6)}
SYMBOLS, BATCH, RATE = 16, 32, 1e-3


def ours_em(size: Size) -> Run:
    import jax.numpy as jnp
    import jax.random as jr

    import hiddenstate as hs

    found, xs = arrays(size["states"], size["sequences"], size["steps"])
    emission = hs.emissions.Gaussian(means=found.means, covariances=found.variances, covariance="diagonal")
    model = hs.cast(hs.HMM(found.initial, found.transition, emission), jnp.float32)
    data = hs.Sequences.padded(xs)
    method = hs.EM(restarts=size["starts"], start="kmeans")

    def call():
        return hs.fit(model, data, method, key=jr.key(0), progress=False)

    return Run(call, lambda: {"log_prob": np.asarray(hs.log_prob(call().model, data, total=True))})


def hmmlearn_em(size: Size) -> Run:
    from hmmlearn.hmm import GaussianHMM

    _, xs = arrays(size["states"], size["sequences"], size["steps"])
    together, lengths = xs.astype(np.float64).reshape(-1, COLUMNS), [size["steps"]] * size["sequences"]

    def call():
        """Its own tolerance of 0.01 nats is a millionth of a nat for each of 10,000 steps, as ours is."""
        fits = [
            GaussianHMM(
                size["states"], "diag", implementation="scaling", n_iter=500, tol=0.01, covars_prior=0, random_state=i
            ).fit(together, lengths)
            for i in range(size["starts"])
        ]
        return max(fit.score(together, lengths) for fit in fits)

    return Run(call, lambda: {"log_prob": np.asarray(call())})


def symbols(size: Size) -> np.ndarray:
    """Sequences of symbols in which the next depends on the last."""
    random = np.random.default_rng(0)
    levels = random.dirichlet(np.full(SYMBOLS, 0.2), SYMBOLS).cumsum(1)
    found = np.zeros((size["sequences"], size["steps"]), np.int32)
    for t in range(1, size["steps"]):
        drawn = random.random(size["sequences"])[:, None]
        found[:, t] = np.minimum((levels[found[:, t - 1]] < drawn).sum(1), SYMBOLS - 1)
    return found


def network(units: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Weights of the layer, and of the map from its states to logits."""
    found = weights("LSTM", units)
    random = np.random.default_rng(1)
    read = np.ascontiguousarray(np.resize(found["weight_ih_l0"], (4 * units, SYMBOLS)))
    return {**found, "weight_ih_l0": read}, (random.normal(size=(SYMBOLS, units)) / np.sqrt(units)).astype(np.float32)


def ours_epoch(size: Size) -> Run:
    import equinox as eqx
    import jax.numpy as jnp
    import jax.random as jr

    import hiddenstate as hs

    layer, readout = network(size["units"])
    cell: Any = hs.from_torch(layer)
    head = hs.heads.Categorical(size["units"], SYMBOLS, key=jr.key(0))
    head = eqx.tree_at(lambda h: h.weight, head, jnp.asarray(readout))
    model, data = hs.RNN(cell, head), hs.Sequences.padded(symbols(size))
    method = hs.SGD(epochs=1, batch_size=BATCH, learning_rate=RATE, patience=None)

    def call():
        return hs.fit(model, data, method, key=jr.key(0), progress=False)

    def result():
        before, after = (-hs.log_prob(one, data, total=True) / data.steps for one in (model, call().model))
        return {"before": np.asarray(before), "after": np.asarray(after)}

    return Run(call, result)


def torch_epoch(size: Size) -> Run:
    import torch

    layer, readout = network(size["units"])
    xs = torch.from_numpy(symbols(size)).long()

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = torch.nn.LSTM(SYMBOLS, size["units"], batch_first=True)
            self.head = torch.nn.Linear(size["units"], SYMBOLS)
            self.lstm.load_state_dict({name: torch.from_numpy(value) for name, value in layer.items()})
            self.head.load_state_dict({"weight": torch.from_numpy(readout), "bias": torch.zeros(SYMBOLS)})

        def forward(self, xs):
            """The loss: the first symbol is predicted from zeros, the others from what came before."""
            read = torch.nn.functional.one_hot(xs[:, :-1], SYMBOLS).float()
            states = torch.nn.functional.pad(self.lstm(read)[0], (0, 0, 1, 0))
            return torch.nn.functional.cross_entropy(self.head(states).flatten(0, 1), xs.flatten())

    def call():
        torch.manual_seed(0)
        net = Network()
        optimiser = torch.optim.Adam(net.parameters(), RATE, fused=True)
        for rows in torch.randperm(len(xs)).split(BATCH):
            optimiser.zero_grad()
            net(xs[rows]).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()
        return net

    def result():
        with torch.no_grad():
            before = Network()(xs).numpy()
        net = call()
        with torch.no_grad():
            return {"before": before, "after": net(xs).numpy()}

    return Run(call, result)


def cases(scale: Scale) -> list[Case]:
    """Both; the first time, with compilation, is told beside."""
    em = dict(zip(("states", "sequences", "steps"), EM_SIZES[scale], strict=True)) | {"starts": RESTARTS[scale]}
    epoch = dict(zip(("units", "sequences", "steps"), EPOCH_SIZES[scale], strict=True))
    return [
        Case(
            workload="jobs",
            title="EM from several starts to convergence",
            size=em,
            makers={"hiddenstate": ours_em, "hmmlearn": hmmlearn_em},
            # Both have found the same best optimum; where EM stops on the way up to it is within its tolerance.
            agreement={"log_prob": Agreement(1e-3)},
            note="hmmlearn in double precision, by its `scaling` implementation; ours stops by a stricter rule.",
        ),
        Case(
            workload="jobs",
            title="one epoch of an LSTM",
            size=epoch,
            makers={"hiddenstate": ours_epoch, "torch": torch_epoch},
            # The same weights before; after an epoch in another order of minibatches the losses are close.
            agreement={"before": Agreement(1e-4), "after": Agreement(2e-2)},
            note="Adam, minibatches of 32, gradients scaled down to norm 1; data as arrays in memory.",
        ),
    ]
