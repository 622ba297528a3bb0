"""Write torch_recurrent.npz: weights, inputs, outputs and gradients of torch's recurrent layers.

Run once, in an environment of its own; the library never needs torch:

    python3 -m venv torchenv && torchenv/bin/pip install torch==2.13.0 numpy
    torchenv/bin/python tests/reference/make_torch_reference.py

All in float64. For every layer, named ``layer/what``: its weights, ``input`` (batch, time, input), initial
states ``h0`` (and ``c0``), ``outputs`` (batch, time, hidden), final states ``hn`` (and ``cn``), the random
weights ``probe`` and ``probe_h`` (and ``probe_c``) of the scalar sum(probe * outputs) + sum(probe_h * hn)
(+ sum(probe_c * cn)), and under ``layer/gradient/what`` its gradient in every weight, the input and the
initial states.
"""

from pathlib import Path

import numpy as np
import torch

BATCH, TIME, INPUT, HIDDEN = 3, 7, 4, 5
LAYERS = {
    "rnn_tanh": lambda: torch.nn.RNN(INPUT, HIDDEN, nonlinearity="tanh", batch_first=True),
    "rnn_relu": lambda: torch.nn.RNN(INPUT, HIDDEN, nonlinearity="relu", batch_first=True),
    "gru": lambda: torch.nn.GRU(INPUT, HIDDEN, batch_first=True),
    "lstm": lambda: torch.nn.LSTM(INPUT, HIDDEN, batch_first=True),
}


def reference(name: str, seed: int) -> dict[str, np.ndarray]:
    torch.manual_seed(seed)
    layer = LAYERS[name]().double()
    arrays = {
        "input": torch.randn(BATCH, TIME, INPUT),
        **{s: torch.randn(1, BATCH, HIDDEN) for s in (("h0", "c0") if name == "lstm" else ("h0",))},
    }
    arrays = {key: value.double().requires_grad_() for key, value in arrays.items()}
    states = tuple(arrays[s] for s in ("h0", "c0") if s in arrays)
    outputs, last = layer(arrays["input"], states if name == "lstm" else states[0])
    results = {
        "outputs": outputs,
        **dict(zip(("hn", "cn"), last if name == "lstm" else (last,), strict=False)),
    }
    probes = {key: torch.randn(value.shape).double() for key, value in results.items()}
    sum((probes[key] * value).sum() for key, value in results.items()).backward()

    inputs = {**arrays, **{key.removesuffix("_l0"): value for key, value in layer.named_parameters()}}
    named = {"outputs": "probe", "hn": "probe_h", "cn": "probe_c"}
    return {
        **{key: _plain(key, value) for key, value in inputs.items()},
        **{key: _plain(key, value) for key, value in results.items()},
        **{named[key]: _plain(key, value) for key, value in probes.items()},
        **{f"gradient/{key}": _plain(key, value.grad) for key, value in inputs.items()},
    }


def _plain(key: str, value: torch.Tensor) -> np.ndarray:
    array = value.detach().numpy()
    return array[0] if key in ("h0", "c0", "hn", "cn") else array  # without the axis of layers


if __name__ == "__main__":
    stored = {
        f"{name}/{key}": value for seed, name in enumerate(LAYERS) for key, value in reference(name, seed).items()
    }
    np.savez(Path(__file__).with_name("torch_recurrent.npz"), **stored)
