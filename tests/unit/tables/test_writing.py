"""Data files: their partition values, sizes, and the memory that they take while they are written."""

from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from siltstone.object_store.memory import MemoryStore
from siltstone.runtime.clock import ManualClock
from siltstone.tables.dividing import divided
from siltstone.tables.task_input import FileLimits
from siltstone.tables.writing import FileWriting
from siltstone.topic_configs.table_export import PartitionTransform, TableColumn, TableConfig

SCHEMA = pa.schema([("timestamp", pa.timestamp("us", tz="UTC")), ("text", pa.string())])
PLAIN = TableConfig()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows(*pairs: tuple[datetime | None, str | None]) -> Any:
    return pa.RecordBatch.from_pylist([{"timestamp": at, "text": text} for at, text in pairs], SCHEMA)


def by(*transforms: str) -> tuple[PartitionTransform, ...]:
    return tuple(PartitionTransform(*text.removesuffix(")").split("(")) for text in transforms)


def cut(batch: Any, *transforms: str) -> dict[tuple[Any, ...], list[str]]:
    return {values: part["text"].to_pylist() for values, part in divided(batch, by(*transforms), PLAIN)}


@pytest.mark.parametrize(
    "at",
    [
        EPOCH,
        EPOCH - timedelta(microseconds=1),
        datetime(2026, 2, 28, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2026, 3, 1, tzinfo=UTC),
    ],
)
def test_tb12_times_count_from_1970_and_are_rounded_down(at: datetime) -> None:
    since = at - EPOCH
    expected = {
        "year": at.year - 1970,
        "month": (at.year - 1970) * 12 + at.month - 1,
        "day": since // timedelta(days=1),
        "hour": since // timedelta(hours=1),
    }
    for transform, value in expected.items():
        assert cut(rows((at, "a")), f"{transform}(timestamp)") == {(value,): ["a"]}


def test_tb12_the_values_are_those_of_icebergs_own_transforms() -> None:
    from pyiceberg.transforms import DayTransform, HourTransform, MonthTransform, YearTransform
    from pyiceberg.types import TimestamptzType

    transforms = {"year": YearTransform, "month": MonthTransform, "day": DayTransform, "hour": HourTransform}
    for days in (-40_000, -366, -1, 0, 59, 11_016, 20_000):
        at = EPOCH + timedelta(days=days, hours=5)
        micros = (at - EPOCH) // timedelta(microseconds=1)
        for name, transform in transforms.items():
            (values,) = cut(rows((at, "a")), f"{name}(timestamp)")
            assert values == (transform().transform(TimestamptzType())(micros),)


def test_tb12_rows_of_several_values_are_cut_in_the_order_of_their_first() -> None:
    day = timedelta(days=1)
    batch = rows(
        (EPOCH + day, "x"), (EPOCH, "x"), (EPOCH + day, "y"), (None, "x"), (EPOCH + day, None), (EPOCH, "x")
    )
    assert cut(batch, "day(timestamp)") == {(1,): ["x", "y", None], (0,): ["x", "x"], (None,): ["x"]}
    assert list(cut(batch, "day(timestamp)", "identity(text)")) == [
        (1, "x"),
        (0, "x"),
        (1, "y"),
        (None, "x"),
        (1, None),
    ]
    assert cut(batch) == {(): ["x", "x", "y", "x", None, "x"]}


def test_tb12_every_combination_of_values_is_cut_by_itself() -> None:
    """Also where one column has more values than another."""
    pairs = [(EPOCH + timedelta(days=day), text) for day in range(2) for text in ("x", "y", "z")]
    for transforms in (("day(timestamp)", "identity(text)"), ("identity(text)", "day(timestamp)")):
        assert list(cut(rows(*pairs, *pairs), *transforms).values()) == [
            [text, text] for _, text in pairs
        ]  # fmt: skip


FIELDS = pa.schema(
    [("a", pa.string()), ("kafka", pa.struct([("a", pa.string()), ("partition", pa.int32())]))]
)


