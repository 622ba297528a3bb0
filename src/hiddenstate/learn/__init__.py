"""Learning: `fit` runs a method on a model. Knows capabilities, never models by name."""

from hiddenstate.learn.fit import fit
from hiddenstate.learn.method import Fit, Method
from hiddenstate.learn.sgd import SGD

__all__ = ["SGD", "Fit", "Method", "fit"]
