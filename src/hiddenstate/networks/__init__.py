"""Networks: compositions of cells and heads, and the recipes that build them from data."""

from hiddenstate.networks import baselines, build
from hiddenstate.networks.rnn import RNN, Embedding

__all__ = ["RNN", "Embedding", "baselines", "build"]
