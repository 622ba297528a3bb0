"""Small cells of every kind and option, and for each its equation as a plain NumPy loop in float64."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import hiddenstate as hs
from hiddenstate import cells
from hiddenstate.core import cast, partition

INPUT, HIDDEN = 3, 4


class Example(NamedTuple):
    make: Callable
    associative: bool
    loop: Callable  # (cell, xs) -> the outputs after each x, from the initial state


def _double(*arrays):
    return [np.asarray(a, np.float64) for a in arrays]


def _sigmoid(a):
    return 1 / (1 + np.exp(-a))


def _vanilla(cell, xs):
    W, B, b, xs = _double(cell.recurrent_weight, cell.input_weight, cell.bias, xs)
    phi = {"tanh": np.tanh, "relu": lambda a: np.maximum(a, 0)}[cell.nonlinearity]
    h, out = np.zeros(len(b)), []
    for x in xs:
        h = phi(W @ h + B @ x + b)
        out.append(h)
    return out


def _leaky(cell, xs):
    W, B, b, tau, xs = _double(cell.recurrent_weight, cell.input_weight, cell.bias, cell.time_constants, xs)
    alpha = 1 - np.exp(-1 / tau)
    h, out = np.zeros(len(b)), []
    for x in xs:
        h = (1 - alpha) * h + alpha * np.tanh(W @ h + B @ x + b)
        out.append(h)
    return out


def _skip(cell, xs):
    W, B, b, xs = _double(cell.recurrent_weight, cell.input_weight, cell.bias, xs)
    matrices = dict(zip(cell.lags, np.split(W, len(cell.lags), axis=1), strict=True))
    h = {t: np.zeros(len(b)) for t in range(-max(cell.lags), 1)}
    for t, x in enumerate(xs):
        h[t + 1] = np.tanh(sum(M @ h[t + 1 - lag] for lag, M in matrices.items()) + B @ x + b)
    return [h[t + 1] for t in range(len(xs))]


def _gated_leaky(cell, xs):
    C, d, B, b, xs = _double(cell.gate_weight, cell.gate_bias, cell.input_weight, cell.bias, xs)
    U = 0 if cell.context == "input" else np.asarray(cell.recurrent_weight, np.float64)
    s, out = np.zeros(len(b)), []
    for x in xs:
        c = C @ x + d + (U @ s if cell.context == "state" else 0)
        s = _sigmoid(c) * s + B @ x + b
        out.append(s)
    return out


def _output_feedback(cell, xs):
    B, b, xs = _double(cell.input_weight, cell.bias, xs)
    return [np.tanh(B @ x + b) for x in xs]


def _gru(cell, xs):
    W, B, b, xs = _double(cell.recurrent_weight, cell.input_weight, cell.bias, xs)
    (Wr, Wz, Wn), (Br, Bz, Bn), (br, bz, bn) = (np.split(a, 3) for a in (W, B, b))
    h, out = np.zeros(len(br)), []
    for x in xs:
        r = _sigmoid(Wr @ h + Br @ x + br)
        z = _sigmoid(Wz @ h + Bz @ x + bz)
        if cell.reset == "before":
            n = np.tanh(Wn @ (r * h) + Bn @ x + bn)
        else:
            n = np.tanh(r * (Wn @ h + np.asarray(cell.candidate_bias)) + Bn @ x + bn)
        h = (1 - z) * n + z * h
        out.append(h)
    return out


def _lstm(cell, xs):
    W, B, b, xs = _double(cell.recurrent_weight, cell.input_weight, cell.bias, xs)
    (Wi, Wf, Wg, Wo), (Bi, Bf, Bg, Bo), (bi, bf, bg, bo) = (np.split(a, 4) for a in (W, B, b))
    pi, pf, po = np.zeros((3, len(bi))) if cell.peephole is None else np.asarray(cell.peephole, np.float64)
    phi = np.tanh if cell.input == "tanh" else _sigmoid
    c, h, out = np.zeros(len(bi)), np.zeros(len(bi)), []
    for x in xs:
        i = _sigmoid(Wi @ h + Bi @ x + bi + pi * c)
        f = _sigmoid(Wf @ h + Bf @ x + bf + pf * c)
        c = f * c + i * phi(Wg @ h + Bg @ x + bg)
        h = _sigmoid(Wo @ h + Bo @ x + bo + po * c) * np.tanh(c)
        out.append(h)
    return out


def _positive(a):
    return np.where(a >= 0, a + 0.5, _sigmoid(a))


def _mingru(cell, xs):
    B, b, xs = _double(cell.input_weight, cell.bias, xs)
    k, c = np.split(xs @ B.T + b, 2, axis=1)
    return _mix(_sigmoid(-k), _sigmoid(k), _positive(c) if cell.log_space else c)


def _minlstm(cell, xs):
    B, b, xs = _double(cell.input_weight, cell.bias, xs)
    f, i, c = np.split(xs @ B.T + b, 3, axis=1)
    f, i = _sigmoid(f), _sigmoid(i)
    return _mix(f / (f + i), i / (f + i), _positive(c) if cell.log_space else c)


def _mix(keep, write, candidate):
    h, out = np.zeros(keep.shape[1]), []
    for a, z, c in zip(keep, write, candidate, strict=True):
        h = a * h + z * c
        out.append(h)
    return out


def _linear(cell, xs):
    nu, B, b, xs = _double(cell.log_rate, cell.input_weight, cell.bias, xs)
    a = np.exp(-np.exp(nu))
    if cell.phase is not None:
        a = np.exp(-np.exp(nu) + 1j * np.asarray(cell.phase, np.float64))
        B, b = B[0] + 1j * B[1], b[0] + 1j * b[1]
    h, out = np.zeros(len(nu), a.dtype), []
    for x in xs:
        h = a * h + B @ x + b
        out.append(h if cell.phase is None else np.concatenate([h.real, h.imag]))
    return out


def _turning(cell, xs):
    B, b, xs = _double(cell.input_weight, cell.bias, xs)
    k, c = np.split(xs @ B.T + b, [1 if cell.between == "stochastic" else cell.hidden_size], axis=1)
    if cell.between == "rotation":
        c = c[:, : cell.hidden_size] + 1j * c[:, cell.hidden_size :]
        A = np.diag(np.exp(1j * np.asarray(cell.angle, np.float64)))
    elif cell.between == "stochastic":
        P = np.exp(np.asarray(cell.transition_logits, np.float64))
        A = (P / P.sum(1, keepdims=True)).T
    else:
        A = np.eye(cell.hidden_size)
    h, out = np.zeros(cell.hidden_size, A.dtype), []
    for k_t, c_t in zip(k, c, strict=True):
        h = _sigmoid(-k_t) * (A @ h) + _sigmoid(k_t) * c_t
        out.append(np.concatenate([h.real, h.imag]) if cell.between == "rotation" else h)
    return out


def _with(cell, **options):
    return lambda key: cell(INPUT, HIDDEN, key=key, **options)


EXAMPLES = {
    "vanilla": Example(_with(cells.Vanilla), False, _vanilla),
    "vanilla relu": Example(_with(cells.Vanilla, nonlinearity="relu"), False, _vanilla),
    "leaky": Example(_with(cells.Leaky, time_constants=(1.0, 20.0)), False, _leaky),
    "leaky learned": Example(_with(cells.Leaky, time_constants=3.0, learn_time_constants=True), False, _leaky),
    "skip": Example(_with(cells.SkipInTime, lags=(1, 3)), False, _skip),
    "skip without lag 1": Example(_with(cells.SkipInTime, lags=[4, 2]), False, _skip),
    "gated-leaky": Example(_with(cells.GatedLeaky), True, _gated_leaky),
    "gated-leaky state": Example(_with(cells.GatedLeaky, context="state"), False, _gated_leaky),
    "output-feedback": Example(_with(cells.OutputFeedback), True, _output_feedback),
    "gru": Example(_with(cells.GRU), False, _gru),
    "gru before": Example(_with(cells.GRU, reset="before"), False, _gru),
    "lstm": Example(_with(cells.LSTM), False, _lstm),
    "lstm sigmoid": Example(_with(cells.LSTM, input="sigmoid"), False, _lstm),
    "lstm peepholes": Example(_with(cells.LSTM, peepholes=True), False, _lstm),
    "mingru": Example(_with(cells.MinGRU), True, _mingru),
    "mingru log": Example(_with(cells.MinGRU, log_space=True), True, _mingru),
    "minlstm": Example(_with(cells.MinLSTM), True, _minlstm),
    "minlstm log": Example(_with(cells.MinLSTM, log_space=True), True, _minlstm),
    "linear": Example(_with(cells.DiagonalLinear), True, _linear),
    "linear complex": Example(_with(cells.DiagonalLinear, complex=True), True, _linear),
    "turning": Example(_with(cells.Turning), True, _turning),
    "turning stochastic": Example(_with(cells.Turning, between="stochastic"), True, _turning),
    "turning none": Example(_with(cells.Turning, between="none"), True, _turning),
}
ASSOCIATIVE = [name for name, example in EXAMPLES.items() if example.associative]


def example(name: str, dtype=jnp.float64, seed: int = 0):
    """The cell with noise on every learned number, so that no bias and no peephole is zero by chance."""
    learned, rest = partition(EXAMPLES[name].make(jr.key(seed)))
    leaves, tree = jax.tree.flatten(learned)
    keys = jr.split(jr.key(seed + 1), len(leaves))
    noisy = [a + 0.3 * jr.normal(key, a.shape, a.dtype) for a, key in zip(leaves, keys, strict=True)]
    return cast(eqx.combine(jax.tree.unflatten(tree, noisy), rest), dtype)


def inputs(time: int, dtype=jnp.float64, size: int = INPUT, seed: int = 7):
    return jr.normal(jr.key(seed), (time, size), jnp.float64).astype(dtype)


run = eqx.filter_jit(hs.unroll)


def outputs(cell, unrolled):
    """What the cell shows after each x: `states` are before it, so they are shifted by one."""
    states = jax.tree.map(lambda a, last: jnp.concatenate([a[1:], last[None]]), *unrolled)
    return np.asarray(jax.vmap(cell.output)(states))
