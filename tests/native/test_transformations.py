"""Kernels under what JAX does to functions: scans, recomputation, arrays that lie on several devices."""

import os
import platform
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.native.affine import affine
from native.kernels import assert_close, needs_kernels

SHARDED = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from hiddenstate.native.affine import affine

assert len(jax.devices()) == 2
mesh = jax.make_mesh((2,), ("batch",))
random = np.random.default_rng(0)
a, b = random.normal(size=(2, 4, 5, 3)).astype("float32")
start = np.ones(3, "float32")
loss = lambda start, a, b: (jax.vmap(lambda *x: affine("plain", *x, None)[0], (None, 0, 0))(start, a, b) ** 2).sum()
run = jax.jit(jax.value_and_grad(loss, (0, 1, 2)))
plain = run(start, a, b)
spread = [jax.device_put(x, NamedSharding(mesh, PartitionSpec("batch"))) for x in (a, b)]
found = run(start, *spread)
assert len(spread[0].sharding.device_set) == 2
jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5), found, plain)
print("the same")
"""


@needs_kernels
def test_arrays_on_several_devices():
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    run = subprocess.run([sys.executable, "-c", SHARDED], env=environment, capture_output=True, text=True)
    assert run.stdout == "the same\n", run.stderr


MAPPED = """
import equinox as eqx, jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, PartitionSpec
import hiddenstate as hs
from hiddenstate.core import Steps, partition

random, batch = np.random.default_rng(0), PartitionSpec("batch")
mesh = jax.make_mesh((2,), ("batch",), axis_types=(AxisType.Auto,))
series = hs.Sequences.of([random.normal(size=8)])
chain = hs.HMM([0.5, 0.5], [[0.9, 0.1], [0.3, 0.7]], hs.emissions.Gaussian(means=[0.0, 1.0], covariances=[1.0, 1.0]))
kalman = hs.build("linear-gaussian", series, states=2, key=jax.random.key(0))
networks = [hs.build(name, series, hidden=4, key=jax.random.key(1)) for name in ("vanilla", "gru", "lstm", "mingru")]

def log_probs(model, x, strategy):
    if not isinstance(model, hs.RNN):
        return model.score_sequence(model.initial(), Steps(x, None, None, None), strategy)[0]
    return jax.vmap(lambda h, y: model.readout(h).log_prob(y))(hs.unroll(model, x, strategy).states, x)

for model in (chain, kalman, *networks):
    learned, rest = partition(hs.cast(model, jnp.float32))
    xs = jnp.asarray(random.normal(size=(4, 6)), jnp.float32)
    total = lambda m, xs, way: jax.vmap(lambda x: log_probs(eqx.combine(m, rest), x, way))(xs).sum()
    due = jax.grad(total)(learned, xs, hs.Sequential())
    for way in (hs.Sequential(), hs.Native()):
        slope = lambda m, xs: jax.grad(lambda m: jax.lax.psum(total(m, xs, way), "batch"))(m)
        run = jax.shard_map(slope, mesh=mesh, in_specs=(PartitionSpec(), batch), out_specs=PartitionSpec())
        same = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
        jax.tree.map(same, jax.jit(run)(learned, xs), due)
print("the same")
"""


@needs_kernels
def test_weights_that_devices_share_get_the_gradient_of_all_sequences():
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    run = subprocess.run([sys.executable, "-c", MAPPED], env=environment, capture_output=True, text=True)
    assert run.stdout == "the same\n", run.stderr


SPREAD = """
import sys, equinox as eqx, jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec
import hiddenstate as hs
from hiddenstate.core import Arrays, Steps, partition
from hiddenstate.inference.batches import steps_of

random, batch, native = np.random.default_rng(0), PartitionSpec("batch"), hs.Native()
mesh = jax.make_mesh((2,), ("batch",), axis_types=(AxisType.Auto,))
rows, single = random.dirichlet(np.ones(3), (2, 3)), jax.random.key
emission = hs.emissions.Categorical(probs=rows[1])
chain = hs.HMM([0.5, 0.2, 0.3], rows[0], emission)
copying = hs.SwitchCopy(reset=0.3, prior=[0.5, 0.2, 0.3], emission=emission)
kalman = hs.build("linear-gaussian", hs.Sequences.of([random.normal(size=8)]), states=2, key=single(0))
leaky = hs.build("leaky", hs.Sequences.of([np.array([0, 2, 1, 1])]), hidden=5, key=single(1))
peeping = hs.RNN(
    hs.cells.LSTM(3, 5, peepholes=True, key=single(2)), hs.heads.Categorical(5, 3, key=single(3)), initial="learned"
)
particles = lambda model: hs.ParticleFilter(model, 8, threshold=1.0, key=single(4))

def states(model, steps, key):
    elements = jax.vmap(model.prepare)(steps.values)
    return native.run(model, model.initial(), elements, steps.valid).states

