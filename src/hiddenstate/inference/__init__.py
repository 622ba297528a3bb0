"""What every model can do: score, predict, sample, forecast, stream. Nothing here knows a model by name."""

from hiddenstate.inference.batches import rebatch, steps_of
from hiddenstate.inference.generate import Generated, generate
from hiddenstate.inference.observations import (
    arrays_for,
    check_sequences,
    data_for,
    pairs_for,
    prototype,
    sequences_for,
)
from hiddenstate.inference.posterior import (
    Decoded,
    filter,
    fixed_lag,
    most_likely_states,
    refuse_impossible,
    sample_states,
    smooth,
)
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
    "Decoded",
    "Forecast",
    "Generated",
    "Stream",
    "arrays_for",
    "check_sequences",
    "data_for",
    "each_step",
    "filter",
    "final_states",
    "fingerprint",
    "fixed_lag",
    "forecast",
    "generate",
    "log_prob",
    "masked_log_probs",
    "most_likely_states",
    "pairs_for",
    "predictive",
    "prototype",
    "rebatch",
    "refuse_impossible",
    "sample",
    "sample_states",
    "sequences_for",
    "smooth",
    "states",
    "step_log_probs",
    "steps_of",
]
