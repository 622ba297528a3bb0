"""Tests run with 64-bit types allowed, so that float32 and float64 models meet in one process and a constant of the
wrong type shows.

Nearly all of their time is compilation of small programs. So they are compiled with fewer of the compiler's passes,
which change no result that is tested here, and kept in the checkout's cache. Only what a test runs in its own process
(the million steps, the killed trainings, a stream) is compiled as a user's would be.
"""

import gc
import itertools
import os
import subprocess
import sys
from pathlib import Path

import jax

QUICK = (
    "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
)
os.environ.setdefault("HIDDENSTATE_CACHE", "0")  # commands in processes of their own leave the user's folder alone
CACHE = os.environ.get("JAX_COMPILATION_CACHE_DIR") or str(Path(__file__).parents[1] / ".cache" / "jax")


def _accepted(flags: str) -> bool:
    """Whether this jaxlib knows the flags: one that does not ends the process."""
    environment = {**os.environ, "XLA_FLAGS": flags}
    return (
        subprocess.run(
            [sys.executable, "-c", "import jax; jax.devices()"], env=environment, capture_output=True
        ).returncode
        == 0
    )


if "PYTEST_XDIST_WORKER" not in os.environ and "XLA_FLAGS" not in os.environ:
    os.environ["HIDDENSTATE_TEST_FLAGS"] = QUICK if _accepted(QUICK) else ""

if os.environ.get("HIDDENSTATE_TEST_FLAGS"):
    os.environ["XLA_FLAGS"] = os.environ["HIDDENSTATE_TEST_FLAGS"]
    jax.devices()  # the flags are read here, and only here
    del os.environ["XLA_FLAGS"]

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)
jax.config.update("jax_compilation_cache_dir", CACHE)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)

_done = itertools.count(1)


def pytest_collection_finish(session):
    """Tracing makes many objects that live: look seldom for those that do not, and never among the modules."""
    del session
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_runtest_teardown(item):
    """Let go of compiled programs now and then: thousands of them in one process use up its memory maps."""
    del item
    if next(_done) % 150 == 0:
        jax.clear_caches()
        gc.collect()


def pytest_terminal_summary(terminalreporter):
    """Say it where pages were not tried in a browser."""
    reasons = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", []) if "browser" in report.nodeid]
    if reasons:
        terminalreporter.write_line(f"{len(reasons)} tests of pages left out: {reasons[0].removeprefix('Skipped: ')}")
