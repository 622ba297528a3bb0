"""Noise that is learned away: the scale of an `hs.cells.Noisy` under the evidence lower bound, on sequences of modes.

    python benchmarks/noise.py

Sohl-Dickstein and Kingma (2015, section 2.3) say that with q = p the bound is best without noise. The scale starts at
1, and every line says how much of it is left. Each part of the run begins with a new optimiser: Adam remembers the
large gradients of the noisy beginning for about a thousand updates, and its steps stay small for as long.
"""

import argparse

import jax.random as jr

import hiddenstate as hs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cell", default="vanilla", help="the name of a cell")
    parser.add_argument("--modes", type=int, default=2, help="how many patterns the sequences follow")
    parser.add_argument("--updates", type=int, default=200, help="between two lines, of which there are four")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    data_key, model_key, fit_key = jr.split(jr.key(given.seed), 3)
    data = hs.tasks.modes(given.modes, sequences=64, length=20, key=data_key).data
    plain = hs.build(given.cell, data, hidden=4, key=model_key)
    model = hs.RNN(hs.cells.Noisy(plain.cell, 1.0), plain.head, initial="learned")
    bound = hs.objectives.Bound(samples=4)
    for part in range(1, 5):
        method = hs.SGD(
            objective=bound, steps=given.updates, learning_rate=0.1, batch_size=64, patience=None, evaluate_steps=50
        )
        fit = hs.fit(model, data, method, key=jr.fold_in(fit_key, part), progress=False)
        model = fit.model
        print(f"{part * given.updates} updates: scale {float(model.cell.scale):.1e}", flush=True)


if __name__ == "__main__":
    main()
