"""Recurrent cells, one file each."""

from hiddenstate.cells.cell import Cell, Read
from hiddenstate.cells.diagonal_linear import DiagonalLinear
from hiddenstate.cells.gated_leaky import GatedLeaky
from hiddenstate.cells.gru import GRU
from hiddenstate.cells.leaky import Leaky
from hiddenstate.cells.lstm import LSTM, LSTMState
from hiddenstate.cells.mingru import MinGRU
from hiddenstate.cells.minlstm import MinLSTM
from hiddenstate.cells.noisy import Noisy
from hiddenstate.cells.output_feedback import OutputFeedback
from hiddenstate.cells.skip_in_time import SkipInTime
from hiddenstate.cells.turning import Turning
from hiddenstate.cells.vanilla import Vanilla

__all__ = [
    "GRU",
    "LSTM",
    "Cell",
    "DiagonalLinear",
    "GatedLeaky",
    "LSTMState",
    "Leaky",
    "MinGRU",
    "MinLSTM",
    "Noisy",
    "OutputFeedback",
    "Read",
    "SkipInTime",
    "Turning",
    "Vanilla",
]
