"""Runs side by side, interleaved, the best of several: what to read is the ratio, since machines are noisy."""

import time


def best(functions, repeats):
    """The least time in milliseconds of each function, each having run once before."""
    for function in functions.values():
        function()
    times = {name: float("inf") for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            began = time.perf_counter()
            function()
            times[name] = min(times[name], time.perf_counter() - began)
    return {name: 1e3 * seconds for name, seconds in times.items()}
