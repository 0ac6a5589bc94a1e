"""``python -m causalbald``."""

from causalbald.cli.app import main

main()