def scores(model, steps, key):
    return model.score_sequence(model.initial(), steps, native)[0]

def smoothed(model, steps, key):
    return model.smooth(steps, native)

def best(model, steps, key):
    return model.most_likely_states(steps, native)

def drawn(model, steps, key):
    return model.sample_states(steps, native, key)

CASES = {
    "kalman": (kalman, (scores, smoothed, drawn)),
    "hmm": (chain, (scores, smoothed, best, drawn)),
    "switch-copy": (copying, (scores, smoothed)),
    "leaky": (leaky, (states,)),
    "lstm with peepholes": (peeping, (states,)),
    "particles of kalman": (particles(kalman), (scores, states)),
    "particles of hmm": (particles(chain), (scores, states)),
}
lengths, keys = np.array([6, 3, 5, 1], np.int32), jax.random.split(single(5), 4)
same = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)

for name, (model, questions) in CASES.items():
    model = hs.cast(model, jnp.float32)
    native.check(model)
    real = isinstance(getattr(model, "model", model), hs.LinearGaussian)
    values = random.normal(size=(4, 6)).astype("float32") if real else random.integers(0, 3, (4, 6)).astype("int32")
    data, (learned, rest) = (values, lengths, keys), partition(model)
    spread = [jax.device_put(part, NamedSharding(mesh, batch)) for part in data]
    for ask in questions:
        def run(learned, values, lengths, keys):
            one = lambda steps, key: ask(eqx.combine(learned, rest), steps, key)
            return jax.vmap(one)(steps_of(Arrays(values, lengths)), keys)

        def total(learned, *data):
            leaves = jax.tree.leaves(run(learned, *data))
            return sum((a**2).sum() for a in leaves if jnp.issubdtype(a.dtype, jnp.inexact)) + 0.0

        plain = jax.jit(run)(learned, *data)
        jax.tree.map(same, jax.jit(run)(learned, *spread), plain)
        mapped = jax.shard_map(run, mesh=mesh, in_specs=(PartitionSpec(), batch, batch, batch), out_specs=batch)
        jax.tree.map(same, jax.jit(mapped)(learned, *data), plain)
        if sys.argv[1] == "gradient" and ask not in (best, drawn):
            slope = jax.jit(jax.grad(total))(learned, *data)
            scale = max(float(abs(a).max(initial=0)) for a in jax.tree.leaves(slope))
            near = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * scale)
            assert scale > 0
            jax.tree.map(near, jax.jit(jax.grad(total))(learned, *spread), slope)
            shared = lambda learned, *data: jax.grad(lambda m: jax.lax.psum(total(m, *data), "batch"))(learned)
            specs = (PartitionSpec(), batch, batch, batch)
            mapped = jax.shard_map(shared, mesh=mesh, in_specs=specs, out_specs=PartitionSpec())
            jax.tree.map(near, jax.jit(mapped)(learned, *data), slope)
        print(name, ask.__name__, flush=True)
