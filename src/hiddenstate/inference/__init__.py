"""What every model can do: score, predict, sample, forecast, stream. Nothing here knows a model by name."""

from hiddenstate.inference.batches import rebatch
from hiddenstate.inference.observations import arrays_for, check_sequences, prototype, sequences_for
from hiddenstate.inference.score import (
    each_step,
    final_states,
    log_prob,
    masked_log_probs,
    predictive,
    states,
    step_log_probs,
)
from hiddenstate.inference.simulate import Forecast, forecast, sample
from hiddenstate.inference.stream import Stream, fingerprint

__all__ = [
    "Forecast",
    "Stream",
    "arrays_for",
    "check_sequences",
    "each_step",
    "final_states",
    "fingerprint",
    "forecast",
    "log_prob",
    "masked_log_probs",
    "predictive",
    "prototype",
    "rebatch",
    "sample",
    "sequences_for",
    "states",
    "step_log_probs",
]
