"""A GRU learns the Bayes-optimal prediction of a hidden Markov model (Choe, Shin and Spencer 2017, section 4.1)."""

import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs


@pytest.mark.slow
def test_a_gru_predicts_within_a_hundredth_of_a_nat_of_the_optimum():
    task = hs.tasks.hmm(2, 3, sequences=6000, length=8, key=jr.key(2))
    train, validation, test = task.data.split(0.5, 0.1, key=jr.key(6))
    model = hs.build("gru", train, hidden=16, key=jr.key(7))
    method = hs.SGD(epochs=15, batch_size=100, learning_rate=1e-2, patience=5)
    fit = hs.fit(model, train, method, key=jr.key(8), validation=validation, progress=False)
    nats = -np.asarray(hs.step_log_probs(fit.model, test), np.float64)
    optimal = -np.asarray(task.optimal(test).step_log_probs)
    assert nats.shape == optimal.shape
    assert (nats - optimal).mean() < 0.01
    # and it has learned something: the marginal distribution of symbols alone is worse by much more
    unigram = hs.fit(hs.build("unigram", train, key=jr.key(0)), train, hs.LBFGS(), key=jr.key(0)).model
    assert -hs.log_prob(unigram, test, total=True) / test.steps - optimal.mean() > 0.03
