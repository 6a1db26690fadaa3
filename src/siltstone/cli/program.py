"""The program ``siltstone``, before anything is loaded.

Loading takes some tenths of a second, and Ctrl-C in the midst of it ends as quietly as later. So this file imports
nothing that takes time, and ``main`` only when it can hear the interrupt.
"""

import gc
import sys
from importlib import import_module

INTERRUPTED = 130


def main() -> None:
    """The collector of cycles rests while everything is loaded: what is loaded stays, and to look at it again and again
    takes a tenth of the start. ``Commands.get_command`` wakes it."""
    gc.disable()
    try:
        import_module("siltstone.cli.main").main()
    except KeyboardInterrupt:
        print("siltstone: interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(INTERRUPTED)
    finally:
        gc.enable()
