"""Makes a whole store in memory whose topics are exported to tables in a folder, and reads the tables with independent
readers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import polars as pl

from siltstone.carrying.pipeline.kind import Budget, Outcome, Scope, UnitReport
from siltstone.carrying.pipeline.running import RunReport, run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.kafka_protocol.batch_header import Codec
from siltstone.metadata.commands import FinishJob
from siltstone.metadata.entities import JobState
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import TableSettings
from siltstone.offline.tasks.runner import InProcessRunner, Runner, Task
from siltstone.scanning import reading
from siltstone.tables.formats.choosing import open_format
from siltstone.tables.formats.port import LoadedTable, TableFormat, folder_of
from siltstone.tables.kind import TableExport
from siltstone.tables.planning import ROUND_BYTES
from siltstone.tables.progress import TableProgress, progress_of
from support.maintenance.keyed_world import KeyedWorld, Pair
from support.maintenance.opened_stores import stores_opened

Place = tuple[int, int]
"""Partition and offset."""


class TableWorld(KeyedWorld):
    def __init__(self, folder: Path, table_format: str) -> None:
        super().__init__()
        self.folder = folder
        self.table_format = table_format
        self.settings = TableSettings(
            location=(folder / "tables").as_uri(),
            catalog={"type": "sql", "uri": f"sqlite:///{folder / 'tables' / 'catalog.sqlite'}"},
        )

    # -- topics ----------------------------------------------------------------------------------------------------

    def kept(self, of: str = "t", partitions: int = 1, **table: str) -> list[int]:
        """A topic that is kept as a table; ``value="json"`` stands for siltstone.table.value."""
        policy = "compact" if table.get("mode") == "upsert" else "delete"
        configs = {"siltstone.table.format": self.table_format, "cleanup.policy": policy}
        named = {f"siltstone.table.{key.replace('_', '.')}": text for key, text in table.items()}
        return self.topic(of, partitions, **(configs | named))

    def new_topic_id(self) -> str:
        """Returns an id that no topic had, not even a deleted one."""
        return f"{self.image.version:032x}"

    def set_table(self, of: str = "t", **table: str) -> None:
        self.configure(of, **{f"siltstone.table.{key}": text for key, text in table.items()})

    def append_values(self, stream_id: int, *values: str | bytes | None, codec: Codec = Codec.NONE) -> int:
        pairs: list[Pair] = [(f"k{number}", value) for number, value in enumerate(values)]  # type: ignore[misc]
        return self.append_pairs(stream_id, pairs, codec=codec)

    # -- exports ---------------------------------------------------------------------------------------------------

    def export(
        self,
        *,
        task: Task | None = None,
        runner: Runner | None = None,
        context: MaintenanceContext | None = None,
        round_bytes: int = ROUND_BYTES,
        is_forced: bool = True,
    ) -> RunReport:
        context = context or self.context
        kind = TableExport(self.settings, task, round_bytes)
        watch = Watch(kind.name, self.clock)
        start = runner or InProcessRunner()
        return run(context, kind, lambda: start, Scope(is_forced=is_forced), Budget(), watch)

    def export_now(self, **given: Any) -> UnitReport:
        """Exports the only topic."""
        (unit,) = self.export(**given).units
        assert unit.outcome is Outcome.DONE, unit.text
        return unit

    def why_failed(self, **given: Any) -> str:
        (unit,) = self.export(**given).units
        assert unit.outcome is Outcome.FAILED, unit
        return unit.text

    def finish_jobs(self) -> None:
        """Ends the jobs of a driver that was killed, as their leases would."""
        for job in self.image.jobs.values():
            if job.state is JobState.RUNNING:
                self.metadata.execute(FinishJob(job.job_id, False))

    def progress(self, name: str = "t") -> TableProgress:
        found = progress_of(self.image, self.topic_named(name).topic_id)
        assert found is not None
        return found

    # -- what is in the tables -------------------------------------------------------------------------------------

    @contextmanager
    def tables(self) -> Iterator[TableFormat]:
        with open_format(self.table_format, self.settings) as opened:
            yield opened

    @contextmanager
    def table_of(self, name: str = "kafka.t") -> Iterator[LoadedTable]:
        with self.tables() as opened:
            table = opened.load(name)
            assert table is not None, f"there is no table {name}"
            yield table

    def paths(self, name: str = "kafka.t") -> list[str]:
        """Returns the data files that the table lists."""
        home = unquote(urlsplit(self.settings.location).path)
        with self.table_of(name) as table:
            return [f"{home}/{folder_of(name)}{each.path}" for each in table.files()]

    def frame(self, name: str = "kafka.t") -> pl.DataFrame:
        """Returns the rows of a table as Polars reads them from the files."""
        paths = self.paths(name)
        if not paths:
            return pl.DataFrame()
        with self.table_of(name) as table:
            derived = set(table.file_schema.names) - set(table.schema.names)
        rows = pl.concat([pl.read_parquet(each) for each in paths], how="diagonal_relaxed")
        return rows.drop(derived, strict=False)  # other programs write files without field ids

    def rows(self, name: str = "kafka.t") -> list[tuple[Any, ...]]:
        """Returns partition, offset, key and value of each row, in that order; a value of the layout of fields is a
        tuple."""
        frame = self.frame(name)
        if frame.is_empty():
            return []
        if "kafka" not in frame.columns:
            return sorted(frame.select("partition", "offset", "key", "value").rows())
        fields = [each for each in frame.columns if each != "kafka"]
        return sorted(
            (
                row["kafka"]["partition"],
                row["kafka"]["offset"],
                row["kafka"]["key"],
                tuple(row[f] for f in fields),
            )
            for row in frame.rows(named=True)
        )

    def places(self, name: str = "kafka.t") -> list[Place]:
        return [row[:2] for row in self.rows(name)]

    def expected(self, streams: Sequence[int]) -> list[tuple[Any, ...]]:
        """Returns the same for raw rows, as a consumer would see them."""
        return sorted(
            (number, offset, _bytes(key), _bytes(value))
            for number, stream_id in enumerate(streams)
            for offset, key, value in self.records(stream_id)
        )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


@contextmanager
def table_world(folder: Path, table_format: str) -> Iterator[TableWorld]:
    """Makes the world. Tasks open its bucket by its URL, as they do elsewhere. Cached indexes of another world's
    objects, which have the same names, are dropped."""
    world = TableWorld(folder, table_format)
    reading.INDEXES = reading.Indexes()
    with stores_opened(world.store):
        yield world
