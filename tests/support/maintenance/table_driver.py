"""Exports topics to tables in a process of its own until it is killed: ``python -m support.maintenance.table_driver
FOLDER``."""

import sys
from contextlib import suppress
from pathlib import Path

from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import RunReport, run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.metadata.refusals import JobRunning
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.opening.store import open_store
from siltstone.offline.settings import TableSettings
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.record_columns.kernels.choosing import best_kernels
from siltstone.server.settings.node import load_node_settings
from siltstone.tables.kind import TableExport
from siltstone.tables.rounds import Rounds

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
    from siltstone.tables.formats import delta, iceberg

    assert Rounds and iceberg and delta, "loaded before it begins"
    best_kernels()
    with open_store(load_node_settings(folder, environment={})) as store:
        print("begin", flush=True)
        while True:
            with suppress(JobRunning):  # the killed driver's lease has not passed yet
                export(store.context, store.kind_settings.tables)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
