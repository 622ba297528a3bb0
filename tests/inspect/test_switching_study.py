"""How far the rule of minGRU is from exact inference, against what an observation tells about the switch."""

import jax.random as jr
import numpy as np
import pytest

import hiddenstate as hs
from hiddenstate.inspect.switching_study import study_model


@pytest.fixture(scope="module")
def study():
    return hs.inspect.switching_study(key=jr.key(0), sequences=60, length=16, levels=4)


def test_information_is_the_difference_of_entropies():
    """I(x; z) = H(x) + H(z) - H(x, z), of a table written out over states, switches and symbols."""
    random = np.random.default_rng(0)
    prior, kept, fresh = random.dirichlet(np.ones(3)), random.dirichlet(np.ones(4), 3), random.dirichlet(np.ones(4), 3)
    table = np.zeros((3, 2, 4))
    for state in range(3):
        table[state, 0] = 0.7 * prior[state] * kept[state]
        table[state, 1] = 0.3 * prior[state] * fresh[state]
    both = table.sum(0)
    entropies = [-(p * np.log(p)).sum() for p in (both.sum(0), both.sum(1), both)]
    found = hs.inspect.switch_information(0.3, prior, kept, fresh)
    assert found == pytest.approx(entropies[0] + entropies[1] - entropies[2], abs=1e-12)
    apart = hs.inspect.switch_information(0.3, [1.0], [[1.0, 0.0]], [[0.0, 1.0]])
    assert apart == pytest.approx(-0.3 * np.log(0.3) - 0.7 * np.log(0.7))


def test_levels_go_evenly_from_nothing_to_all(study):
    np.testing.assert_allclose(study.frame["share"], [0, 1 / 3, 2 / 3, 1], atol=1e-4)
    assert study.frame["information"][3] == pytest.approx(-0.2 * np.log(0.2) - 0.8 * np.log(0.8))


def test_the_gap_closes_as_an_observation_tells_the_switch(study):
    """Each level below the one before, by more than their standard errors; nothing is left in the end."""
    for name in ("one_pass", "mean_field", "gate_bound", "bound"):
        values, errors = study.frame[name].to_numpy(), study.frame[f"{name}_error"].to_numpy()
        assert (np.diff(values) < -np.maximum(errors[:-1], errors[1:])).all()
        assert abs(values[-1]) < 1e-10
    assert study.frame["resets_only"].min() > 0.1
    assert "0.000 ± 0.000 where it tells all 0.500 nats" in str(study)


def test_where_kept_states_are_unseen_the_gate_is_exact(study):
    unseen = hs.inspect.switching_study(key=jr.key(0), sequences=60, length=16, levels=4, kept="unseen")
    np.testing.assert_allclose(unseen.frame["gate_bound"], 0.0, atol=1e-10)
    np.testing.assert_allclose(unseen.frame["one_pass"], unseen.frame["resets_only"], rtol=0, atol=1e-12)
    assert 0 < unseen.frame["one_pass"].max() < study.frame["one_pass"].max()
    assert unseen.frame["one_pass"][3] < 1e-12


def test_the_model_is_what_it_says():
    """Symbol 5 is that of state 2 with the flag on."""
    probs = np.asarray(study_model(0.9).emission.probs)
    np.testing.assert_allclose(probs.sum(1), 1.0)
    assert probs[2, 5] == pytest.approx(0.7 * 0.1) and probs[4 + 2, 5] == pytest.approx(0.7 * 0.9)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"levels": 1}, "levels is 1; it must be at least 2"),
        ({"kept": "half"}, "kept is 'half'"),
        ({"length": 0}, "length"),
    ],
)
def test_what_is_wrong_is_said(options, said):
    with pytest.raises(hs.HiddenStateError, match=said):
        hs.inspect.switching_study(key=jr.key(0), **options)