def test_tb12_a_field_of_the_value_goes_before_a_column_of_the_record() -> None:
    config = TableConfig(value="json", columns=(TableColumn("a", "string"),))
    values = [("x", 0), ("y", 0), ("x", 1)]
    batch = pa.RecordBatch.from_pylist(
        [{"a": a, "kafka": {"a": "not this", "partition": number}} for a, number in values], FIELDS
    )
    found = {
        values: part["a"].to_pylist()
        for values, part in divided(batch, by("identity(a)", "identity(partition)"), config)
    }
    assert found == {("x", 0): ["x"], ("y", 0): ["y"], ("x", 1): ["x"]}


def writing(store: MemoryStore, **limits: int) -> FileWriting:
    return FileWriting(store, "kafka/t/", "1-token-00000", SCHEMA, FileLimits(**limits))


def read(store: MemoryStore, path: str, size_bytes: int) -> Any:
    return pq.ParquetFile(BytesIO(store.get_range(f"kafka/t/{path}", 0, size_bytes)))


def test_rows_are_gathered_to_groups_and_files() -> None:
    store = MemoryStore(ManualClock(), "t")
    files = writing(store, group_bytes=500, file_bytes=1_000)
    for number in range(100):
        files.add(rows((EPOCH, f"{number} {number * 7919}" * 5)))
    made = files.close()
    assert [each.path for each in made] == [f"data/1-token-00000-{n:04}.parquet" for n in range(len(made))]
    assert len(made) > 1 and sum(each.rows for each in made) == 100
    texts = [
        text for each in made for text in read(store, each.path, each.size_bytes).read()["text"].to_pylist()
    ]
    assert texts == [f"{n} {n * 7919}" * 5 for n in range(100)]
    first = read(store, made[0].path, made[0].size_bytes)
    assert first.num_row_groups > 1
    assert first.metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_row_group_and_a_file_end_where_their_limit_is_reached() -> None:
    batch = rows((EPOCH, "x" * 100))
    for group_bytes, groups in ((2 * batch.nbytes, [2, 2, 1]), (2 * batch.nbytes + 1, [3, 2])):
        store = MemoryStore(ManualClock(), "t")
        files = writing(store, group_bytes=group_bytes)
        for _ in range(5):
            files.add(batch)
        (made,) = files.close()
        found = read(store, made.path, made.size_bytes).metadata
        assert [found.row_group(number).num_rows for number in range(found.num_row_groups)] == groups
    store = MemoryStore(ManualClock(), "t")
    files = writing(store, group_bytes=1, file_bytes=1)
    for _ in range(3):
        files.add(batch)
        assert files.held_bytes == 0, "what is written goes at once"
    assert [each.rows for each in files.close()] == [1, 1, 1]


def test_the_largest_file_is_closed_first_when_memory_runs_out() -> None:
    store = MemoryStore(ManualClock(), "t")
    small, large = rows((EPOCH, "x")), rows((EPOCH, "x" * 1_000))
    files = writing(store, memory_bytes=small.nbytes + 2 * large.nbytes + 50)
    empty = files.held_bytes
    files.add(small, ("small",))
    files.add(large, ("large",))
    assert (empty, files.files) == (0, [])
    files.add(large, ("large",))
    assert [each.partition for each in files.files] in ([], [("large",)])
    files.add(large, ("other",))
    assert [each.partition for each in files.files] == [("large",)]
    assert {each.partition: each.rows for each in files.close()} == {
        ("large",): 2, ("small",): 1, ("other",): 1,
    }  # fmt: skip


def test_memory_is_bounded_however_many_values_are_open() -> None:
    store = MemoryStore(ManualClock(), "t")
    files = writing(store, group_bytes=10_000, file_bytes=100_000, memory_bytes=5_000)
    batch = rows((EPOCH, "x" * 100))
    for number in range(500):
        files.add(batch, (number % 50,))
        assert files.held_bytes <= 5_000
    made = files.close()
    assert len(made) > 50 and sum(each.rows for each in made) == 500
    assert files.held_bytes == 0


def test_the_same_rows_make_the_same_bytes() -> None:
    stores = [MemoryStore(ManualClock(), name) for name in ("a", "b")]
    for store in stores:
        files = writing(store)
        files.add(rows((EPOCH, "x"), (None, None)))
        (made,) = files.close()
    one, other = (store.get_range(f"kafka/t/{made.path}", 0, made.size_bytes) for store in stores)
    assert one == other
