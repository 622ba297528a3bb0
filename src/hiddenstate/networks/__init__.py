"""Networks: compositions of cells and heads, and the recipes that build them from data."""

from hiddenstate.networks import baselines, build, noisy, translation
from hiddenstate.networks.bidirectional import Bidirectional
from hiddenstate.networks.encoder_decoder import EncoderDecoder
from hiddenstate.networks.exact import exact_rnn
from hiddenstate.networks.first_step import FirstStep
from hiddenstate.networks.multi_particle import MultiParticle
from hiddenstate.networks.particle_rnn import ParticleRNN
from hiddenstate.networks.rnn import RNN, Embedding
from hiddenstate.networks.stack import Stack
from hiddenstate.networks.summary import Summary
from hiddenstate.networks.transducer import Transducer

__all__ = [
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
    "baselines",
    "build",
    "exact_rnn",
    "noisy",
    "translation",
]
