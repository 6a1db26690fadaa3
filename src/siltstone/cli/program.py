"""The entry point of the program ``siltstone``.

Loading the other modules takes some tenths of a second, and Ctrl-C during that time must end the program without a
traceback. So this file imports only small modules of the standard library at its top, and ``siltstone.cli.main`` inside
the ``try`` that handles KeyboardInterrupt.
"""

import gc
import sys
from importlib import import_module

INTERRUPTED = 130


def main() -> None:
    """Runs the command that was typed.

    Python's cyclic garbage collector is off while modules are loaded: nothing loaded becomes garbage, and collections
    would take a tenth of the start-up time. ``Commands.get_command`` turns it on again."""
    gc.disable()
    try:
        import_module("siltstone.cli.main").main()
    except KeyboardInterrupt:
        print("siltstone: interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(INTERRUPTED)
    finally:
        gc.enable()
