"""A process that compacts and sweeps until it is killed: ``python -m support.maintenance.crash_compactor FOLDER``."""

import sys
import time
from contextlib import suppress
from pathlib import Path

from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.stream_object_compaction.kind import StreamObjectCompaction
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.refusals import JobRunning
from siltstone.offline.opening.store import open_store
from siltstone.offline.settings import CompactionSettings, StreamObjectCompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner
from support.engine.crash_settings import crash_settings
from support.maintenance.compacting import compact

GRACE_PERIOD_MS = 2_000


def main(folder: Path) -> None:
    settings = CompactionSettings(
        split_size_bytes=16_384, memory_bytes=262_144, part_bytes_min=4_096, lease_ms=1_000
    )
    joining = StreamObjectCompaction(
        StreamObjectCompactionSettings(
            small_object_bytes=16_384,
            settled_ms=300,
            part_bytes_min=4_096,
            copy_bytes_max=65_536,
            group_bytes_max=10_000_000,
            groups_max=5,
            lease_ms=1_000,
        )
    )
    with open_store(crash_settings(folder)) as store:
        while True:
            with suppress(JobRunning):  # the killed driver's lease has not passed yet
                compact(store.context, InProcessRunner(), settings)
            with suppress(JobRunning):
                watch = Watch(joining.name, store.context.clock)
                report = run(store.context, joining, InProcessRunner, Scope(), Budget(), watch)
                assert not report.failed and not report.trouble, report
            sweep(store.context, GRACE_PERIOD_MS)
            time.sleep(0.05)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
