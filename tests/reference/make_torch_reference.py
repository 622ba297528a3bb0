"""Write torch_recurrent.npz and torch_stacked.npz: weights, inputs, outputs and gradients of torch's recurrent layers.

Run once, in an environment of its own; the library never needs torch:

    python3 -m venv torchenv && torchenv/bin/pip install torch==2.13.0 numpy
    torchenv/bin/python tests/reference/make_torch_reference.py

All in float64. In torch_recurrent.npz, for every layer, named ``layer/what``: its weights, ``input`` (batch, time,
input), initial states ``h0`` (and ``c0``), ``outputs`` (batch, time, hidden), final states ``hn`` (and ``cn``), the
random weights ``probe`` and ``probe_h`` (and ``probe_c``) of the scalar sum(probe * outputs) + sum(probe_h * hn)
(+ sum(probe_c * cn)), and under ``layer/gradient/what`` its gradient in every weight, the input and the initial states.

torch_stacked.npz holds modules of several layers and of both directions, from initial states of zero, named
``kind/layers/directions:what`` (``kind/layers/directions/plain:what`` without biases). ``weight/name`` are the weights
by torch's names; ``input``, ``lengths``, ``probe`` and ``probe_h`` (and ``probe_c``) are as above, states with torch's
leading axis of layers and directions. Under ``whole`` are ``outputs``, ``hn`` (``cn``), ``gradient/input`` and
``gradient/name`` of the batch as it is; under ``ragged`` those of the batch cut to ``lengths`` by pack_padded_sequence.
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


SMALL = {"batch": 3, "time": 5, "input": 2, "hidden": 3}
LENGTHS = torch.tensor([5, 1, 3])
KINDS = {
    "rnn_tanh": (torch.nn.RNN, {"nonlinearity": "tanh"}),
    "rnn_relu": (torch.nn.RNN, {"nonlinearity": "relu"}),
    "gru": (torch.nn.GRU, {}),
    "lstm": (torch.nn.LSTM, {}),
}
STACKED = [
    *((kind, *shape, True) for kind in ("rnn_tanh", "gru", "lstm") for shape in ((2, 1), (3, 1), (1, 2), (2, 2))),
    ("rnn_relu", 2, 2, True),
    *((kind, 2, 2, False) for kind in ("rnn_tanh", "gru", "lstm")),
]


def stacked(kind: str, layers: int, directions: int, bias: bool, seed: int) -> dict[str, np.ndarray]:
    torch.manual_seed(seed)
    make, options = KINDS[kind]
    sizes = SMALL["input"], SMALL["hidden"], layers
    module = make(*sizes, bias=bias, bidirectional=directions == 2, batch_first=True, **options).double()
    results = ("outputs", "hn", "cn") if kind == "lstm" else ("outputs", "hn")
    states = (layers * directions, SMALL["batch"], SMALL["hidden"])
    shapes = {"outputs": (SMALL["batch"], SMALL["time"], directions * SMALL["hidden"]), "hn": states, "cn": states}
    probes = {key: torch.randn(shapes[key]).double() for key in results}
    batch = torch.randn(SMALL["batch"], SMALL["time"], SMALL["input"]).double()
    named = {"outputs": "probe", "hn": "probe_h", "cn": "probe_c"}
    stored = {
        **{f"weight/{key}": value for key, value in module.state_dict().items()},
        **{named[key]: value for key, value in probes.items()},
        "input": batch,
        "lengths": LENGTHS,
    }
    for name, lengths in (("whole", None), ("ragged", LENGTHS)):
        module.zero_grad()
        given = batch.clone().requires_grad_()
        run = dict(zip(results, _run(module, given, lengths), strict=True))
        sum((probes[key] * value).sum() for key, value in run.items()).backward()
        gradients = {"input": given.grad, **{key: value.grad.clone() for key, value in module.named_parameters()}}
        stored |= {f"{name}/{key}": value for key, value in run.items()}
        stored |= {f"{name}/gradient/{key}": value for key, value in gradients.items()}
    return {key: value.detach().numpy().copy() for key, value in stored.items()}


def _run(module: torch.nn.RNNBase, batch: torch.Tensor, lengths: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    """Outputs, padded with zeros, and the final states."""
    if lengths is None:
        outputs, last = module(batch)
    else:
        pack = torch.nn.utils.rnn.pack_padded_sequence
        packed, last = module(pack(batch, lengths, batch_first=True, enforce_sorted=False))
        outputs, _ = torch.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True, total_length=SMALL["time"])
    return outputs, *(last if isinstance(last, tuple) else (last,))


def _name(kind: str, layers: int, directions: int, bias: bool) -> str:
    return f"{kind}/{layers}/{directions}" + ("" if bias else "/plain")


if __name__ == "__main__":
    stored = {
        f"{name}/{key}": value for seed, name in enumerate(LAYERS) for key, value in reference(name, seed).items()
    }
    np.savez(Path(__file__).with_name("torch_recurrent.npz"), **stored)
    stored = {
        f"{_name(*case)}:{key}": value
        for seed, case in enumerate(STACKED)
        for key, value in stacked(*case, seed).items()
    }
    np.savez_compressed(Path(__file__).with_name("torch_stacked.npz"), **stored)
