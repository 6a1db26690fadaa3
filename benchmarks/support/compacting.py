"""One run of stream set object compaction, as ``siltstone maintain run --kind sso-compaction`` carries it out."""

from siltstone.maintenance.pipeline.kind import Budget, Scope
from siltstone.maintenance.pipeline.running import RunReport, run
from siltstone.maintenance.pipeline.watch import Watch
from siltstone.maintenance.settings import CompactionSettings
from siltstone.maintenance.stream_set_compaction.kind import StreamSetObjectCompaction
from siltstone.maintenance.tasks.runner import Runner
from siltstone.server.components import Store


def compact(store: Store, runner: Runner, settings: CompactionSettings) -> RunReport:
    """Plans, begins a job, runs the tasks and commits. ``done`` is empty when there was nothing to compact."""
    kind = StreamSetObjectCompaction(settings)
    watch = Watch(kind.name, store.context.clock)
    report = run(store.context, kind, lambda: runner, Scope(), Budget(), watch)
    assert report.is_well, report
    return report
