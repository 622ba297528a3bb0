"""Models on disk: one safetensors file each, with arrays and the names of classes, and no code."""

from hiddenstate.files.model import FORMAT, header, load, save

__all__ = ["FORMAT", "header", "load", "save"]
