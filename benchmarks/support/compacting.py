"""One run of stream set object compaction, as ``siltstone maintain run --kind sso-compaction`` carries it out."""

from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import RunReport, run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.stream_set_compaction.kind import StreamSetObjectCompaction
from siltstone.offline.opening.store import Store
from siltstone.offline.settings import CompactionSettings
from siltstone.offline.tasks.runner import Runner


def compact(store: Store, runner: Runner, settings: CompactionSettings) -> RunReport:
    """Plans, begins a job, runs the tasks and commits. ``done`` is empty when there was nothing to compact."""
    kind = StreamSetObjectCompaction(settings)
    watch = Watch(kind.name, store.context.clock)
    report = run(store.context, kind, lambda: runner, Scope(), Budget(), watch)
    assert report.is_well, report
    return report
