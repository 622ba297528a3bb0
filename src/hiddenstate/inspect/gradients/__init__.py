"""Gradients on their way back through time: what they are, how fast they fade, and what a state remembers."""

from hiddenstate.inspect.gradients.backpropagation import ThroughTime, through_time
from hiddenstate.inspect.gradients.decays import Decay, decay, loss_decay
from hiddenstate.inspect.gradients.exponents import Lyapunov, lyapunov
from hiddenstate.inspect.gradients.landscapes import Landing, Landscape, Step, entry, landscape, step_at
from hiddenstate.inspect.gradients.memories import Memory, memory
from hiddenstate.inspect.gradients.spectra import Products, Spectra, jacobian_spectra, products

__all__ = [
    "Decay",
    "Landing",
    "Landscape",
    "Lyapunov",
    "Memory",
    "Products",
    "Spectra",
    "Step",
    "ThroughTime",
    "decay",
    "entry",
    "jacobian_spectra",
    "landscape",
    "loss_decay",
    "lyapunov",
    "memory",
    "products",
    "step_at",
    "through_time",
]
