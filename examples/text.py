"""Character by character: a network learns to write like Alice's Adventures in Wonderland.

Two GRU layers read forty paragraphs of the first two chapters, some 17 000 characters, and predict each next one. They
are trained by truncated backpropagation through time: gradients go back 64 characters, the state is carried on to the
end of the paragraph. Ten other paragraphs are held out.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import wrap

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
import optax
from common import report, settings

import hiddenstate as hs
from hiddenstate.data import to_text
from hiddenstate.report import style

TEMPERATURES = (0.5, 0.8, 1.0)
BASELINES = ("unigram", "bigram")
LENGTH, LINE = 168, 84


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the network and the baselines; write before, during and after."""
    chosen = settings(__file__, __doc__, arguments)
    split_key, model_key, fit_key, sample_key = jr.split(chosen.key, 4)
    train, held_out = hs.datasets.alice().split(0.8, key=split_key)
    if chosen.quick:
        train, held_out = train[:4].window(0, 60), held_out[:2].window(0, 60)
    updates = 6 if chosen.quick else 600
    method = hs.SGD(
        steps=updates,
        batch_size=10,
        truncate=64,
        learning_rate=optax.cosine_decay_schedule(4e-3, updates),
        evaluate_steps=max(1, updates // 30),
        patience=None,
    )
    untrained = network(train, hidden=8 if chosen.quick else 128, key=model_key)
    fit = hs.fit(untrained, train, method, key=fit_key, validation=held_out)
    # One key gives the same updates: a shorter run is the long one, interrupted.
    early = max(1, updates // 10)
    interrupted = hs.fit(untrained, train, replace(method, steps=early), key=fit_key, validation=held_out).model
    levels = {name: baseline(name, train, held_out, quick=chosen.quick, key=fit_key) for name in BASELINES}

    samples = {
        "before training": written(untrained, 1.0, key=sample_key),
        f"after {early} updates": written(interrupted, 1.0, key=sample_key),
    }
    for temperature in TEMPERATURES:
        samples[f"after training, temperature {temperature}"] = written(fit.model, temperature, key=sample_key)
    draw(fit, levels, samples, chosen.out / "text.png")
    scores = levels | {
        "network, untrained": nats(untrained, held_out),
        f"network, {early} updates": nats(interrupted, held_out),
        "network": nats(fit.model, held_out),
    }
    for title, text in samples.items():
        print(f"{title}\n    {text}\n")
    report(
        [
            {"model": name, "nats per character": value, "perplexity": float(np.exp(value))}
            for name, value in scores.items()
        ],
        chosen.out,
    )


def network(data: hs.Sequences, *, hidden: int, key: jax.Array) -> hs.RNN:
    """Two layers of GRU, which read every character as a learned vector."""
    embedding_key, first_key, second_key, head_key = jr.split(key, 4)
    symbols = data.schema.columns[0].size
    embedding = hs.Embedding(symbols, 32, key=embedding_key)
    layers = [hs.cells.GRU(32, hidden, key=first_key), hs.cells.GRU(hidden, hidden, key=second_key)]
    head = hs.heads.Categorical(hidden, symbols, key=head_key)
    return hs.RNN(hs.Stack(layers, dropout=0.3), head, encoder=embedding, schema=data.schema)


def baseline(name: str, train: hs.Sequences, held_out: hs.Sequences, *, quick: bool, key: jax.Array) -> float:
    """What a model of single characters or of pairs needs for a held-out character, in nats."""
    method = hs.SGD(steps=4 if quick else 400, learning_rate=0.05)
    fit = hs.fit(hs.build(name, train, key=key), train, method, key=key, validation=held_out)
    return nats(fit.model, held_out)


def nats(model: hs.SequenceModel, held_out: hs.Sequences) -> float:
    """Minus the mean log-probability of a held-out character."""
    return hs.score(model, held_out).nats_per_step


def written(model: hs.RNN, temperature: float, *, key: jax.Array) -> str:
    """What the model writes: below temperature 1 it keeps closer to what is likely.

    Logits are linear in the head's numbers, so dividing these divides them.
    """
    cooled = eqx.tree_at(lambda m: m.head, model, jax.tree.map(lambda w: w / temperature, model.head))
    return to_text(hs.sample(cooled, LENGTH, key=key))[0]


def draw(fit: hs.Fit, levels: dict[str, float], samples: dict[str, str], path: Path) -> None:
    """The held-out score over training, and under it what was written."""
    seen = fit.history.drop_nulls("validation")
    with style.canvas(path, 8.5, 7.4) as figure:
        upper, lower = figure.subplots(2, 1, height_ratios=[1, 1.25])
        upper.plot(seen["step"], seen["validation"], color=style.MAIN)
        for value in levels.values():
            upper.axhline(value, color=style.FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        ends = [(value, name, style.FAINT) for name, value in levels.items()]
        upper.set_xlim(0, fit.history["step"].max())
        style.label_ends(upper, [*ends, (float(seen["validation"][-1]), "two GRU layers", style.MAIN)])
        upper.set(xlabel="updates", ylabel="nats per character", title="How well held-out paragraphs are predicted")
        style.grid(upper)
        lower.set_axis_off()
        lower.set(xlim=(0, 1), ylim=(0, 1), title="What the network writes")
        height = 1.0
        for title, text in samples.items():
            lower.text(0, height, title, color=style.MAIN, va="top")
            lower.text(0.02, height - 0.062, "\n".join(wrap(text, LINE)), va="top", family="monospace", fontsize=8.2)
            height -= 0.21


if __name__ == "__main__":
    main()
