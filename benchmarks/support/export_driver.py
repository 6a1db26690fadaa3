"""Exports the topics of a store to their tables until it is killed: ``python -m benchmarks.support.export_driver
STORE``.

It is what ``siltstone maintain serve`` does for tables, without pauses, and with a short lease, so that the next driver
need not wait half a minute for a killed one."""

import sys
from contextlib import suppress
from pathlib import Path

from siltstone.carrying.pipeline.driver import Driver
from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.metadata.refusals import JobRunning
from siltstone.offline.opening.store import open_store
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.server.settings.node import load_node_settings
from siltstone.tables.kind import TableExport

LEASE_MS = 500


class QuickExport(TableExport):
    lease_ms = LEASE_MS


def main(store: Path) -> None:
    print("begin", flush=True)
    with open_store(load_node_settings(store, environment={})) as opened:
        kind = QuickExport(opened.kind_settings.tables)
        driver = Driver(opened.context, InProcessRunner, Scope(is_forced=True), Budget())
        while True:
            with suppress(JobRunning):
                list(driver.run([kind]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
