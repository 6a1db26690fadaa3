"""What maintenance makes of a store in a folder, beside a broker or after it: keyed records compacted, in this process.

The clock stands still while it works, so that a commit comes in time whatever the machine does meanwhile.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import RunReport, run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.key_compaction.kind import KeyCompaction
from siltstone.maintenance.key_compaction.task import run_key_compaction
from siltstone.metadata.commands import FinishJob, RollSegments, StartJob
from siltstone.model.limits import HOUR_MS
from siltstone.model.segments import ClosedSegment
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.opening.store import open_store
from siltstone.offline.settings import CompactionSettings, KeyCompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner, Runner, Task
from siltstone.offline.topic_streams import Role, topic_streams
from siltstone.runtime.clock import ManualClock, SystemClock
from siltstone.server.settings.node import load_node_settings
from support.maintenance.compacting import compact

LEASE_MS = 500
"""The lease of a driver that was killed delays the others no longer than this."""
SPLIT_ALL = CompactionSettings(lease_ms=LEASE_MS, split_size_bytes=0, part_bytes_min=1)
KEYS = KeyCompactionSettings(object_bytes=256 * 1024, block_bytes=16 * 1024, allowance_ms=0)


@contextmanager
def maintained(
    folder: Path, hours_ahead: float = 0, clock: ManualClock | None = None
) -> Iterator[MaintenanceContext]:
    """``hours_ahead``: so much later, for what waits for a time."""
    clock = clock or ManualClock(SystemClock().now_ms() + int(hours_ahead * HOUR_MS))
    with open_store(load_node_settings(folder, environment={}), clock=clock, rng=Random(1)) as store:
        store.trust_clock()
        yield store.context


def split(context: MaintenanceContext) -> None:
    """Makes stream objects of all stream set objects."""
    compact(context, InProcessRunner(), SPLIT_ALL)


def roll(context: MaintenanceContext) -> None:
    """Closes every active segment, as far as it is committed."""
    image, now_ms = context.metadata.refresh(), context.clock.now_ms()
    rolled = tuple(
        (stream_id, ClosedSegment(stream.active_offset, stream.end_offset, 1, 1, now_ms, now_ms, now_ms))
        for stream_id, each in topic_streams(image).items()
        if each.role is Role.BATCHES
        and (stream := image.streams[stream_id]).end_offset > stream.active_offset
    )
    job_id = context.metadata.execute(StartJob("rolling", "a test", LEASE_MS))
    context.metadata.execute(RollSegments(rolled, job_id=job_id))
    context.metadata.execute(FinishJob(job_id, True))


def compact_keys(
    context: MaintenanceContext,
    runner: Runner | None = None,
    settings: KeyCompactionSettings = KEYS,
    task: Task = run_key_compaction,
) -> RunReport:
    """Compacts all compacted topics, whatever their ratio."""
    kind = KeyCompaction(settings, task)
    watch = Watch(kind.name, context.clock)
    return run(context, kind, lambda: runner or InProcessRunner(), Scope(is_forced=True), Budget(), watch)


def split_and_compact(folder: Path, hours_ahead: float = 0) -> RunReport:
    with maintained(folder, hours_ahead) as context:
        split(context)
        roll(context)
        report = compact_keys(context)
    assert report.is_well, report
    return report
