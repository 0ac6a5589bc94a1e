"""The command line: thin functions that parse, call and print. Heavy imports wait until a command runs."""

from causalbald.cli._app import main

__all__ = ["main"]
