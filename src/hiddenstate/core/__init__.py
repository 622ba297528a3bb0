"""The contract, the data it runs on, and the errors it raises."""

from hiddenstate.core.contract import (
    AssociativeRecurrence,
    ConditionalModel,
    DecoderStart,
    Form,
    Recurrence,
    SequenceModel,
    has,
    kernel_of,
    name_of,
    own,
    reading_kernel_of,
)
from hiddenstate.core.errors import (
    DataError,
    FileError,
    HiddenStateError,
    MissingDataError,
    RegistryError,
    StrategyError,
)
from hiddenstate.core.looking import Remembered, compiled
from hiddenstate.core.noise import Noise, is_noisy, with_noise
from hiddenstate.core.pairs import PairArrays, Pairs
from hiddenstate.core.parameters import Frozen, cast, dtype_of, parameter_count, partition, trainable
from hiddenstate.core.prior import Prior
from hiddenstate.core.randomness import checked_key, key_for
from hiddenstate.core.registry import (
    recipe,
    recipe_named,
    recipe_names,
    register,
    registered_class,
    registered_name,
)
from hiddenstate.core.schema import KINDS, Column, Kind, Schema, infer_schema
from hiddenstate.core.sequences import Arrays, Sequences, Steps

__all__ = [
    "KINDS",
    "Arrays",
    "AssociativeRecurrence",
    "Column",
    "ConditionalModel",
    "DataError",
    "DecoderStart",
    "FileError",
    "Form",
    "Frozen",
    "HiddenStateError",
    "Kind",
    "MissingDataError",
    "Noise",
    "PairArrays",
    "Pairs",
    "Prior",
    "Recurrence",
    "RegistryError",
    "Remembered",
    "Schema",
    "SequenceModel",
    "Sequences",
    "Steps",
    "StrategyError",
    "cast",
    "checked_key",
    "compiled",
    "dtype_of",
    "has",
    "infer_schema",
    "is_noisy",
    "kernel_of",
    "key_for",
    "name_of",
    "own",
    "parameter_count",
    "partition",
    "reading_kernel_of",
    "recipe",
    "recipe_named",
    "recipe_names",
    "register",
    "registered_class",
    "registered_name",
    "trainable",
    "with_noise",
]
