"""Models on disk: one safetensors file each, that names classes and holds arrays and runs nothing when read."""

from hiddenstate.files.model import FORMAT, header, load, save

__all__ = ["FORMAT", "header", "load", "save"]
