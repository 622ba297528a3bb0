"""The plot of how networks come to do what the forward algorithm does."""

import pytest

import hiddenstate as hs
from hiddenstate.inspect import Homomorphism, Residual
from hiddenstate.report.homomorphisms import plot_homomorphisms


def missed(size: float) -> Homomorphism:
    one = Residual(size, 2 * size, 0.5)
    return Homomorphism(one, one, one, one, size, size / 2, 10, lambda belief: belief)


def test_it_is_drawn(tmp_path):
    plot_homomorphisms({0: [missed(1.0)], 10: [missed(0.1), missed(0.2)], 100: [missed(0.01)]}, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("found", [{}, {0: [missed(1.0)], 5: []}])
def test_nothing_to_draw_is_said(tmp_path, found):
    with pytest.raises(hs.HiddenStateError, match="found holds no homomorphism"):
        plot_homomorphisms(found, tmp_path / "a.png")


def test_what_does_not_vary_is_missed_by_nothing_or_by_infinity():
    assert Residual(0.0, 0.0, 0.0).relative == 0
    assert Residual(1.0, 1.0, 0.0).relative == float("inf")
    assert Residual(1.0, 3.0, 2.0).relative_largest == 1.5
