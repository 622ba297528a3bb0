"""What a model costs beside how well it fits: AIC and BIC."""

import math
from typing import Any

import numpy as np

from hiddenstate.core import Sequences, parameter_count


def free_parameters(model: Any) -> int:
    """How many numbers of a model can be chosen: a row of K probabilities counts K - 1.

    A model may say so by a method `free_parameters`; of others the learned numbers are counted.
    """
    own: Any = getattr(model, "free_parameters", None)
    return parameter_count(model) if own is None else int(own())


def observed_steps(data: Sequences) -> int:
    """How many steps there are of which something was observed: the n of the BIC."""
    if data.observed is None:
        return data.steps
    seen = data.observed.reshape(*data.shape[:2], -1).any(axis=-1)
    return int((seen & data.valid).sum())


def information_criterion(name: str, log_prob: float, parameters: int, steps: int) -> float:
    """AIC, minus twice the log-probability plus 2 a parameter (Akaike 1974), or BIC, plus log n (Schwarz 1978)."""
    price = 2.0 if name == "aic" else math.log(max(steps, 1))
    return -2 * log_prob + price * parameters if np.isfinite(log_prob) else math.inf
