"""Weights from torch: outputs and gradients as reference/make_torch_reference.py stored them; there and back."""

import re
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import hiddenstate as hs
from hiddenstate.cells import GRU, LSTM, Leaky, LSTMState, Vanilla
from marks import quick

STORED = Path(__file__).parent / "reference" / "torch_stacked.npz"
KEY = jr.key(0)


def _stored():
    cases: dict[str, dict[str, np.ndarray]] = {}
    with np.load(STORED, allow_pickle=False) as file:
        for name in file.files:
            case, what = name.split(":")
            cases.setdefault(case, {})[what] = file[name]
    return cases


CASES = _stored()


def weights(case):
    """The state dict of the module."""
    return {name.removeprefix("weight/"): a for name, a in CASES[case].items() if name.startswith("weight/")}


def taken(case):
    return hs.from_torch(weights(case), nonlinearity="relu" if "relu" in case else "tanh")


def final_states(final, case):
    """Those of all layers and directions on one axis, as torch has them: h, or h and c."""
    leaves = jax.tree.leaves(final, is_leaf=lambda node: isinstance(node, LSTMState))
    if case.startswith("lstm"):
        return {"hn": jnp.stack([s.h for s in leaves], 1), "cn": jnp.stack([s.c for s in leaves], 1)}
    return {"hn": jnp.stack(leaves, 1)}


@eqx.filter_jit
def run(body, xs, valid, probes, case):
    """Outputs and final states, and the gradient of the probed scalar in the body and the inputs."""

    def scalar(varied):
        body, xs = varied
        outputs, final = jax.vmap(lambda x, v: body.read(x, v, hs.Sequential()))(xs, valid)
        outputs = jnp.where(valid[..., None], outputs, 0.0)
        shown = {"outputs": outputs, **final_states(final, case)}
        states = {name: jnp.swapaxes(value, 0, 1) for name, value in shown.items() if name != "outputs"}
        shown |= states
        return sum(jnp.sum(probes[name] * shown[name]) for name in shown), shown

    return eqx.filter_grad(scalar, has_aux=True)((body, xs))


@pytest.mark.parametrize("case", quick(CASES, 6))
def test_outputs_states_and_gradients_are_torchs(case):
    """Of whole sequences and of ragged ones, which torch packs; the gradients go by torch's names too."""
    stored, body = CASES[case], taken(case)
    time = stored["input"].shape[1]
    named = {"outputs": "probe", "hn": "probe_h", "cn": "probe_c"}
    probes = {name: stored[probe] for name, probe in named.items() if probe in stored}
    for which, lengths in (("whole", np.full(len(stored["lengths"]), time)), ("ragged", stored["lengths"])):
        valid = np.arange(time) < lengths[:, None]
        xs = jnp.where(valid[..., None], stored["input"], 1e3)  # what padding holds is of no account
        (in_body, in_inputs), shown = run(body, xs, valid, probes, case)
        for name, value in shown.items():
            np.testing.assert_allclose(value, stored[f"{which}/{name}"], rtol=0, atol=1e-12, err_msg=name)
        gradients = {"input": in_inputs, **hs.to_torch(in_body)}
        wanted = {k.split("/")[-1]: v for k, v in stored.items() if k.startswith(f"{which}/gradient/")}
        assert gradients.keys() == wanted.keys()
        for name, value in wanted.items():
            np.testing.assert_allclose(gradients[name], value, rtol=0, atol=1e-11, err_msg=f"{which} {name}")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_there_and_back_is_the_same_bit_for_bit(case, dtype, tmp_path):
    given = {name: array.astype(dtype) for name, array in weights(case).items()}
    body = hs.from_torch(given)
    back = hs.to_torch(body, tmp_path / "w.safetensors")
    assert list(back) == list(given)
    for found in (back, load_file(tmp_path / "w.safetensors")):
        assert found.keys() == given.keys()
        assert all(found[n].dtype == dtype and found[n].tobytes() == a.tobytes() for n, a in given.items())
    again = hs.from_torch(tmp_path / "w.safetensors")
    assert eqx.tree_equal(again, body, typematch=True)
    hs.save(body, tmp_path / "body")
    assert eqx.tree_equal(hs.load(tmp_path / "body"), body, typematch=True)


def test_classes_and_sizes_follow_from_names_and_shapes():
    for case in CASES:
        kind, layers, directions = case.split("/")[:3]
        body = taken(case)
        assert (body.input_size, body.output_size) == (2, 3 * int(directions))
        first = body.cells[0] if layers != "1" else body
        assert len(getattr(body, "cells", [body])) == int(layers)
        assert isinstance(first, hs.Bidirectional) == (directions == "2")
        cell = first.backward if directions == "2" else first
        assert type(cell) is {"rnn_tanh": Vanilla, "rnn_relu": Vanilla, "gru": GRU, "lstm": LSTM}[kind]
        assert (cell.bias is None) == (cell.recurrent_bias is None) == case.endswith("plain")


