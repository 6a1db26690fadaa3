"""A table that an export keeps and other programs change, beside a plain model of its rows.

The topic has one partition and JSON values with the fields ``a``, a number that each record has for itself, ``b`` and
``at``, a time that may be far away.
A row of the model is a dictionary: the fields, and the ``offset`` and ``key`` of its record; None in a row that another
program has added.
"""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from siltstone.carrying.pipeline.kind import Outcome
from siltstone.model.limits import DAY_MS
from siltstone.tables.failures import TableFileRefused
from siltstone.tables.formats.locations import unquoted
from siltstone.tables.inspecting import file_urls
from support.maintenance.foreign_writers import rows_by_reader, rows_by_tasks
from support.maintenance.table_world import TableWorld

Row = dict[str, Any]
KEYS = 5
FIELDS = ("a", "b", "at")
TIMES = (
    "2024-02-29T12:00:00.000001Z",
    "1600-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
    "1969-12-31T23:59:59Z",
)


class PlainTable:
    """The rows that the table should have. ``columns`` are those of the table, without the struct ``kafka``."""

    def __init__(self, *, is_upsert: bool) -> None:
        self.is_upsert = is_upsert
        self.rows: list[Row] = []
        self.columns = list(FIELDS)

    def merge(self, records: Iterable[Row]) -> None:
        """Does what an export does. A record without a value of ``a`` is a tombstone."""
        for name in FIELDS:
            if name not in self.columns:
                self.add_column(name)
        for record in records:
            if self.is_upsert:
                self.rows = [each for each in self.rows if each["key"] != record["key"]]
            if record["a"] is not None:
                self.rows.append({**dict.fromkeys(self.columns), **record})

    def delete(self, is_meant: Callable[[Row], bool]) -> None:
        self.rows = [each for each in self.rows if not is_meant(each)]

    def update(self, is_meant: Callable[[Row], bool], **values: Any) -> None:
        self.rows = [{**each, **values} if is_meant(each) else each for each in self.rows]

    def insert(self, **values: Any) -> None:
        self.rows.append({**dict.fromkeys((*self.columns, "offset", "key")), **values})

    def add_column(self, name: str) -> None:
        self.columns.append(name)
        self.rows = [{**each, name: None} for each in self.rows]

    def rename(self, old: str, new: str) -> None:
        self.columns[self.columns.index(old)] = new
        self.rows = [
            {new if name == old else name: value for name, value in each.items()} for each in self.rows
        ]

    def drop(self, name: str) -> None:
        self.columns.remove(name)
        self.rows = [{of: value for of, value in each.items() if of != name} for each in self.rows]


