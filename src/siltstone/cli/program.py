"""The program ``siltstone``, before anything is loaded.

Loading takes some tenths of a second, and Ctrl-C in the midst of it ends as quietly as later. So this file imports
nothing that takes time, and ``main`` only when it can hear the interrupt.
"""

import sys
from importlib import import_module

INTERRUPTED = 130


def main() -> None:
    try:
        import_module("siltstone.cli.main").main()
    except KeyboardInterrupt:
        print("siltstone: interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(INTERRUPTED)
