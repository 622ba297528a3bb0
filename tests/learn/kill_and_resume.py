"""Kill a training process at random moments, start it again, and compare the result with an unbroken run's.

    python tests/learn/kill_and_resume.py --times 20

Every worker is a process of its own that trains a small network with a checkpoint and writes the final model and its
history. It is killed by SIGKILL, which no process can catch, soon after a random step or at a random moment between
the start of training and the end of an unbroken run. Killed runs are started again until they finish; model files and
histories must be equal byte for byte.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EPOCHS = 60


def work(folder: Path, name: str, epochs: int) -> None:
    """Train, and write the result to ``<name>.model`` and ``<name>.csv``."""
    import jax.random as jr
    import numpy as np

    import hiddenstate as hs

    numbers = np.random.default_rng(0)
    train, valid = (
        hs.Sequences.of([numbers.integers(0, 3, numbers.integers(3, 17)) for _ in range(count)]) for count in (40, 12)
    )
    cell_key, head_key, fit_key = jr.split(jr.key(1), 3)
    cell = hs.cells.Vanilla(3, 6, key=cell_key)
    model = hs.RNN(cell, hs.heads.Categorical(6, 3, key=head_key), initial="learned")
    method = hs.SGD(epochs=epochs, batch_size=8, truncate=6, patience=None, checkpoint_every=0.01)
    print("training", flush=True)
    fit = hs.fit(
        model,
        train,
        method,
        key=fit_key,
        validation=valid,
        checkpoint=folder / f"{name}.checkpoint",
        progress=False,
    )
    hs.save(fit.model, folder / f"{name}.model")
    fit.history.write_csv(folder / f"{name}.csv")


def start(folder: Path, name: str, epochs: int) -> subprocess.Popen:
    """A worker that has begun to train."""
    command = [sys.executable, __file__, "--worker", name, "--folder", str(folder), "--epochs", str(epochs)]
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(folder / "cache")}
    environment |= {
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }
    worker = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    if worker.stdout.readline().strip() != "training":
        raise SystemExit(f"the worker failed with exit code {worker.wait()}.")
    return worker


def finished(folder: Path, name: str, epochs: int) -> float:
    """Run a worker to its end; returns how long it trained."""
    worker = start(folder, name, epochs)
    began = time.monotonic()
    if worker.wait() != 0:
        raise SystemExit(f"the worker failed with exit code {worker.returncode}.")
    return time.monotonic() - began


def results(folder: Path, name: str) -> tuple[bytes, bytes]:
    return (folder / f"{name}.model").read_bytes(), (folder / f"{name}.csv").read_bytes()


def step_of(checkpoint: Path) -> int:
    """How far a run has come; reading it is a test too: a killed writer must leave no half-written file."""
    from hiddenstate.core.storage import read_tensors

    return read_tensors(checkpoint)[1]["standing"]["step"] if checkpoint.exists() else 0


def kill(worker: subprocess.Popen, checkpoint: Path, duration: float, total: int, moments: random.Random) -> bool:
    """Kill a worker at a random moment, or soon after a random step; False if it ended before."""
    if moments.random() < 0.25:
        time.sleep(moments.uniform(0, duration))
    else:
        step = moments.randint(step_of(checkpoint), total)
        while worker.poll() is None and step_of(checkpoint) < step:
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.02))
    if worker.poll() is not None:
        return False
    worker.kill()
    worker.wait()
    return True


def check(times: int, seed: int, epochs: int = EPOCHS, say=print, warm_up: bool = True) -> int:
    """Kill workers `times` times; returns how many runs were compared, all equal.

    Without a `warm_up` the unbroken run compiles too, so that random moments fall over a longer time than training.
    """
    moments = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if warm_up:
            finished(folder, "warm-up", epochs)  # compiles, so that the next ones only train
        duration = finished(folder, "unbroken", epochs)
        if warm_up and results(folder, "unbroken") != results(folder, "warm-up"):
            raise SystemExit("two unbroken runs differ.")
        total = step_of(folder / "unbroken.checkpoint")
        killed = runs = 0
        while killed < times:
            name, steps = f"broken-{runs}", []
            checkpoint = folder / f"{name}.checkpoint"
            while killed < times and len(steps) < 3:
                if not kill(start(folder, name, epochs), checkpoint, duration, total, moments):
                    break
                steps, killed = [*steps, step_of(checkpoint)], killed + 1
            finished(folder, name, epochs)
            if results(folder, name) != results(folder, "unbroken"):
                raise SystemExit(f"run {runs}, killed at {steps}, differs from the unbroken one (seed {seed}).")
            left = [p.name for p in folder.iterdir() if p.name.endswith(".tmp")]
            if left:
                raise SystemExit(f"unfinished files are left: {left}.")
            runs += 1
            at = ", ".join(map(str, steps)) or "none"
            say(f"run {runs}: killed with the checkpoint at step {at} of {total}; same bytes in the end")
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20, help="how many kills")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="how long each run trains")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.folder, given.worker, given.epochs)
        return
    runs = check(given.times, given.seed, given.epochs)
    print(f"{given.times} kills in {runs} runs, seed {given.seed}: every result equal to the unbroken run's")


if __name__ == "__main__":
    main()
