"""``siltstone`` whose retention a test can make hang:

    python -m support.metrics.hanging_kind FILE maintain serve …

While FILE exists, no plan of retention is made: the run that began goes on without an end. Each idle run is noted in
the metadata, not one in ten minutes, so that a test sees within seconds that a kind has stopped.
"""

import sys
import time
from pathlib import Path
from typing import Any

from siltstone.carrying.pipeline import set_aside
from siltstone.maintenance.retention.kind import Retention

LOOK_AGAIN_SECONDS = 0.1


def make_hang(file: Path) -> None:
    plan = Retention.plan

    def hanging(*arguments: Any) -> Any:
        while file.exists():
            time.sleep(LOOK_AGAIN_SECONDS)
        return plan(*arguments)

    Retention.plan = hanging  # type: ignore[method-assign]
    set_aside.LAST_RUN_NOTED_MS = 0


if __name__ == "__main__":
    make_hang(Path(sys.argv.pop(1)))
    from siltstone.cli.program import main

    main()