class ForeignTable:
    def __init__(self, world: TableWorld, mode: str, **config: str) -> None:
        is_upsert = mode == "upsert"
        given = {"value": "json", "columns": "a long, b string, at timestamp", **config}
        given |= (
            {"mode": "upsert", "buckets": "2"}
            if is_upsert
            else {"partition_by": given.get("partition_by", "")}
        )
        self.world = world
        (self.stream,) = world.kept(**given)
        self.model = PlainTable(is_upsert=is_upsert)
        self.offset = 0
        self._waiting: list[Row] = []
        self._saved: dict[Any, PlainTable] = {}

    # -- our side ------------------------------------------------------------------------------------------------

    def append(self, count: int = 1, *, tombstone: bool = False) -> None:
        """Appends records to the topic."""
        pairs: list[Any] = []
        for _ in range(count):
            number, self.offset = self.offset, self.offset + 1
            row: Row = {"offset": number, "key": b"k%d" % (number % KEYS), **dict.fromkeys(FIELDS)}
            value = None
            if not (tombstone and self.model.is_upsert):
                text = TIMES[number % len(TIMES)]
                row |= {"a": number, "b": "xyz"[number % 3], "at": micros(datetime.fromisoformat(text))}
                value = json.dumps({"a": number, "b": row["b"], "at": text})
            pairs.append((row["key"].decode(), value))
            self._waiting.append(row)
        self.world.append_pairs(self.stream, pairs)

    def export(self) -> str:
        """Exports what was appended; the table has to take it."""
        (unit,) = self.world.export().units
        assert unit.outcome is Outcome.DONE, unit.text
        self.model.merge(self._waiting)
        self._waiting = []
        return unit.text

    def round(self) -> str:
        self.append()
        return self.export()

    def export_or_refusal(self) -> str:
        """Exports; returns the refusal if there is one. It has changed no file."""
        before = self.files()
        (unit,) = self.world.export().units
        if unit.outcome is Outcome.DONE:
            self.model.merge(self._waiting)
            self._waiting = []
            return ""
        assert unit.outcome is Outcome.FAILED, unit
        new = [each for each in self.files() if each not in before]
        assert not [each for each in new if "/data/" not in each], f"written before the refusal: {new}"
        return unit.text

    def next_day(self) -> None:
        """Makes all files a day old. The next export expires what is old, and deletes files that nothing needs."""
        now = self.world.clock.now_ms() / 1_000
        for each in (self.world.folder / "tables" / "kafka").rglob("*"):
            if each.is_file() and each.stat().st_mtime > now:
                os.utime(each, (now, now))
        self.world.clock.advance_ms(DAY_MS + 1)

    def files(self) -> list[str]:
        return sorted(
            str(each) for each in (self.world.folder / "tables" / "kafka").rglob("*") if each.is_file()
        )

    def new_row(self, **values: Any) -> Any:
        """Returns a pyarrow.Table with a row that has no record, for another program to add."""
        given = {name: value for name, value in values.items() if name in self.model.columns}
        self.model.insert(**given)
        with self.world.table_of() as table:
            fields = [pa.field(each.name, each.type) for each in table.file_schema]
        return pa.table([pa.array([given.get(each.name)], each.type) for each in fields], pa.schema(fields))

    # -- the model's older states ----------------------------------------------------------------------------------

    def save(self, state: Any) -> None:
        self._saved[state] = deepcopy(self.model)

    def restored(self, state: Any) -> None:
        self.model = deepcopy(self._saved[state])

    # -- what readers find -----------------------------------------------------------------------------------------

    def check(self, *readers: Callable[[], Sequence[Row]], by_library: bool = True) -> None:
        """Compares the rows that each reader finds with the model: a library of the format, the tasks of
        ``read_table``, the files by themselves where they have the rows of the table, and ``readers``. Spark writes
        times into a Delta table as INT96, which deltalake reads otherwise in the years 1600 and 9999: then the table is
        not compared ``by_library``."""
        wanted = self.texts(self.model.rows)
        of_files = self._rows_of_files()
        found = {
            **({"library": flat(rows_by_reader(self.world))} if by_library else {}),
            "tasks": flat(rows_by_tasks(self.world)),
            **({} if of_files is None else {"files": of_files}),
            **{each.__name__: each() for each in readers},
        }  # fmt: skip
        for name, rows in found.items():
            assert self.texts(rows) == wanted, name
        with self.world.table_of() as table:
            assert table.rows == len(wanted)

    def texts(self, rows: Iterable[Row]) -> list[str]:
        names = ("offset", "key", *sorted(self.model.columns))
        return sorted(repr([micros(each[name]) for name in names]) for each in rows)

    def _rows_of_files(self) -> list[Row] | None:
        with self.world.table_of() as table:
            if not table.has_names_of_files:
                return None
            try:
                urls = file_urls(table, self.world.settings)
            except TableFileRefused:
                return None
            names = set(table.file_schema.names)
        found = [row for url in urls for row in flat(_read(url))]
        return [{**dict.fromkeys(names), **each} for each in found]


def _read(url: str) -> Any:
    return pq.read_table(unquoted(url).removeprefix("file://"), coerce_int96_timestamp_unit="us")


def micros(value: Any) -> Any:
    """Returns a time as microseconds since 1970, and any other value as it is."""
    if not isinstance(value, datetime):
        return value
    return (value.replace(tzinfo=value.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )


def flat(rows: Any) -> list[Row]:
    """Returns the rows of a pyarrow.Table, with the columns of the record that the model has."""
    return [flat_row(each) for each in rows.to_pylist()]


def flat_row(row: Row) -> Row:
    record = row.get("kafka") or {}
    key = record.get("key")
    fields = {name: value for name, value in row.items() if name != "kafka"}
    return {**fields, "offset": record.get("offset"), "key": None if key is None else bytes(key)}
