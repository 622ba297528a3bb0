"""The command `hiddenstate`: parsing and dispatch. What is heavy is imported by the command that needs it."""

from hiddenstate.cli.app import app, main

__all__ = ["app", "main"]