def test_what_torch_gets_of_our_own_cells_computes_the_same():
    """A cell with one bias, or none, comes back as one that computes the same numbers."""
    xs = jr.normal(jr.key(1), (6, 2))
    keys = jr.split(KEY)
    for kind, biases in ((GRU, 0), (GRU, 1), (LSTM, 1)):
        first = jax.tree.map(lambda a: a + 0.3, kind(2, 3, key=keys[0], biases=biases))
        body = hs.Stack([first, kind(3, 3, key=keys[1])], dropout=0.5)
        again = hs.from_torch(hs.to_torch(body))
        assert len(hs.to_torch(body)) == 8
        np.testing.assert_allclose(again.read(xs).outputs, body.read(xs).outputs, rtol=0, atol=1e-14)


def test_a_network_gives_its_body():
    cell = GRU(3, 4, key=KEY)
    model = hs.RNN(cell, hs.heads.Categorical(4, 3, key=KEY), initial="learned")
    assert all(np.array_equal(a, hs.to_torch(cell)[name]) for name, a in hs.to_torch(model).items())
    answering = hs.Transducer(hs.Bidirectional(cell, cell), hs.heads.Categorical(8, 3, key=KEY))
    assert "bias_hh_l0_reverse" in hs.to_torch(answering)
    plain = hs.RNN(cell, hs.heads.Categorical(4, 3, key=KEY))
    writing = hs.EncoderDecoder(GRU(2, 4, key=KEY), plain, context="state", key=KEY)
    refused("which has two; give its encoder and its decoder", writing, call=hs.to_torch)
    assert hs.to_torch(writing.decoder)["weight_ih_l0"].shape == (12, 3)


def test_arrays_are_copies():
    given = weights("gru/2/1")
    before = {name: array.copy() for name, array in given.items()}
    body = hs.from_torch(given)
    given["weight_ih_l0"][:] = 0
    back = hs.to_torch(body)
    assert np.array_equal(back["weight_ih_l0"], before["weight_ih_l0"])
    back["weight_ih_l0"][:] = 0
    assert np.array_equal(hs.to_torch(body)["weight_ih_l0"], before["weight_ih_l0"])


# -- larger modules ------------------------------------------------------------------------------------------


def under(prefix, case):
    return {f"{prefix}.{name}": array for name, array in weights(case).items()}


def test_the_only_recurrent_layer_of_a_module_is_found(tmp_path):
    module = {**under("encoder.rnn", "lstm/1/2"), "head.weight": np.zeros((2, 3)), "scale": np.ones(1)}
    save_file(module, tmp_path / "m.safetensors")
    expected = taken("lstm/1/2")
    assert eqx.tree_equal(hs.from_torch(module), expected)
    assert eqx.tree_equal(hs.from_torch(str(tmp_path / "m.safetensors"), prefix="encoder.rnn"), expected)


def test_of_several_the_prefix_says_which():
    module = {**under("encoder", "lstm/2/1"), **under("decoder", "gru/2/1"), **weights("rnn_tanh/2/1")}
    for prefix, case in (("encoder", "lstm/2/1"), ("decoder.", "gru/2/1"), ("", "rnn_tanh/2/1")):
        assert eqx.tree_equal(hs.from_torch(module, prefix=prefix), taken(case))
    refused("several recurrent layers: '', 'decoder', 'encoder'; say which one with prefix=", module)
    refused("has no middle.weight_ih_l0", module, prefix="middle")


# -- what is refused -----------------------------------------------------------------------------------------


def refused(match, given, call=hs.from_torch, error=hs.HiddenStateError, **options):
    with pytest.raises(error, match=match) as caught:
        call(given, **options)
    assert type(caught.value) is error
    assert str(caught.value).endswith(".")


def changed(case, **changes):
    """The state dict with some arrays replaced, or left out where None."""
    return {name: a for name, a in {**weights(case), **changes}.items() if a is not None}


@pytest.mark.parametrize(
    ("match", "given"),
    [
        ("has no bias_hh_l1, which should go with", changed("gru/2/1", bias_hh_l1=None)),
        ("has no weight_hh_l0_reverse", changed("lstm/1/2", weight_hh_l0_reverse=None)),
        ("has no weight_ih_l3, weight_hh_l3", changed("lstm/3/1", bias_ih_l3=np.zeros(12), bias_hh_l3=np.zeros(12))),
        ("has no weight_ih_l0, .* it has weight, bias", {"weight": np.zeros((2, 2)), "bias": np.zeros(2)}),
        ("it has no names at all", {}),
        ("weights has weight_xx_l0, which no torch.nn.RNN", changed("gru/2/1", weight_xx_l0=np.zeros((2, 2)))),
        ("weight_hr_l0: an LSTM with proj_size", changed("lstm/2/1", weight_hr_l0=np.zeros((2, 3)))),
        (r"weight_hh_l0 has shape \(6, 3\); for hidden_size", changed("gru/2/1", weight_hh_l0=np.zeros((6, 3)))),
        (r"weight_hh_l0 has shape \(9,\)", changed("gru/2/1", weight_hh_l0=np.zeros(9))),
        (r"bias_ih_l1 has shape \(8,\); beside .* \(9,\)", changed("gru/2/1", bias_ih_l1=np.zeros(8))),
        (r"weight_ih_l1 has shape \(9, 4\); .* \(9, 3\)", changed("gru/2/1", weight_ih_l1=np.zeros((9, 4)))),
        (r"weight_ih_l0 has shape \(\)", changed("gru/2/1", weight_ih_l0=np.zeros(()))),
        ("bias_ih_l0 is of int64; weights must be floating", changed("gru/2/1", bias_ih_l0=np.zeros(9, int))),
        ("bias_ih_l0 is of float16; .* dtype='float32'", changed("gru/2/1", bias_ih_l0=np.zeros(9, np.float16))),
        ("bias_ih_l0 cannot be taken as an array", changed("gru/2/1", bias_ih_l0=[[1.0], [2.0, 3.0]])),
        ("weights is a list; it must map names", [1, 2]),
        ("weights is a dict; it must map names", {1: 2}),
    ],
)
def test_weights_that_make_no_sense_are_named(match, given):
    refused(match, given)


