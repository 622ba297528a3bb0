"""The real thing, with few kills: see `kill_and_resume.py` for many."""

import pytest

from learn import kill_and_resume


@pytest.mark.slow
def test_killed_runs_continue_to_the_same_bytes():
    assert kill_and_resume.check(1, seed=0, epochs=8, say=lambda _: None, warm_up=False) >= 1
