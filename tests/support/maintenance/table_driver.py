"""Exports topics to tables in a process of its own until it is killed: ``python -m support.maintenance.table_driver
FOLDER``."""

import sys
from contextlib import suppress
from pathlib import Path

from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.pipeline.kind import Budget, Scope
from siltstone.maintenance.pipeline.running import RunReport, run
from siltstone.maintenance.pipeline.watch import Watch
from siltstone.maintenance.settings import TableSettings
from siltstone.maintenance.tables.kind import TableExport
from siltstone.maintenance.tables.rounds import Rounds
from siltstone.maintenance.tasks.runner import InProcessRunner
from siltstone.metadata.refusals import JobRunning
from siltstone.record_columns.kernels.choosing import best_kernels
from siltstone.server.components import open_store
from siltstone.server.settings.store import load_settings

LEASE_MS = 500
"""A driver that is killed does not delay the next one for longer."""
ROUND_BYTES = 2_000
"""A small limit, so that the records that are produced at a time take several rounds."""


class HastyExport(TableExport):
    lease_ms = LEASE_MS


def export(context: MaintenanceContext, tables: TableSettings) -> RunReport:
    """Exports one round of each topic."""
    kind = HastyExport(tables, round_bytes=ROUND_BYTES)
    watch = Watch(kind.name, context.clock)
    return run(context, kind, InProcessRunner, Scope(is_forced=True), Budget(), watch)


def main(folder: Path) -> None:
    from siltstone.maintenance.tables.formats import delta, iceberg

    assert Rounds and iceberg and delta, "loaded before it begins"
    best_kernels()
    with open_store(load_settings(folder, environment={})) as store:
        print("begin", flush=True)
        while True:
            with suppress(JobRunning):  # the killed driver's lease has not passed yet
                export(store.context, store.kind_settings.tables)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
