"""Learning: `fit` runs a method on a model. Knows capabilities, never models by name."""

from hiddenstate.learn import metrics, objectives, schedules
from hiddenstate.learn.compare import Comparison, Contender, Row, compare, default_models
from hiddenstate.learn.em import EM
from hiddenstate.learn.evaluate import Classified, Evaluation, Predicted, evaluate
from hiddenstate.learn.fit import fit
from hiddenstate.learn.lbfgs import LBFGS
from hiddenstate.learn.method import Fit, Method
from hiddenstate.learn.online import Online, update
from hiddenstate.learn.scores import Score, score
from hiddenstate.learn.seeds import Fits, fit_seeds
from hiddenstate.learn.select import Candidate, Selection, select
from hiddenstate.learn.sgd import SGD

__all__ = [
    "EM",
    "LBFGS",
    "SGD",
    "Candidate",
    "Classified",
    "Comparison",
    "Contender",
    "Evaluation",
    "Fit",
    "Fits",
    "Method",
    "Online",
    "Predicted",
    "Row",
    "Score",
    "Selection",
    "compare",
    "default_models",
    "evaluate",
    "fit",
    "fit_seeds",
    "metrics",
    "objectives",
    "schedules",
    "score",
    "select",
    "update",
]
