"""Does a network that predicts the sequences of a hidden Markov model hold its beliefs, and where?

Three states that stay for about ten steps and are seen with errors have beliefs that fill a triangle in a pattern that
repeats itself at every scale (the process Mess3 of Marzen and Crutchfield 2017, with the numbers of Shai et al. 2024).
A GRU learns the sequences; an affine map of its hidden vectors then shows the same triangle.
"""

from collections.abc import Sequence

import jax.random as jr
import numpy as np
from common import report, settings

import hiddenstate as hs
from hiddenstate.report.beliefs import reachable_charts, simplex_charts, synchronisation_charts, training_charts
from hiddenstate.report.drawing import draw_charts

STAY, RIGHT, LENGTH, UNITS = 0.9, 0.85, 25, 16


def main(arguments: Sequence[str] | None = None) -> None:
    """Train for longer and longer, and look at the beliefs in the hidden vectors."""
    chosen = settings(__file__, __doc__, arguments)
    train_key, test_key, model_key, fit_key, probe_key = jr.split(chosen.key, 5)
    hmm = hs.HMM(np.full(3, 1 / 3), mixed(STAY), hs.emissions.Categorical(probs=mixed(RIGHT)))
    train = hs.sample(hmm, LENGTH, key=train_key, n=40 if chosen.quick else 4000)
    test = hs.sample(hmm, LENGTH, key=test_key, n=40 if chosen.quick else 1000)
    gru = hs.build("gru", train, hidden=UNITS, initial="learned", key=model_key)
    updates = (0, 2) if chosen.quick else (0, 10, 30, 100, 300, 1000)
    method = hs.SGD(batch_size=128, learning_rate=1e-2)
    models = hs.inspect.beliefs.snapshots(gru, train, method, updates, key=fit_key)
    trained = models[updates[-1]]
    over = hs.inspect.beliefs.over_training(models, hmm, test, key=probe_key)
    simplex = hs.inspect.beliefs.simplex(trained, hmm, test, key=probe_key)
    settling = [
        hs.inspect.beliefs.synchronisation(hmm, test, hmm=hmm),
        hs.inspect.beliefs.synchronisation(trained, test, hmm=hmm, key=probe_key),
    ]
    for found in (simplex, *settling):
        print(found)
    reached = reachable_charts(hs.inspect.beliefs.reachable(hmm, 4 if chosen.quick else 8))
    affine = simplex_charts(simplex)[1:2]
    charts = [*reached, *affine, *training_charts(over)[1:], *synchronisation_charts(settling)[:1]]
    draw_charts(charts, chosen.out / "triangle.png")
    report([row(found) for found in over.frame.iter_rows(named=True)], chosen.out)


def row(found: dict) -> dict:
    """What is shown of one number of updates."""
    columns = ("belief_r_squared", "hidden_r_squared", "divergence", "above_optimum")
    return {"updates": str(found["updates"])} | {name: found[name] for name in columns}


def mixed(own: float) -> np.ndarray:
    """Probabilities of three things by three: `own` on the diagonal, and the rest shared by the others."""
    return np.where(np.eye(3) > 0, own, (1 - own) / 2)


if __name__ == "__main__":
    main()
