"""While GRUs learn to predict the sequences of a hidden Markov model, do they become its forward algorithm?

If there were a map from beliefs to hidden states that fulfils three conditions, the two would be the same (Choe, Shin
and Spencer 2017, proposition 6). After more and more updates such a map is learned, and measured on other sequences:
by how far the conditions are missed, and by what that costs in prediction.
"""

from collections.abc import Sequence

import jax.random as jr
import numpy as np
from common import report, settings

import hiddenstate as hs
from hiddenstate.inspect import Homomorphism
from hiddenstate.report.homomorphisms import plot_homomorphisms

STATES, SYMBOLS, LENGTH, UNITS = 3, 4, 30, 4


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the networks for longer and longer, and compare each with the forward algorithm."""
    chosen = settings(__file__, __doc__, arguments)
    task_key, fit_key, map_key = jr.split(chosen.key, 3)
    task = hs.tasks.hmm(
        STATES, SYMBOLS, sequences=120 if chosen.quick else 5000, length=LENGTH, key=task_key, concentration=0.4
    )
    train, test = task.data.split(0.8)
    hmm = hs.HMM(task.initial, task.transition, hs.emissions.Categorical(probs=task.emission))
    phi = "linear" if chosen.quick else "mlp"
    found = {}
    for updates in (0, 2) if chosen.quick else (0, 30, 100, 300, 1000, 3000):
        models = networks(train, updates, seeds=1 if chosen.quick else 4, key=fit_key)
        found[updates] = [hs.inspect.homomorphism(hmm, model, phi, test, key=map_key) for model in models]
    print(f"One of the networks in the end:\n{found[max(found)][0]}\n")
    print(f"{hs.inspect.probe(models[0], hmm, test, key=map_key)}\n")
    plot_homomorphisms(found, chosen.out / "homomorphism.png")
    report([row(updates, each) for updates, each in found.items()], chosen.out)


def networks(train: hs.Sequences, updates: int, *, seeds: int, key) -> list:
    """GRUs after so many updates. One key gives the same updates: a shorter run is the long one, interrupted."""

    def make(key):
        return hs.build("gru", train, hidden=UNITS, initial="learned", key=key)

    if updates == 0:
        return [make(each) for each in jr.split(jr.split(key)[0], seeds)]
    method = hs.SGD(steps=updates, batch_size=128, learning_rate=5e-3, patience=None)
    return hs.fit_seeds(make, train, method, seeds=seeds, key=key).models


def row(updates: int, found: list[Homomorphism]) -> dict:
    """Medians over the networks."""
    return {
        "updates": str(updates),
        "C.1": float(np.median([one.start.relative for one in found])),
        "C.2": float(np.median([one.update.relative for one in found])),
        "C.3": float(np.median([one.readout.relative for one in found])),
        "nats lost": float(np.median([one.network_divergence for one in found])),
        "by phi": float(np.median([one.image_divergence for one in found])),
    }


if __name__ == "__main__":
    main()
