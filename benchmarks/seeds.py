"""Several beginnings of a small GRU at once (ours), against the same one after the other."""

import jax.random as jr

import hiddenstate as hs

SEEDS = 8


def cases():
    """Label and what to time, by sizes."""
    for hidden, length in ((8, 25), (16, 50), (64, 50)):
        yield f"{SEEDS} GRUs of {hidden}, length {length}, 100 updates", {"learn": functions(hidden, length)}


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

    return {"ours": at_once, "one by one": one_by_one}
