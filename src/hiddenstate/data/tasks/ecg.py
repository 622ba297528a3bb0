"""Simulated electrocardiograms whose heart rate is known."""

from dataclasses import dataclass

import numpy as np

from hiddenstate._types import PRNGKeyArray
from hiddenstate.core import Column, DataError, Schema, Sequences
from hiddenstate.data.tasks.checks import check_sizes, generator

# Wave: height in mV, place and width in seconds at a beat of one second, counted from the R peak.
WAVES = {
    "P": (0.15, -0.17, 0.025),
    "Q": (-0.12, -0.026, 0.010),
    "R": (1.00, 0.000, 0.011),
    "S": (-0.22, 0.028, 0.010),
    "T": (0.30, 0.280, 0.045),
}


@dataclass(frozen=True, eq=False)
class ECGTask:
    """Electrocardiograms in millivolts and the truth behind them.

    `heart_rate` is each sequence's mean rate in beats per minute, `beats` (sequence, time) is True at the R
    peaks, `rate` the samples per second.
    """

    data: Sequences
    heart_rate: np.ndarray
    beats: np.ndarray
    rate: float

    @property
    def targets(self) -> np.ndarray:
        """What is to be told from a sequence: its heart rate."""
        return self.heart_rate


def ecg(
    *,
    sequences: int,
    length: int,
    rate: float = 250.0,
    heart_rate: tuple[float, float] = (50.0, 110.0),
    variability: float = 0.03,
    wander: float = 0.1,
    noise: float = 0.02,
    key: PRNGKeyArray,
) -> ECGTask:
    """Simulated electrocardiograms, one lead, of heart rates uniform in a range of beats per minute.

    Every beat is a sum of five Gaussians, the waves P, Q, R, S and T, as in McSharry, Clifford, Tarassenko
    and Smith (2003); P and T move with the square root of the beat's length. Beats vary in length by the
    share `variability`, half of it in step with breathing; slow waves of amplitude `wander` and white
    `noise`, both in millivolts, are added.

    To tell the rate takes memory on two scales: tens of milliseconds to see an R peak, seconds to count the
    time between two.
    """
    check_sizes(sequences=sequences, length=length)
    low, high = heart_rate
    if not 0 < low <= high:
        raise DataError(f"heart_rate is {heart_rate}; it must be two rates in rising order, above 0.")
    if not rate > 0:
        raise DataError(f"rate is {rate}; it must be positive: samples per second.")
    if not (0 <= variability < 0.3 and wander >= 0 and noise >= 0):
        raise DataError(
            f"variability is {variability}, wander {wander}, noise {noise}; none may be "
            "negative, and variability must be below 0.3."
        )
    random = generator(key)
    beats_per_minute = random.uniform(low, high, sequences)
    peaks = _peaks(random, beats_per_minute, length / rate, variability)
    times = np.arange(length) / rate
    signal = _waves(times, peaks) + wander * _slow_waves(random, times, sequences)
    signal += noise * random.standard_normal(signal.shape)
    schema = Schema((Column("millivolt", "real"),), scalar=True)
    return ECGTask(Sequences.padded(signal, schema=schema), beats_per_minute, _marks(peaks, length, rate), rate)


def _peaks(random: np.random.Generator, heart_rate: np.ndarray, seconds: float, variability: float) -> np.ndarray:
    """The times of the R peaks (sequence, beat), from two before the start to two behind the end at least."""
    mean = 60.0 / heart_rate[:, None]
    count = int(np.ceil(seconds / (mean.min() * (1 - 0.5 * variability)) * 1.1)) + 8
    breath = random.uniform(0.2, 0.3, (len(mean), 1)) * mean * np.arange(count)
    breathing = np.sin(2 * np.pi * (breath + random.random((len(mean), 1))))
    jitter = np.clip(random.standard_normal((len(mean), count)), -3, 3)
    # Half of the variance each: a sine has variance 1/2, the jitter variance 1.
    lengths = mean * (1 + variability * (breathing + np.sqrt(0.5) * jitter))
    return np.cumsum(lengths, axis=1) - lengths[:, :1] * (3 + random.random((len(mean), 1)))


def _waves(times: np.ndarray, peaks: np.ndarray) -> np.ndarray:
    """The beats' waves (sequence, time); only the beat before, at and after a time are felt there."""
    nearest = np.stack([np.searchsorted(row, times) for row in peaks])
    signal = np.zeros(nearest.shape)
    for neighbour in (-2, -1, 0, 1):
        beat = np.clip(nearest + neighbour, 1, peaks.shape[1] - 1)
        peak = np.take_along_axis(peaks, beat, axis=1)
        stretch = np.sqrt(peak - np.take_along_axis(peaks, beat - 1, axis=1))
        for name, (height, place, width) in WAVES.items():
            scale = stretch if name in "PT" else 1.0
            signal += height * np.exp(-0.5 * ((times - peak - place * scale) / (width * scale)) ** 2)
    return signal


def _slow_waves(random: np.random.Generator, times: np.ndarray, sequences: int) -> np.ndarray:
    """A baseline that wanders: two sines below half a hertz, together of amplitude 1 at most."""
    frequency = random.uniform(0.05, 0.4, (2, sequences, 1))
    phase = random.random((2, sequences, 1))
    return np.sin(2 * np.pi * (frequency * times + phase)).mean(axis=0)


def _marks(peaks: np.ndarray, length: int, rate: float) -> np.ndarray:
    """True at the sample nearest to each R peak."""
    samples = np.rint(peaks * rate).astype(int)
    inside = (samples >= 0) & (samples < length)
    marks = np.zeros((len(peaks), length), bool)
    rows = np.broadcast_to(np.arange(len(peaks))[:, None], samples.shape)
    marks[rows[inside], samples[inside]] = True
    return marks
