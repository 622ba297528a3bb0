"""Recurrent cells, one file each."""

from hiddenstate.cells.cell import Cell
from hiddenstate.cells.vanilla import Vanilla

__all__ = ["Cell", "Vanilla"]
