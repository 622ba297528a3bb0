"""Tests run with 64-bit types allowed, so that float32 and float64 models meet in one process and a constant of the
wrong type shows; programs are compiled once and kept in the checkout's cache."""

import os
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update(
    "jax_compilation_cache_dir",
    os.environ.get("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".cache" / "jax")),
)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
