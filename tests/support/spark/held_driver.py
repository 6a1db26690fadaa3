"""A driver whose tasks are held: ``MASTER SETTINGS WORK STORE GATE PARTITIONS``. It prints the values that it read."""

import json
import sys
from pathlib import Path

from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import load_node_settings
from siltstone.spark.spark_runner import open_runner
from siltstone.spark.starting import start_session
from siltstone.tables.kind import TableExport
from support.spark.held_source import HeldSource
from support.spark.held_tasks import Held, HeldInWrite, HoldingRunner

ROWS = 200
LONG_KEY = "concat_ws('', transform(sequence(1, 16), n -> sha2(concat(id, '/', n), 512))) as key"
"""Keys of two KiB that compress badly: a task has too many bytes to carry them in its report, so it stages objects."""
RELAY, OBJECTS, STREAM, READ, EXPORT = "relay", "objects", "stream", "read", "export"
EXPORT_IN_WRITE = "export-in-write"
"""An export whose tasks are held when half of a data file is written, not before they answer."""


def export(
    master: str, settings: dict[str, str], store: str, gate: str, held: type[Held] | type[HeldInWrite]
) -> None:
    with open_store(load_node_settings(Path(store), environment={})) as opened:
        kind = TableExport(opened.kind_settings.tables)
        report = run(
            opened.context,
            kind,
            lambda: HoldingRunner(open_runner(master, settings), Path(gate), held),
            Scope(is_forced=True),
            Budget(),
            Watch(kind.name, opened.context.clock),
        )
        assert report.is_well, report


def main(master: str, settings_text: str, work: str, store: str, gate: str, partitions: str) -> None:
    settings = json.loads(settings_text)
    if work in (EXPORT, EXPORT_IN_WRITE):
        export(master, settings, store, gate, Held if work == EXPORT else HeldInWrite)
        return
    session = start_session(master, "held tasks", settings)
    session.dataSource.register(HeldSource)
    options = {"store": store, "gate": gate}
    found: list[str] = []
    if work == READ:
        frame = session.read.format("held-siltstone").options(**options, subscribe="source").load()
        found = sorted(bytes(row.value).decode() for row in frame.select("value").collect())
    elif work == STREAM:
        source = session.readStream.format("siltstone").options(
            store=store, subscribe="source", startingOffsets="earliest"
        )
        writer = source.load().select("key", "value").writeStream.format("held-siltstone")
        writer = writer.options(**options, topic=work, checkpointLocation=f"{gate}-checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
    else:
        value = "format_string('value-%06d', id) as value"
        rows = session.range(0, ROWS, 1, int(partitions)).selectExpr(LONG_KEY, value)
        names = {"topic": work, "mode": work, "sinkName": "out", "batchId": "0"}
        rows.write.format("held-siltstone").options(**options, **names).mode("append").save()
    session.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