def test_wrong_options_are_named():
    given = weights("gru/2/1")
    refused("nonlinearity is 'relu', but the weights are those of a GRU", given, nonlinearity="relu")
    refused("nonlinearity is 'sine'; a torch.nn.RNN has", given, nonlinearity="sine")
    refused("dtype is 'int8'", given, dtype="int8")


def test_files_that_cannot_be_read_are_refused(tmp_path):
    refused("there is no file", tmp_path / "none.safetensors", error=hs.FileError)
    (tmp_path / "text.safetensors").write_text("hello " * 100)
    refused("no readable safetensors", tmp_path / "text.safetensors", error=hs.FileError)
    refused("looks like a pickle of torch.*save_file", "model.pt", error=hs.FileError)
    refused("cannot write", taken("gru/2/1"), lambda b: hs.to_torch(b, tmp_path / "no" / "w"), hs.FileError)


@pytest.mark.parametrize("half", [np.float16, jnp.bfloat16])
def test_half_precision_is_widened_where_asked(half, tmp_path):
    given = {name: a.astype(half) for name, a in weights("gru/2/1").items()}
    save_file(given, tmp_path / "half.safetensors")
    refused(f"is of {np.dtype(half)}; models compute in float32 or float64", tmp_path / "half.safetensors")
    back = hs.to_torch(hs.from_torch(tmp_path / "half.safetensors", dtype="float32"))
    for name, array in given.items():
        assert back[name].dtype == np.float32
        assert np.array_equal(back[name].astype(half), array)


def test_double_precision_is_never_narrowed_in_silence():
    with jax.enable_x64(False):
        refused("is of float64, and JAX keeps 32 bits.*dtype='float32'", weights("gru/2/1"))
        assert {a.dtype.name for a in hs.to_torch(hs.from_torch(weights("gru/2/1"), dtype="float32")).values()} == {
            "float32"
        }


def _bodies_that_torch_does_not_have():
    gru, other = GRU(3, 3, key=KEY), GRU(3, 4, key=KEY)
    both = hs.Bidirectional(gru, gru)
    return [
        ("no layer of Leaky cells", Leaky(2, 3, key=KEY)),
        ("no layer of Stack cells", hs.Bidirectional(hs.Stack([gru]), hs.Stack([gru]))),
        ("the LSTM has peepholes", LSTM(2, 3, peepholes=True, key=KEY)),
        ("the LSTM has input='sigmoid'", LSTM(2, 3, input="sigmoid", key=KEY)),
        ("the GRU has reset='before'", GRU(2, 3, reset="before", key=KEY)),
        ("nonlinearity='identity'", Vanilla(2, 3, nonlinearity="identity", key=KEY)),
        ("residual=True", hs.Stack([gru, gru], residual=True)),
        ("norm=True", hs.Stack([gru, gru], norm=True)),
        ("softmax=True", hs.Stack([gru, gru], softmax=True)),
        ("feedforward=2", hs.Stack([gru, gru], feedforward=2, key=KEY)),
        ("differ in their kind of cell: GRU, LSTM", hs.Stack([gru, LSTM(3, 3, key=KEY)])),
        ("differ in their hidden_size: 3, 4", hs.Stack([gru, other])),
        ("differ in their hidden_size: 3, 4", hs.Bidirectional(gru, other)),
        ("differ in their directions: 1, 2", hs.Stack([gru, both])),
        (
            "differ in their nonlinearity: relu, tanh",
            hs.Stack([Vanilla(2, 2, key=KEY), Vanilla(2, 2, nonlinearity="relu", key=KEY)]),
        ),
        ("takes a cell, an hs.Stack", hs.heads.Categorical(4, 3, key=KEY)),
    ]


@pytest.mark.parametrize(("match", "body"), _bodies_that_torch_does_not_have(), ids=lambda v: v if v is str else None)
def test_what_torch_does_not_have_is_refused(match, body):
    refused(re.escape(match), body, call=hs.to_torch)
