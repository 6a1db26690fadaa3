"""Any value becomes the row that a plain model says, or a dead letter, and never stops its table: for each format of
values and of tables and each division, in the first, the middle and the last row. Other programs read the tables.

A failure prints its seed; ``SILTSTONE_SEEDS=<seed> pytest tests/property/maintenance/test_table_values.py -k replay``
runs it again.
"""

import os
import re
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import deltalake
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import EqualTo

from siltstone.kafka_protocol.records.reading import Record
from support.maintenance.odd_values import (
    DAY_US,
    DIVISIONS,
    DRAWN,
    JSON,
    LEAST,
    MOST,
    YEAR_1,
    YEAR_10000,
    has_place,
    put_schemas,
    text,
    time_ms,
)
from support.maintenance.table_world import TableWorld, table_world
from support.processes.tried import RecordTried

FORMATS = ("parquet", "iceberg", "delta")
NIGHTLY_SEEDS = 600
BY = re.compile(r"(\w+)\((\w+)(?:,(\d+))?\)")
CONFIGS: dict[str, dict[str, str]] = {
    "avro": {"value.schema": "file:values.avsc"},
    "protobuf": {"value.schema": "file:values.desc", "value.message": "t.Value"},
    "json": {"columns": ",".join(f"{name} {kind}" for name, kind in JSON.items())},
    "string": {"key": "string"},
    "raw": {},
}

Rows = dict[int, dict[str, Any]]


def read(world: TableWorld, name: str = "kafka.t") -> pa.Table:
    """Reads a table as other programs do."""
    if world.table_format == "iceberg":
        return load_catalog("siltstone", **world.settings.catalog).load_table(name).scan().to_arrow()
    if world.table_format == "delta":
        return deltalake.DeltaTable(str(world.folder / "tables" / name.replace(".", "/"))).to_pyarrow_table()
    return pa.concat_tables([pq.read_table(path, partitioning=None) for path in world.paths(name)])


def rows_of(table: pa.Table) -> Rows:
    """Returns the rows by offset, with times and dates as numbers."""
    columns = {name: plain(table[name]) for name in table.column_names if name not in ("kafka", "headers")}
    if "kafka" in table.column_names:
        columns["offset"] = table["kafka"].combine_chunks().field("offset").to_pylist()
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    assert len({row["offset"] for row in rows}) == len(rows), "no row is there twice"
    return {row["offset"]: row for row in rows}


def plain(column: Any) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    return [comparable(each) for each in column.to_pylist()]


def comparable(value: Any) -> Any:
    """Returns a float as its bits; NaN is one value."""
    if not isinstance(value, float):
        return value
    return "NaN" if value != value else struct.pack(">d", value)


