"""Minimal gated networks against those they come from: time against length, text, selective copying, and parity."""

from dataclasses import dataclass
from typing import Any

import jax.random as jr

from hiddenstate._types import PRNGKeyArray
from hiddenstate.learn import SGD
from hiddenstate.papers.feng2024_claims import claims, plot
from hiddenstate.papers.learned_tasks import label, learn_copying, learn_parity, learn_text, text_parts
from hiddenstate.papers.paper import Notebook, Tables
from hiddenstate.papers.training_time import differences, gradient_costs, parameter_shares

__all__ = ["FULL", "QUICK", "SOURCE", "TITLE", "Config", "claims", "plot", "run"]

TITLE = "minGRU and minLSTM: training time against length, text, selective copying, parity"
SOURCE = "Feng et al. 2024, Were RNNs all we needed?"

SEQUENCE, PARALLEL = "in sequence", "in parallel"


@dataclass(frozen=True)
class Config:
    """Sizes. `text` is the path of a text file; without one the text is that of Alice's Adventures in Wonderland.

    `ways` are cells with how they run over time, to be timed. `text_networks` are cells with how wide a feed-forward
    part behind each of `text_layers` layers is, in widths of a layer, 0 for none. `copying` and `parity` name
    networks: a cell and its number of layers. The first of `parity_lengths` is learned.
    """

    ways: tuple[tuple[str, str], ...]
    lengths: tuple[int, ...]
    batch: int
    hidden: int
    repeats: int
    text: str | None
    text_networks: tuple[tuple[str, int], ...]
    text_hidden: int
    text_layers: int
    text_steps: int
    text_piece: int
    text_rate: float
    text_seeds: int
    copying: tuple[tuple[str, int], ...]
    copying_length: int
    copying_tokens: int
    copying_symbols: int
    copying_hidden: int
    copying_steps: int
    copying_seeds: int
    parity: tuple[tuple[str, int], ...]
    parity_lengths: tuple[int, ...]
    parity_hidden: int
    parity_steps: int
    parity_seeds: int


QUICK = Config(
    ways=(("gru", SEQUENCE), ("mingru", SEQUENCE), ("mingru", PARALLEL)),
    lengths=(128, 1024),
    batch=8,
    hidden=32,
    repeats=5,
    text=None,
    text_networks=(("gru", 0), ("mingru", 0), ("mingru", 2)),
    text_hidden=48,
    text_layers=2,
    text_steps=200,
    text_piece=64,
    text_rate=5e-3,
    text_seeds=2,
    copying=(("mingru", 1), ("mingru", 3)),
    copying_length=16,
    copying_tokens=2,
    copying_symbols=8,
    copying_hidden=32,
    copying_steps=600,
    copying_seeds=2,
    parity=(("gru", 1), ("mingru", 1)),
    parity_lengths=(20, 40, 160),
    parity_hidden=16,
    parity_steps=400,
    parity_seeds=4,
)
FULL = Config(
    ways=(
        ("gru", SEQUENCE),
        ("lstm", SEQUENCE),
        ("mingru", SEQUENCE),
        ("mingru", PARALLEL),
        ("minlstm", SEQUENCE),
        ("minlstm", PARALLEL),
    ),
    lengths=(64, 128, 256, 512, 1024, 2048, 4096),
    batch=64,
    hidden=64,
    repeats=5,
    text=None,
    text_networks=tuple((cell, times) for times in (0, 2) for cell in ("gru", "lstm", "mingru", "minlstm")),
    text_hidden=64,
    text_layers=3,
    text_steps=600,
    text_piece=128,
    text_rate=3e-3,
    text_seeds=3,
    copying=(("mingru", 1), ("mingru", 2), ("mingru", 3), ("minlstm", 1), ("minlstm", 3), ("gru", 1), ("lstm", 1)),
    copying_length=64,
    copying_tokens=4,
    copying_symbols=16,
    copying_hidden=64,
    copying_steps=2000,
    copying_seeds=2,
    parity=(("gru", 1), ("lstm", 1), ("mingru", 1), ("minlstm", 1), ("mingru", 2)),
    parity_lengths=(40, 80, 160, 640),
    parity_hidden=32,
    parity_steps=2000,
    parity_seeds=4,
)


