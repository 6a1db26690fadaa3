"""``siltstone`` as a later version might be, 0.2.0, whose level 3 brings the record NodeDraining:

    python -m support.faults.newer_serve serve …

The version and one row of the table of levels are other ones, and nothing else is changed. The version is set before
any module of ours has taken it over.
"""

import sys

from siltstone.model import version

VERSION, LEVEL = "0.2.0", 3

if __name__ == "__main__":
    version.VERSION = VERSION
    from siltstone.metadata.levels import LEVELS, KnownLevel
    from siltstone.metadata.records import NodeDraining

    LEVELS[LEVEL] = KnownLevel(VERSION, "nodes that are drained", frozenset({NodeDraining}))
    from siltstone.cli.program import main

    sys.exit(main())
