"""A process that compacts keys, and sweeps, until it is killed: ``python -m support.maintenance.key_compaction_driver
FOLDER``.

It says ``begin`` on stdout whenever a run begins that has something to do.
"""

import sys
import time
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.refusals import JobRunning
from siltstone.model.limits import HOUR_MS
from siltstone.offline.opening.store import open_store
from siltstone.record_columns.kernels.choosing import best_kernels
from siltstone.server.settings.node import load_node_settings
from support.maintenance.compacted_store import KEYS, compact_keys, roll, split

GRACE_PERIOD_MS = 1_000
SETTINGS = replace(KEYS, allowance_ms=HOUR_MS, lease_ms=500, object_bytes=8 * 1024, wave_streams_max=2)


def main(folder: Path) -> None:
    best_kernels()  # takes longer to load than a run: who is killed meanwhile has not begun
    with open_store(load_node_settings(folder, environment={})) as store:
        while True:
            with suppress(JobRunning):  # the lease of who was killed has not passed yet
                split(store.context)
                roll(store.context)
                sys.stdout.write("begin\n")
                sys.stdout.flush()
                compact_keys(store.context, settings=SETTINGS)
            sweep(store.context, GRACE_PERIOD_MS)
            time.sleep(0.02)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
