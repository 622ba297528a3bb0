"""Networks: compositions of cells and heads."""

from hiddenstate.networks.rnn import RNN, Embedding

__all__ = ["RNN", "Embedding"]
