"""The laws compile some thousand small programs: without the compiler's costlier passes, which change no result."""

import jax
import pytest


@pytest.fixture(autouse=True)
def compile_quickly():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
