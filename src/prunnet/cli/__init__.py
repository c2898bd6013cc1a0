"""`prunnet`: thin commands that parse, call and print. Heavy imports happen inside the commands."""

from prunnet.cli.command import main

__all__ = ["main"]