"""


@needs_kernels
@pytest.mark.parametrize("wanted", ["value", pytest.param("gradient", marks=pytest.mark.slow)])
def test_what_is_asked_of_sequences_on_several_devices_has_the_same_answers(wanted):
    flags = f"{os.environ.get('HIDDENSTATE_TEST_FLAGS', '')} --xla_force_host_platform_device_count=2"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    run = subprocess.run([sys.executable, "-c", SPREAD, wanted], env=environment, capture_output=True, text=True)
    expected = [
        "kalman scores",
        "kalman smoothed",
        "kalman drawn",
        "hmm scores",
        "hmm smoothed",
        "hmm best",
        "hmm drawn",
    ]
    expected += ["switch-copy scores", "switch-copy smoothed", "leaky states", "lstm with peepholes states"]
    expected += [f"particles of {name} {asked}" for name in ("kalman", "hmm") for asked in ("scores", "states")]
    assert run.stdout.splitlines() == expected, run.stderr


@needs_kernels
@pytest.mark.parametrize("checkpoint", [False, True, 3])
def test_chunks_that_are_recomputed_change_nothing(checkpoint):
    model = hs.RNN(
        hs.cells.MinGRU(2, 5, key=jax.random.key(0)),
        hs.heads.Bernoulli(5, 2, key=jax.random.key(1)),
        initial="learned",
    )
    model = hs.cast(model, jnp.float64)
    data = hs.Sequences.of([np.random.default_rng(n).integers(0, 2, (n, 2)) for n in (11, 7, 1)])
    slope = jax.jit(jax.grad(lambda m, s: hs.log_prob(m, data, strategy=s, total=True)), static_argnums=1)
    assert_close(slope(model, hs.Native(checkpoint)), slope(model, hs.Sequential()))


@needs_kernels
@pytest.mark.parametrize("name", ["vanilla", "leaky", "gru", "lstm", "mingru", "minlstm"])
def test_adjoints_that_nothing_needs_are_not_computed(name):
    data = hs.Sequences.of([np.random.default_rng(n).integers(0, 3, n) for n in (7, 4, 1)])
    model = hs.cast(hs.build(name, data, hidden=5, key=jax.random.key(0)), jnp.float64)
    slope = jax.jit(jax.grad(lambda m, s: hs.log_prob(m, data, strategy=s, total=True)), static_argnums=1)
    text = slope.lower(model, hs.Native()).as_text()
    assert "7x0xf64" in next(line for line in text.splitlines() if "_backward" in line and "custom_call" in line)
    assert_close(slope(model, hs.Native()), slope(model, hs.Sequential()))


@needs_kernels
def test_a_kernel_inside_a_scan():
    random = np.random.default_rng(0)
    a, b = jnp.asarray(random.normal(size=(2, 4, 5, 3)))

    def total(start, use):
        run = lambda h, ab: affine("plain", h, *ab, None)[::-1] if use else jax.lax.scan(step, h, ab)  # noqa: E731
        final, states = jax.lax.scan(run, start, (a, b))
        return (states**2).sum() + final.sum()

    step = lambda h, ab: (ab[0] * h + ab[1], h)  # noqa: E731
    assert_close(*(jax.jit(jax.value_and_grad(total), static_argnums=1)(jnp.ones(3), use) for use in (True, False)))


@needs_kernels
def test_further_derivatives_are_refused_in_words():
    one = lambda h: affine("plain", h, jnp.ones((2, 1)), jnp.ones((2, 1)), None)[1].sum()  # noqa: E731
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(one, (jnp.ones(1),), (jnp.ones(1),))


def test_a_subclass_with_a_step_of_its_own_has_no_kernel():
    class Halved(hs.cells.MinGRU):
        def step(self, state, element):
            return super().step(state, element) / 2

    model = hs.RNN(Halved(3, 4, key=jax.random.key(0)), hs.heads.Categorical(4, 3, key=jax.random.key(1)))
    assert hs.Auto().choose(model, 10).strategy == hs.Sequential()
    with pytest.raises(hs.StrategyError, match=r"Native cannot run RNN of Halved"):
        hs.log_prob(model, hs.Sequences.padded(np.zeros((1, 3), int)), strategy=hs.Native())


def test_a_subclass_with_gates_of_its_own_does_not_read_by_the_kernel_of_another():
    class Open(hs.cells.MinGRU):
        def gate_and_line(self, x):
            logit, line = super().gate_and_line(x)
            return logit + 5, line

    model = hs.RNN(Open(3, 4, key=jax.random.key(0)), hs.heads.Categorical(4, 3, key=jax.random.key(1)))
    data = hs.Sequences.padded(np.array([[0, 1, 2, 1]]))
    for strategy in (hs.Auto(), hs.Sequential()):
        found = hs.step_log_probs(model, data, strategy=strategy)
        stream = hs.Stream(model)
        pushed = []
        for x in data[0]:
            stream.push(x)
            pushed.append(float(stream.last_log_prob))
        np.testing.assert_allclose(np.asarray(found)[0], pushed, rtol=1e-5)


def test_without_kernels_everything_is_as_before_and_says_why():
    code = (
        "import hiddenstate as hs; a = hs.native.available(); print(bool(a), a.reason, hs.native.instruction_sets());"
        "import jax; c = hs.cells.MinGRU(1, 2, key=jax.random.key(0)); print(hs.Auto().choose(c, 5).strategy)"
    )
    environment = {**os.environ, "HIDDENSTATE_NATIVE": "0"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    first, second = run.stdout.splitlines()
    assert first == "False HIDDENSTATE_NATIVE=0 turns compiled kernels off. []"
    assert second == "Sequential(checkpoint=False)"


@pytest.mark.parametrize(
    ("name", "value"),
    [("HIDDENSTATE_NATIVE", "no"), ("HIDDENSTATE_THREADS", "-2"), ("HIDDENSTATE_MEMORY", "1e9")],
)
@needs_kernels
def test_a_wrong_setting_is_refused(name, value):
    code = "import hiddenstate as hs; hs.native.available()"
    run = subprocess.run([sys.executable, "-c", code], env={**os.environ, name: value}, capture_output=True, text=True)
    assert f"SettingError: {name} is {value!r}; it must be" in run.stderr


RESULTS = """
import sys, jax, jax.numpy as jnp, hiddenstate as hs
from pathlib import Path

