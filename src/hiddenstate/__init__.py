"""Probabilistic sequence models behind one contract: a hidden state, updated by each observation.

Everything public is reached from here (``import hiddenstate as hs``) and imported when it is first used, so that the
command line can answer ``--help`` without loading JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hiddenstate import cells as cells
    from hiddenstate import heads as heads
    from hiddenstate import inspect as inspect
    from hiddenstate import native as native
    from hiddenstate import papers as papers
    from hiddenstate.catalogue import build as build
    from hiddenstate.catalogue import recipe_names as recipe_names
    from hiddenstate.core import AssociativeRecurrence as AssociativeRecurrence
    from hiddenstate.core import Column as Column
    from hiddenstate.core import ConditionalModel as ConditionalModel
    from hiddenstate.core import DataError as DataError
    from hiddenstate.core import FileError as FileError
    from hiddenstate.core import Frozen as Frozen
    from hiddenstate.core import HiddenStateError as HiddenStateError
    from hiddenstate.core import MissingDataError as MissingDataError
    from hiddenstate.core import Pairs as Pairs
    from hiddenstate.core import Prior as Prior
    from hiddenstate.core import Recurrence as Recurrence
    from hiddenstate.core import RegistryError as RegistryError
    from hiddenstate.core import Schema as Schema
    from hiddenstate.core import SequenceModel as SequenceModel
    from hiddenstate.core import Sequences as Sequences
    from hiddenstate.core import StrategyError as StrategyError
    from hiddenstate.core import cast as cast
    from hiddenstate.core import parameter_count as parameter_count
    from hiddenstate.core import recipe as recipe
    from hiddenstate.core import register as register
    from hiddenstate.data import datasets as datasets
    from hiddenstate.data import read as read
    from hiddenstate.data import tasks as tasks
    from hiddenstate.files import load as load
    from hiddenstate.files import save as save
    from hiddenstate.hmmlearn import from_hmmlearn as from_hmmlearn
    from hiddenstate.inference import Decoded as Decoded
    from hiddenstate.inference import Forecast as Forecast
    from hiddenstate.inference import Generated as Generated
    from hiddenstate.inference import Stream as Stream
    from hiddenstate.inference import filter as filter
    from hiddenstate.inference import fixed_lag as fixed_lag
    from hiddenstate.inference import forecast as forecast
    from hiddenstate.inference import generate as generate
    from hiddenstate.inference import log_prob as log_prob
    from hiddenstate.inference import most_likely_states as most_likely_states
    from hiddenstate.inference import predictive as predictive
    from hiddenstate.inference import sample as sample
    from hiddenstate.inference import sample_states as sample_states
    from hiddenstate.inference import smooth as smooth
    from hiddenstate.inference import states as states
    from hiddenstate.inference import step_log_probs as step_log_probs
    from hiddenstate.latent import HMM as HMM
    from hiddenstate.latent import HSMM as HSMM
    from hiddenstate.latent import CategoricalDurations as CategoricalDurations
    from hiddenstate.latent import Correction as Correction
    from hiddenstate.latent import Hamilton as Hamilton
    from hiddenstate.latent import Inference as Inference
    from hiddenstate.latent import InputDriven as InputDriven
    from hiddenstate.latent import LinearGaussian as LinearGaussian
    from hiddenstate.latent import NegativeBinomialDurations as NegativeBinomialDurations
    from hiddenstate.latent import NonlinearGaussian as NonlinearGaussian
    from hiddenstate.latent import ParticleFilter as ParticleFilter
    from hiddenstate.latent import Proposal as Proposal
    from hiddenstate.latent import RaoBlackwellised as RaoBlackwellised
    from hiddenstate.latent import StateSpace as StateSpace
    from hiddenstate.latent import SwitchCopy as SwitchCopy
    from hiddenstate.latent import SwitchingLinearGaussian as SwitchingLinearGaussian
    from hiddenstate.latent import emissions as emissions
    from hiddenstate.latent import structural as structural
    from hiddenstate.latent import variational_smooth as variational_smooth
    from hiddenstate.learn import EM as EM
    from hiddenstate.learn import LBFGS as LBFGS
    from hiddenstate.learn import SGD as SGD
    from hiddenstate.learn import Comparison as Comparison
    from hiddenstate.learn import Evaluation as Evaluation
    from hiddenstate.learn import Fit as Fit
    from hiddenstate.learn import Fits as Fits
    from hiddenstate.learn import Online as Online
    from hiddenstate.learn import Score as Score
    from hiddenstate.learn import Selection as Selection
    from hiddenstate.learn import compare as compare
    from hiddenstate.learn import default_models as default_models
    from hiddenstate.learn import evaluate as evaluate
    from hiddenstate.learn import fit as fit
    from hiddenstate.learn import fit_seeds as fit_seeds
    from hiddenstate.learn import metrics as metrics
    from hiddenstate.learn import objectives as objectives
    from hiddenstate.learn import schedules as schedules
    from hiddenstate.learn import score as score
    from hiddenstate.learn import select as select
    from hiddenstate.learn import update as update
    from hiddenstate.networks import RNN as RNN
    from hiddenstate.networks import Bidirectional as Bidirectional
    from hiddenstate.networks import Embedding as Embedding
    from hiddenstate.networks import EncoderDecoder as EncoderDecoder
    from hiddenstate.networks import FirstStep as FirstStep
    from hiddenstate.networks import MultiParticle as MultiParticle
    from hiddenstate.networks import ParticleRNN as ParticleRNN
    from hiddenstate.networks import Stack as Stack
    from hiddenstate.networks import Summary as Summary
    from hiddenstate.networks import Transducer as Transducer
    from hiddenstate.networks.describe import describe as describe
    from hiddenstate.networks.exact import exact_rnn as exact_rnn
    from hiddenstate.strategies import Associative as Associative
    from hiddenstate.strategies import Auto as Auto
    from hiddenstate.strategies import Independent as Independent
    from hiddenstate.strategies import Native as Native
    from hiddenstate.strategies import Sequential as Sequential
    from hiddenstate.strategies import unroll as unroll
    from hiddenstate.torch import from_torch as from_torch
    from hiddenstate.torch import to_torch as to_torch

__version__ = "0.1.0"

_HOMES = {
    "hiddenstate": ("cells", "heads", "inspect", "native", "papers"),
    "hiddenstate.catalogue": ("build", "recipe_names"),
    "hiddenstate.core": (
        "AssociativeRecurrence",
        "Column",
        "ConditionalModel",
        "DataError",
        "FileError",
        "Frozen",
        "HiddenStateError",
        "MissingDataError",
        "Pairs",
        "Prior",
        "Recurrence",
        "RegistryError",
        "Schema",
        "SequenceModel",
        "Sequences",
        "StrategyError",
        "cast",
        "parameter_count",
        "recipe",
        "register",
    ),
    "hiddenstate.data": ("datasets", "read", "tasks"),
    "hiddenstate.files": ("load", "save"),
    "hiddenstate.hmmlearn": ("from_hmmlearn",),
    "hiddenstate.inference": (
        "Decoded",
        "Forecast",
        "Generated",
        "Stream",
        "filter",
        "fixed_lag",
        "forecast",
        "generate",
        "log_prob",
        "most_likely_states",
        "predictive",
        "sample",
        "sample_states",
        "smooth",
        "states",
        "step_log_probs",
    ),
    "hiddenstate.latent": (
        "HMM",
        "HSMM",
        "Hamilton",
        "CategoricalDurations",
        "Correction",
        "Inference",
        "InputDriven",
        "LinearGaussian",
        "NegativeBinomialDurations",
        "NonlinearGaussian",
        "ParticleFilter",
        "Proposal",
        "RaoBlackwellised",
        "StateSpace",
        "SwitchCopy",
        "SwitchingLinearGaussian",
        "variational_smooth",
        "emissions",
        "structural",
    ),
    "hiddenstate.learn": (
        "EM",
        "LBFGS",
        "SGD",
        "Comparison",
        "Evaluation",
        "Fit",
        "Fits",
        "Online",
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
    ),
    "hiddenstate.networks": (
        "RNN",
        "Bidirectional",
        "Embedding",
        "EncoderDecoder",
        "FirstStep",
        "MultiParticle",
        "ParticleRNN",
        "Stack",
        "Summary",
        "Transducer",
    ),
    "hiddenstate.strategies": ("Associative", "Auto", "Independent", "Native", "Sequential", "unroll"),
    "hiddenstate.networks.describe": ("describe",),
    "hiddenstate.networks.exact": ("exact_rnn",),
    "hiddenstate.torch": ("from_torch", "to_torch"),
}
_home = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_home)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _home:
        raise AttributeError(f"module 'hiddenstate' has no attribute {name!r}")
    home = _home[name]
    value = import_module(f"hiddenstate.{name}") if home == "hiddenstate" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_home})