def run(config: Config, notebook: Notebook, *, key: PRNGKeyArray) -> Tables:
    """Times, then text, copying and parity, one network after the other."""
    notebook.expect(len(config.lengths) + 1 + len(config.text_networks) + len(config.copying) + len(config.parity))
    time_key, exact_key, text_key, copying_key, parity_key = jr.split(key, 5)
    tables: Tables = {name: [] for name in ("times", "text_curves", "text", "copying_curves", "copying", "parity")}
    for length in config.lengths:
        tables["times"] += notebook.part(f"a gradient at length {length}", lambda n=length: _times(config, n, time_key))
    tables |= notebook.part("the same in parallel, and parameters", lambda: _exact(config, exact_key))
    for cell, times in config.text_networks:
        named = label(cell, config.text_layers, times)
        _add(tables, notebook.part(f"text by {named}", lambda c=cell, n=times: _text(config, c, n, text_key)))
    for cell, layers in config.copying:
        found = notebook.part(
            f"selective copying by {label(cell, layers)}", lambda c=cell, n=layers: _copying(config, c, n, copying_key)
        )
        _add(tables, found)
    for cell, layers in config.parity:
        tables["parity"] += notebook.part(
            f"parity by {label(cell, layers)}", lambda c=cell, n=layers: _parity(config, c, n, parity_key)
        )
    return tables


def _add(tables: Tables, more: Tables) -> None:
    for name, rows in more.items():
        tables[name] += rows


def _times(config: Config, length: int, key: PRNGKeyArray) -> list[dict[str, Any]]:
    return gradient_costs(
        config.ways,
        length=length,
        batch=config.batch,
        hidden=config.hidden,
        symbols=16,
        repeats=config.repeats,
        key=key,
    )


def _exact(config: Config, key: PRNGKeyArray) -> Tables:
    length = min(config.lengths[0], 32)  # a scan over more steps takes long to compile, and shows no more
    return {
        "differences": differences(_minimal(config), length=length, hidden=config.hidden, symbols=16, key=key),
        "parameters": parameter_shares(32, (1, 2, 3, 4), key=key),
    }


def _minimal(config: Config) -> tuple[str, ...]:
    return tuple(cell for cell, way in config.ways if way == PARALLEL)


def _text(config: Config, cell: str, feedforward: int, key: PRNGKeyArray) -> Tables:
    method = SGD(
        steps=config.text_steps,
        batch_size=32,
        learning_rate=config.text_rate,
        decay="cosine",
        patience=None,
        evaluate_steps=max(1, config.text_steps // 12),
        buckets=1,
    )
    parts = text_parts(config.text, config.text_piece)
    return learn_text(
        cell, config.text_layers, config.text_hidden, parts, method, config.text_seeds, feedforward=feedforward, key=key
    )


def _copying(config: Config, cell: str, layers: int, key: PRNGKeyArray) -> Tables:
    size = {
        "length": config.copying_length,
        "tokens": config.copying_tokens,
        "symbols": config.copying_symbols,
    }
    method = _until(config.copying_steps, 5e-3)
    return learn_copying(cell, layers, config.copying_hidden, size, 4000, method, config.copying_seeds, key=key)


def _parity(config: Config, cell: str, layers: int, key: PRNGKeyArray) -> list[dict[str, Any]]:
    method = _until(config.parity_steps, 1e-2)
    lengths = config.parity_lengths
    return learn_parity(cell, layers, config.parity_hidden, lengths, 2000, method, config.parity_seeds, key=key)


def _until(steps: int, rate: float) -> SGD:
    return SGD(
        steps=steps,
        batch_size=64,
        learning_rate=rate,
        decay="cosine",
        patience=None,
        evaluate_steps=max(1, steps // 10),
    )
