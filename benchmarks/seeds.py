"""Several beginnings of a small GRU at once, against the same one after the other.

python benchmarks/seeds.py [--repeats 3]
"""

import argparse
import time

import jax.random as jr

import hiddenstate as hs

SEEDS = 8


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    for hidden, length in ((8, 25), (16, 50), (64, 50)):
        times = best(functions(hidden, length), options.repeats)
        ratio = times["one by one"] / times["at once"]
        said = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in times.items())
        print(f"{SEEDS} GRUs of {hidden}, length {length}, 100 updates: {said}, ratio {ratio:.2f}", flush=True)


def best(functions: dict, repeats: int) -> dict:
    """The least time of each in seconds, in turns, each having run once before."""
    for function in functions.values():
        function()
    times = dict.fromkeys(functions, float("inf"))
    for _ in range(repeats):
        for name, function in functions.items():
            began = time.perf_counter()
            function()
            times[name] = min(times[name], time.perf_counter() - began)
    return times


def functions(hidden: int, length: int) -> dict:
    data = hs.tasks.hmm(3, 4, sequences=256, length=length, concentration=0.3, key=jr.key(1)).data
    method = hs.SGD(steps=100, patience=None)
    key = jr.key(0)
    build_key, fit_key = jr.split(key)

    def make(key):
        return hs.build("gru", data, hidden=hidden, key=key)

    def at_once():
        hs.fit_seeds(make, data, method, key=key, seeds=SEEDS, progress=False)

    def one_by_one():
        for k in jr.split(build_key, SEEDS):
            hs.fit(make(k), data, method, key=fit_key, progress=False)

    return {"at once": at_once, "one by one": one_by_one}


if __name__ == "__main__":
    main()
