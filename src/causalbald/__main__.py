"""``python -m causalbald``."""

from causalbald.cli._app import main

main()
