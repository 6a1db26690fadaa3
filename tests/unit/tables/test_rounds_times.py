"""Records whose times Python's calendar does not have: each is a row, or a dead letter with the reason, and never stops
its table."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from siltstone.kafka_protocol.records.reading import Record
from support.maintenance.table_world import TableWorld

YEAR_0 = -62_135_596_800_001
YEAR_10000 = 253_402_300_800_000
MICROSECONDS = 1_764_000_000_000_000  # a time in microseconds, where milliseconds are meant: the year 57,868
GOOD = 1_764_000_000_000
DIVISIONS = (
    "",
    "year(timestamp)",
    "month(timestamp)",
    "day(timestamp)",
    "hour(timestamp)",
    "bucket(timestamp,4)",
)


def filled(world: TableWorld, *times_ms: int, **table: str) -> int:
    (stream,) = world.kept(**table)
    world.append_records(stream, *(Record(timestamp_ms=each, key=b"k", value=b"{}") for each in times_ms))
    return stream


def times_of(world: TableWorld, name: str = "kafka.t") -> list[tuple[int, int | None]]:
    """The offset and the time in ms of each row, as pyarrow reads them from the files, without Python's calendar."""
    found = []
    for path in world.paths(name):
        rows = pq.read_table(path, columns=["offset", "timestamp"])
        times: Any = rows["timestamp"].cast(pa.int64()).to_pylist()
        found += list(
            zip(rows["offset"].to_pylist(), (each and each // 1_000 for each in times), strict=True)
        )
    return sorted(found)


@pytest.mark.parametrize("by", DIVISIONS)
@pytest.mark.parametrize(
    ("far_ms", "at"), [(YEAR_0, 0), (YEAR_10000, 1), (MICROSECONDS, 2), (-MICROSECONDS, 1)]
)
def test_rule_14_a_time_that_no_calendar_of_python_has_is_a_row(
    world: TableWorld, by: str, far_ms: int, at: int
) -> None:
    times = [GOOD, GOOD + 1]
    times.insert(at, far_ms)
    filled(world, *times, partition_by=by)
    world.export_now()
    rows, dead = times_of(world), times_of(world, "kafka.t__errors") if world.progress().dead_letters else []
    is_held = world.table_format != "delta" or not by.startswith(("month", "day", "hour"))
    assert sorted(rows + dead) == list(enumerate(times))
    assert dead == ([] if is_held else [(at, far_ms)])


@pytest.mark.parametrize(("far_ms", "at"), [(2**60, 0), (-(2**63), 1), (2**63 - 1, 2)])
def test_rule_14_a_time_beyond_microseconds_is_a_dead_letter(world: TableWorld, far_ms: int, at: int) -> None:
    times = [GOOD, GOOD + 1]
    times.insert(at, far_ms)
    filled(world, *times)
    world.export_now()
    assert [offset for offset, _ in times_of(world)] == [each for each in range(3) if each != at]
    assert times_of(world, "kafka.t__errors") == [(at, None)]
    (reason,) = world.frame("kafka.t__errors")["reason"].to_list()
    assert f"{far_ms} ms" in reason and "microseconds" in reason


def test_small_files_of_a_far_day_are_joined(world: TableWorld) -> None:
    (stream,) = world.kept(
        partition_by="year(timestamp)" if world.table_format == "delta" else "day(timestamp)"
    )
    for number in range(12):
        world.append_records(stream, Record(timestamp_ms=MICROSECONDS + number, key=b"k", value=b"{}"))
        world.export_now()
    assert len(world.paths()) < 12
    assert times_of(world) == [(number, MICROSECONDS + number) for number in range(12)]
    with world.table_of() as table:
        assert {f"data/{path.rpartition('/')[2]}" for path in world.paths()} <= table.kept_paths()


def test_rule_14_an_hour_beyond_icebergs_numbers_is_a_dead_letter(iceberg: TableWorld) -> None:
    beyond = 2**31 * 3_600_000
    filled(iceberg, GOOD, beyond, beyond - 1, -beyond, -beyond - 1, partition_by="hour(timestamp)")
    iceberg.export_now()
    assert [offset for offset, _ in times_of(iceberg)] == [0, 2, 3]
    assert [offset for offset, _ in times_of(iceberg, "kafka.t__errors")] == [1, 4]
    reason = iceberg.frame("kafka.t__errors")["reason"][0]
    assert "divided by hour(timestamp) has no part for it" in reason
