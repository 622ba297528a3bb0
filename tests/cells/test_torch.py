"""Vanilla, GRU and LSTM against torch, as reference/make_torch_reference.py stored it."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.cells import GRU, LSTM, LSTMState, Vanilla

STORED = Path(__file__).parents[1] / "reference" / "torch_recurrent.npz"


def stored(layer):
    with np.load(STORED, allow_pickle=False) as file:
        return {key.split("/", 1)[1]: file[key] for key in file.files if key.startswith(layer + "/")}


def build(layer, arrays):
    """Our cell with torch's weights. Torch's two biases are only ever added, but for the GRU's candidate."""
    hidden, size = arrays["weight_hh"].shape[1], arrays["weight_ih"].shape[1]
    bias = arrays["bias_ih"] + arrays["bias_hh"]
    if layer == "gru":
        cell = GRU(size, hidden, key=jr.key(0))
        bias = bias.at[2 * hidden :].set(arrays["bias_ih"][2 * hidden :])
        cell = eqx.tree_at(lambda c: c.candidate_bias, cell, arrays["bias_hh"][2 * hidden :])
    elif layer == "lstm":
        cell = LSTM(size, hidden, key=jr.key(0))
    else:
        cell = Vanilla(size, hidden, nonlinearity=layer.split("_")[1], key=jr.key(0))
    where = lambda c: (c.recurrent_weight, c.input_weight, c.bias)  # noqa: E731
    return eqx.tree_at(where, cell, (arrays["weight_hh"], arrays["weight_ih"], bias))


@eqx.filter_jit
def run(layer, arrays):
    """The outputs after each x and the final state, for the whole batch."""
    cell = build(layer, arrays)

    def one(xs, h, c):
        state = LSTMState(c, h) if layer == "lstm" else h
        before, final = hs.unroll(cell, xs, hs.Sequential(), state=state)
        shown = jax.vmap(cell.output)(before)
        return jnp.concatenate([shown[1:], cell.output(final)[None]]), final

    return jax.vmap(one)(arrays["input"], arrays["h0"], arrays.get("c0", arrays["h0"]))


@pytest.mark.parametrize("layer", ["rnn_tanh", "rnn_relu", "gru", "lstm"])
class TestTorch:
    def test_outputs_and_final_states_are_torchs(self, layer):
        arrays = {k: jnp.asarray(v) for k, v in stored(layer).items()}
        shown, final = run(layer, arrays)
        np.testing.assert_allclose(shown, arrays["outputs"], rtol=0, atol=1e-12)
        if layer == "lstm":
            np.testing.assert_allclose(final.c, arrays["cn"], rtol=0, atol=1e-12)
            final = final.h
        np.testing.assert_allclose(final, arrays["hn"], rtol=0, atol=1e-12)

    def test_gradients_in_weights_inputs_and_initial_states_are_torchs(self, layer):
        arrays = {k: jnp.asarray(v) for k, v in stored(layer).items()}
        gradients = {k.split("/")[1]: v for k, v in arrays.items() if k.startswith("gradient/")}
        wanted = {"input", "h0", "weight_ih", "weight_hh", "bias_ih", "bias_hh"} | ({"c0"} & arrays.keys())
        assert gradients.keys() == wanted

        def scalar(varied):
            shown, final = run(layer, {**arrays, **varied})
            last = final.h if layer == "lstm" else final
            total = jnp.sum(arrays["probe"] * shown) + jnp.sum(arrays["probe_h"] * last)
            return total + (jnp.sum(arrays["probe_c"] * final.c) if layer == "lstm" else 0)

        ours = jax.jit(jax.grad(scalar))({key: arrays[key] for key in gradients})
        for key, value in gradients.items():
            np.testing.assert_allclose(ours[key], value, rtol=0, atol=1e-11, err_msg=key)