hs.native.available()
kept = lambda: int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) >> 10
megabytes = int(sys.argv[1])
blocks = [jnp.ones(megabytes << 18).block_until_ready() for _ in range(160 // megabytes)]
full = kept()
del blocks
print(full - kept())
"""

SURPLUS = """
import time, jax, numpy as np, hiddenstate as hs
from pathlib import Path

model = hs.HMM(np.ones(2) / 2, np.full((2, 2), 0.5), hs.emissions.Poisson(rates=np.arange(1.0, 3)))
data = hs.Sequences.of([np.arange(5)])
hs.log_prob(model, data)
kept = lambda: int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) >> 10
blocks = [np.ones(100 << 17) for _ in range(3)]  # of 100 megabytes
above = [np.ones(1000) for _ in range(1000)]  # without it all would lie at the end, which is always given back
del blocks
full = kept()
time.sleep(1.1)
hs.log_prob(model, data)
print(full - kept())
"""


def _given_back(code, *arguments, kept):
    environment = {**os.environ, "HIDDENSTATE_MEMORY": str(kept)}
    run = subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True)
    return int(run.stdout)


counts_memory = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc"
    or tuple(map(int, platform.libc_ver()[1].split("."))) < (2, 33)
    or "asan" in os.environ.get("LD_PRELOAD", ""),
    reason="memory is not that of a GNU C library that counts it",
)


@needs_kernels
@counts_memory
@pytest.mark.parametrize("megabytes", [20, 40])
def test_memory_that_was_freed_is_kept_for_the_next_call(megabytes):
    given_back = {kept: _given_back(RESULTS, str(megabytes), kept=kept) for kept in (512, 0)}
    assert given_back[512] < 40 < 80 < given_back[0], given_back


@needs_kernels
@counts_memory
def test_more_memory_than_is_to_be_kept_is_given_back_after_a_kernel():
    given_back = {kept: _given_back(SURPLUS, kept=kept) for kept in (512, 100)}
    assert given_back[512] < 40 < 200 < given_back[100], given_back


SCARCE = """
import resource, jax, numpy as np, hiddenstate as hs
from pathlib import Path

random, states, steps = np.random.default_rng(0), 64, 1_000_000
emission = hs.emissions.Poisson(rates=np.arange(1.0, states + 1))
model = hs.HMM(np.ones(states) / states, random.dirichlet(np.ones(states), states), emission)
few, many = (hs.Sequences.of([random.poisson(5, n)]) for n in (50, steps))
hs.most_likely_states(model, few)
used = int(Path("/proc/self/status").read_text().split("VmSize:")[1].split()[0]) << 10
for megabytes in range(200, 2000, 50):
    resource.setrlimit(resource.RLIMIT_AS, (used + (megabytes << 20), resource.RLIM_INFINITY))
    try:
        jax.block_until_ready(hs.most_likely_states(model, many).states)
        print("found")
        break
    except jax.errors.JaxRuntimeError as error:
        print(error)
"""


@needs_kernels
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as on Linux")
def test_too_little_memory_is_an_error_and_no_end_of_the_process():
    run = subprocess.run([sys.executable, "-c", SCARCE], capture_output=True, text=True)
    said = run.stdout.splitlines()
    assert run.returncode == 0 and said[-1] == "found", run.stderr
    assert any("a kernel found too little memory to work in" in line for line in said), said


@needs_kernels
def test_an_instruction_set_that_is_not_there_is_named():
    with (
        pytest.raises(ValueError, match=r"'sse17'; this machine has .*baseline"),
        hs.native.limited(instructions="sse17"),
    ):
        pass


@needs_kernels
@pytest.mark.parametrize("weighting", ["step", "trajectory"])
@pytest.mark.parametrize("bias", [True, False])
def test_particles_are_more_sequences_to_a_kernel(weighting, bias):
    data = hs.Sequences.of([np.random.default_rng(n).integers(0, 3, n) for n in (7, 4, 1)])
    options = {"cell": "mingru", "hidden": 5, "particles": 3, "weighting": weighting, "bias": bias}
    model = hs.cast(hs.build("multi-particle", data, **options, key=jax.random.key(0)), jnp.float64)
    assert hs.Auto().choose(model, 7).strategy == hs.Native()
    assert_close(*(hs.states(model, data, strategy=way) for way in (hs.Native(), hs.Sequential())))
    assert_close(*(hs.log_prob(model, data, strategy=way) for way in (hs.Native(), hs.Sequential())))


@needs_kernels
def test_a_first_step_of_its_own_leaves_the_kernel():
    data = hs.Sequences.of([np.random.default_rng(n).integers(0, 3, n) for n in (7, 4, 1)])
    model = hs.FirstStep(hs.cast(hs.build("mingru", data, hidden=5, key=jax.random.key(0)), jnp.float64))
    assert hs.Auto().choose(model, 7).strategy == hs.Native()
    assert_close(*(hs.states(model, data, strategy=way) for way in (hs.Native(), hs.Sequential())))
    assert_close(*(hs.log_prob(model, data, strategy=way) for way in (hs.Native(), hs.Sequential())))
