"""Character by character: a network learns to write like Alice's Adventures in Wonderland.

Two GRU layers read forty paragraphs of the first two chapters, some 17 000 characters, and predict each next one. They
are trained by truncated backpropagation through time: gradients go back 64 characters, the state is carried on to the
end of the paragraph. Ten other paragraphs are held out; they also say which update is kept.

Seen: the network passes a model of pairs of characters after 45 updates, then learns words. It ends at 1.75 nats a
character against 2.36 of pairs and 3.05 of single characters. At a low temperature it keeps to words that it knows.
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
from hiddenstate.data import decode_symbols
from hiddenstate.report import style

PROMPT = "Alice "
TEMPERATURES = (0.5, 0.8, 1.0)
BASELINES = ("unigram", "bigram")
LENGTH, LINE = 180, 96


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the network and the baselines; write before, during and after."""
    chosen = settings(__file__, __doc__, arguments)
    split_key, model_key, fit_key, write_key = jr.split(chosen.key, 4)
    train, held_out = hs.datasets.alice().split(0.8, key=split_key)
    if chosen.quick:
        train, held_out = train[:4].window(0, 40), held_out[:2].window(0, 40)
    updates = 4 if chosen.quick else 450
    method = hs.SGD(
        steps=updates,
        batch_size=10,
        truncate=64,
        learning_rate=optax.cosine_decay_schedule(4e-3, updates),
        evaluate_steps=max(1, updates // 30),
        patience=None,
    )
    hidden = 8 if chosen.quick else 128
    untrained = hs.build("gru", train, hidden=hidden, layers=2, embedding=32, dropout=0.3, key=model_key)
    fit = hs.fit(untrained, train, method, key=fit_key, validation=held_out)
    # One key gives the same updates: a shorter run is the long one, interrupted.
    early = max(1, updates // 10)
    interrupted = hs.fit(untrained, train, replace(method, steps=early), key=fit_key, validation=held_out).model
    quickly = hs.SGD(steps=4 if chosen.quick else 400, learning_rate=0.05)
    baselines = {name: hs.build(name, train, key=model_key) for name in BASELINES}
    for name, model in baselines.items():
        baselines[name] = hs.fit(model, train, quickly, key=fit_key, validation=held_out).model
    models = baselines | {"untrained": untrained, f"after {early} updates": interrupted, "two GRU layers": fit.model}
    scores = {name: hs.score(model, held_out).nats_per_step for name, model in models.items()}

    samples = {
        "before training": continued(untrained, 1.0, key=write_key),
        f"after {early} updates": continued(interrupted, 1.0, key=write_key),
    }
    for temperature in TEMPERATURES:
        samples[f"after training, temperature {temperature}"] = continued(fit.model, temperature, key=write_key)
    draw(fit, early, {name: scores[name] for name in BASELINES}, samples, chosen.out / "text.png")
    for title, text in samples.items():
        print(f"{title}\n    {text}\n")
    rows = [{"model": n, "nats per character": s, "perplexity": float(np.exp(s))} for n, s in scores.items()]
    report(rows, chosen.out)


def continued(model: hs.RNN, temperature: float, *, key: jax.Array) -> str:
    """How the model goes on after the prompt: below temperature 1 it keeps closer to what is likely.

    Logits are linear in the head's numbers, so dividing these divides them.
    """
    cooled = eqx.tree_at(lambda m: m.head, model, jax.tree.map(lambda w: w / temperature, model.head))
    symbols = model.schema.columns[0].symbols
    start = hs.Sequences.of([symbols.index(character) for character in PROMPT], schema=model.schema)
    written = hs.forecast(cooled, start, LENGTH, n=1, key=key).samples[0]
    return PROMPT + "".join(decode_symbols(hs.Sequences.padded(written, schema=model.schema))[0])


def draw(fit: hs.Fit, early: int, levels: dict[str, float], samples: dict[str, str], path: Path) -> None:
    """The held-out score over training, and under it what was written."""
    seen = fit.history.drop_nulls("validation")
    steps, nats = seen["step"].to_numpy(), seen["validation"].to_numpy()
    with style.canvas(path, 8.5, 7) as figure:
        upper, lower = figure.subplots(2, 1, height_ratios=[1, 1.15])
        upper.plot(steps, nats, color=style.MAIN)
        for end in (early, steps[-1]):
            upper.plot(end, np.interp(end, steps, nats), "o", color=style.MAIN, clip_on=False, zorder=3)
        for value in levels.values():
            upper.axhline(value, color=style.FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        upper.set_xlim(0, steps[-1])
        ends = [(value, name, style.FAINT) for name, value in levels.items()]
        style.label_ends(upper, [*ends, (float(nats[-1]), "two GRU layers", style.MAIN)])
        upper.set(xlabel="updates (dots: when it wrote what is below)", ylabel="nats per character")
        upper.set_title("How well held-out paragraphs are predicted (lower is better)")
        style.grid(upper)
        lower.set_axis_off()
        lower.set(xlim=(0, 1), ylim=(0, 1), title=f"How the network goes on after {PROMPT.strip()!r}")
        for place, (title, text) in zip(np.arange(1, 0, -0.2), samples.items(), strict=True):
            lines = wrap(text, LINE, break_on_hyphens=False)[:2]
            lower.text(0, place, title, color=style.MAIN, va="top")
            lower.text(0.02, place - 0.062, "\n".join(lines), va="top", family="monospace", fontsize=8.2)


if __name__ == "__main__":
    main()