class Case:
    """One table, drawn from a seed: which formats, which division, and a handful of records."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self.table_format, self.values = rng.choice(FORMATS), rng.choice(list(DRAWN))
        self.is_upsert = self.table_format != "parquet" and rng.random() < 0.2
        self.by = "" if self.is_upsert else rng.choice(DIVISIONS[self.values])
        self.records, self.expected = [], Rows()
        good_ms = 1_764_000_000_000
        count = rng.randint(1, 7)
        for offset in range(count):
            drawn, key = DRAWN[self.values](rng), text(rng).encode()
            ms = time_ms(rng) if rng.random() < 0.5 else good_ms
            if self.values == "string" and rng.random() < 0.1:
                key += b"\xff"
            self.records.append(Record(timestamp_ms=ms, key=key, value=drawn.value))
            columns = None if drawn.columns is None else dict(drawn.columns)
            if columns is not None and self.is_row(columns, key, ms):
                self.expected[offset] = columns
        self.dead = set(range(count)) - set(self.expected)
        if self.is_upsert:
            newest = {bytes(self.records[offset].key or b""): offset for offset in self.expected}
            self.expected = {offset: self.expected[offset] for offset in sorted(newest.values())}
        self.rounds = (self.records[: count // 2], self.records[count // 2 :])
        self.picked = rng.choice(list(self.expected)) if self.expected else None

    def is_row(self, columns: dict[str, Any], key: bytes, ms: int) -> bool:
        if not LEAST <= ms * 1_000 <= MOST or (self.values == "string" and key.endswith(b"\xff")):
            return False
        if not self.by:
            return True
        match = BY.fullmatch(self.by)
        assert match is not None
        value = {**columns, "timestamp": ms * 1_000, "key": key, "partition": 0}[match[2]]
        bits = 32 if match[2] == "i" and self.table_format == "iceberg" else 64
        return has_place(self.table_format, match[1], int(match[3] or 0), value, bits)

    def check(self, world: TableWorld, folder: Path) -> None:
        put_schemas(folder / "schemas")
        world.settings = replace(world.settings, registry=(folder / "schemas").as_uri())
        mode = {"mode": "upsert", "buckets": "2"} if self.is_upsert else {"partition_by": self.by}
        (stream,) = world.kept(value=self.values, **CONFIGS[self.values], **mode)
        for records in filter(None, self.rounds):
            world.append_records(stream, *records)
            unit = world.export_now()
        found = rows_of(read(world)) if self.expected else {}
        assert sorted(found) == sorted(self.expected), unit.text
        for offset, columns in self.expected.items():
            for name, value in columns.items():
                is_empty = value == "" and self.table_format == "delta" and self.by == f"identity({name})"
                assert found[offset][name] == (None if is_empty else comparable(value)), (offset, name)
        if self.dead:
            assert set(rows_of(read(world, "kafka.t__errors"))) == self.dead
        self.check_pruning(world)

    def check_pruning(self, world: TableWorld) -> None:
        """A filter by a value of a row finds the row: no bound and no partition value hides its file."""
        if self.picked is None:
            return
        if self.table_format == "delta":
            self.check_delta_pruning(world)
        if self.table_format != "iceberg":
            return
        table = load_catalog("siltstone", **world.settings.catalog).load_table("kafka.t")
        for name in {"l", "i", "s", "y", "value", "dec"} & set(self.expected[self.picked]):
            scan = table.scan(row_filter=EqualTo(name, self.expected[self.picked][name]))
            assert self.picked in rows_of(scan.to_arrow()), name

    def check_delta_pruning(self, world: TableWorld) -> None:
        """Each row of the table is found by the values that its reader, Polars, has of it, from both sides."""
        place = str(world.folder / "tables" / "kafka" / "t")
        whole = pl.read_delta(place)
        for name in set(whole.columns) & set(self.expected[self.picked]):
            for value in python_values(whole[name]):
                for holds in (pl.col(name) >= value, pl.col(name) <= value):
                    kept = pl.scan_delta(place).filter(holds).select(pl.len()).collect().item()
                    assert kept == whole.filter(holds).height, (name, value)


def python_values(column: Any) -> Iterator[Any]:
    """Yields the values of a Polars column that Python has: its calendar begins with the year 1."""
    if column.dtype.is_temporal():
        unit = 1 if column.dtype == pl.Date else DAY_US
        days = column.to_physical() // unit
        column = column.filter(days.is_between(YEAR_1, YEAR_10000 - 2))
    yield from column.drop_nulls().to_list()


def tried(seed: int, folder: Path) -> Case:
    case = Case(seed)
    place = folder / str(seed)
    place.mkdir()
    with table_world(place, case.table_format) as world:
        try:
            case.check(world, place)
        except BaseException:
            again = f"SILTSTONE_SEEDS={seed} .venv/bin/pytest tests/property/maintenance/test_table_values.py -k replay"
            by = "upsert" if case.is_upsert else case.by or "not divided"
            print(f"seed {seed}: {case.table_format}, {case.values}, {by}: {again}")
            raise
    return case


@pytest.mark.parametrize("first", range(0, 24, 12))
def test_rule_14_any_value_is_a_row_or_a_dead_letter(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 12):
        tried(seed, tmp_path)


def replayed() -> Iterator[int]:
    yield from map(int, filter(None, os.environ.get("SILTSTONE_SEEDS", "").split(",")))


def test_replay(tmp_path: Path) -> None:
    """Replays the seeds of the environment variable; without it, shows that a seed draws the same twice."""
    for seed in replayed():
        tried(seed, tmp_path)
    assert Case(7).records == Case(7).records


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_rule_14_any_value_from_random_seeds(tmp_path: Path, record_tried: RecordTried) -> None:
    counts: Counter[str] = Counter()
    for _ in range(NIGHTLY_SEEDS):
        case = tried(SystemRandom().randrange(2**40), tmp_path)
        counts.update(tables=1, rows=len(case.expected), dead=len(case.dead))
    record_tried("tables", counts["tables"])
    record_tried("rows", counts["rows"])
    record_tried("dead letters", counts["dead"])


def test_readers_pass_over_files_of_a_delta_table_by_the_users_columns(tmp_path: Path) -> None:
    with table_world(tmp_path, "delta") as world:
        (stream,) = world.kept(value="json", columns="delay double, name string", partition_by="")
        for delay in (10, 70):
            value = b'{"delay": %d, "name": "%s"}' % (delay, b"n%d" % delay * 20)
            world.append_records(stream, Record(timestamp_ms=1_764_000_000_000, key=b"k", value=value))
            world.export_now()
        table = deltalake.DeltaTable(str(world.folder / "tables" / "kafka" / "t")).to_pyarrow_dataset()
        for holds in (ds.field("delay") > 60, ds.field("name") > "n2"):
            assert len([*table.get_fragments(holds)]) == 1
            assert table.to_table(filter=holds)["delay"].to_pylist() == [70]
