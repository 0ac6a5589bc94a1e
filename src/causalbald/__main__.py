"""Runs the command line as ``python -m causalbald``."""

from causalbald.cli import main

main()
