"""The task of an export: which records become rows, which dead letters, and what it says of those it cannot decode."""

from collections.abc import Iterator
from io import BytesIO
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from siltstone.object_store.memory import MemoryStore
from siltstone.record_columns.kernels import plain
from siltstone.record_columns.row_columns import ALL_COLUMNS
from siltstone.runtime.clock import ManualClock
from siltstone.scanning import reading, rows
from siltstone.scanning.planning import cut, plan_pieces, wanted_partitions
from siltstone.scanning.reading import Indexes
from siltstone.scanning.request import ScanRequest
from siltstone.scanning.unit import ScanUnit, encode_unit
from siltstone.tables.formats.port import DataFile
from siltstone.tables.layout import Shaping, dead_letter_schema, table_schema
from siltstone.tables.task import export_unit
from siltstone.tables.task_input import ExportInput, ExportResult
from siltstone.topic_configs.table_export import PartitionTransform, TableColumn, TableConfig
from support.maintenance.keyed_world import KeyedWorld, keyed_world

FIELDS = TableConfig(value="json", columns=(TableColumn("a", "int"),), partition_by=())
RECORDS = TableConfig(value="json", partition_by=())


class Exporting:
    """A topic whose values are given, and the store of its table."""

    def __init__(self, world: KeyedWorld) -> None:
        self.world = world
        self.tables = MemoryStore(ManualClock(), "tables")
        self.tokens = count()
        self.streams = world.topic("t", 2, cleanup_policy="delete")

    def put(self, partition: int, *values: str | None, key: str | None = "k") -> None:
        self.world.append_pairs(self.streams[partition], [(key, value) for value in values])

    def export(self, config: TableConfig = FIELDS, **changes: Any) -> ExportResult:
        image = self.world.image
        request = ScanRequest(topics=("t",))
        cuts = [
            cut(each, 0, each.committed_offset, end_offset=each.committed_offset, fail_on_data_loss=True)
            for each in wanted_partitions(image, request)
        ]
        (pieces,) = plan_pieces(image, cuts, request).units
        unit = ScanUnit("store", ALL_COLUMNS, {0: self.world.store.url}, 0, 0, pieces)
        given: dict[str, Any] = {
            "name": "unit 0",
            "unit": encode_unit(unit),
            "config": config,
            "schema": table_schema(config).serialize().to_pybytes(),
            "dead_letter_schema": dead_letter_schema().serialize().to_pybytes(),
            "partition_by": config.partition_by,
            "location": "",
            "folder": "kafka/t/",
            "dead_letter_folder": "kafka/t__errors/",
            "token": f"7-{next(self.tokens):016x}",
            "number": 3,
        }
        return export_unit(ExportInput(**{**given, **changes}), self.tables)

    def rows(self, files: tuple[DataFile, ...], folder: str = "kafka/t/") -> list[dict[str, Any]]:
        found = []
        for each in files:
            data = self.tables.get_range(f"{folder}{each.path}", 0, each.size_bytes)
            read = pq.read_table(BytesIO(data)).to_pylist()
            assert len(read) == each.rows
            found += read
        return found

    def places(self, files: tuple[DataFile, ...]) -> list[tuple[int, int]]:
        """Partition and offset of the rows of a table of fields."""
        return [(row["kafka"]["partition"], row["kafka"]["offset"]) for row in self.rows(files)]


@pytest.fixture
def exporting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exporting]:
    monkeypatch.setattr(reading, "INDEXES", Indexes())
    monkeypatch.setattr(rows, "best_kernels", lambda: plain)
    with keyed_world() as world:
        yield Exporting(world)


def test_fields_become_columns_and_the_record_is_in_a_struct(exporting: Exporting) -> None:
    exporting.put(0, '{"a": 1, "b": 2}', None, "{}")
    found = exporting.export()
    assert (found.records, found.bad, found.example, found.dead_letter_files) == (3, 0, "", ())
    assert [each.path for each in found.files] == ["data/7-0000000000000000-00003-0000.parquet"]
    assert found.bytes_written == found.files[0].size_bytes
    assert found.peak_memory_bytes > 0
    made = exporting.rows(found.files)
    assert [row["a"] for row in made] == [1, None, None]
    assert [row["kafka"]["offset"] for row in made] == [0, 1, 2] and made[0]["kafka"]["key"] == b"k"


def test_records_that_cannot_be_decoded_are_dead_letters_as_they_were(exporting: Exporting) -> None:
    exporting.put(0, '{"a": 1}', "garbage")
    exporting.put(1, '{"a": "x"}', '{"a": 2}')
    found = exporting.export()
    assert (found.records, found.bad) == (4, 2)
    assert found.example.startswith("partition 0 offset 1: JSON is malformed")
    assert exporting.places(found.files) == [(0, 0), (1, 1)]
    dead = exporting.rows(found.dead_letter_files, "kafka/t__errors/")
    assert [(row["partition"], row["offset"], row["value"]) for row in dead] == [
        (0, 1, b"garbage"), (1, 0, b'{"a": "x"}'),
    ]  # fmt: skip
    assert dead[0]["reason"].startswith("JSON is malformed")
    assert found.bytes_written == sum(each.size_bytes for each in (*found.files, *found.dead_letter_files))


@pytest.mark.parametrize("errors", ["drop", "pause"])
def test_where_dead_letters_are_not_kept_none_are_written(exporting: Exporting, errors: str) -> None:
    exporting.put(0, "garbage", "{}")
    config = TableConfig(value="json", columns=FIELDS.columns, partition_by=(), errors=errors)
    found = exporting.export(config)
    assert (found.bad, found.dead_letter_files) == (1, ())
    assert exporting.places(found.files) == [(0, 1)]


def test_a_repeated_round_leaves_out_exactly_the_records_of_its_verdict(exporting: Exporting) -> None:
    exporting.put(0, "{}", "garbage", "{}")
    exporting.put(1, "{}", "{}")
    found = exporting.export(verdict={0: [1, 2], 1: []})
    assert exporting.places(found.files) == [(0, 0), (1, 0), (1, 1)]
    assert (found.unexpected, found.dead_letter_files) == (None, ())


def test_a_bad_record_that_the_verdict_does_not_name_is_told(exporting: Exporting) -> None:
    exporting.put(0, "garbage", "{}", "more garbage", "and more")
    exporting.put(1, "garbage")
    found = exporting.export(verdict={0: [0]})
    assert found.unexpected == (0, 2), "the first of them"
    assert exporting.places(found.files) == [(0, 1)], "none of them is a row"
    assert exporting.export(verdict={0: [0, 2, 3]}).unexpected == (1, 0)
    assert exporting.export(verdict={0: [0, 2, 3], 1: [0]}).unexpected is None


def test_keys_are_text_where_that_is_wanted_and_a_bad_key_is_a_dead_letter(
    exporting: Exporting, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporting.put(0, '{"a": 1}', key="ä")
    exporting.put(0, '{"a": 2}', key=None)
    fields = TableConfig(value="json", key="string", columns=FIELDS.columns, partition_by=())
    assert [row["kafka"]["key"] for row in exporting.rows(exporting.export(fields).files)] == ["ä", None]
    records = TableConfig(value="json", key="string", partition_by=())
    made = exporting.rows(exporting.export(records).files)
    assert [(row["key"], row["value"]) for row in made] == [("ä", '{"a": 1}'), (None, '{"a": 2}')]
    monkeypatch.setattr(
        "support.maintenance.keyed_world._bytes", lambda text: text and text.encode("latin-1")
    )
    exporting.put(0, "{}", key="ö")
    found = exporting.export(records)
    assert found.bad == 1 and "partition 0 offset 2: key: 'utf-8' codec" in found.example


def test_files_are_divided_by_partition_values(exporting: Exporting) -> None:
    exporting.put(0, '{"a": 1}', '{"a": 2}', '{"a": 1}')
    exporting.put(1, '{"a": 2}')
    found = exporting.export(partition_by=(PartitionTransform("identity", "a"),))
    assert {each.partition: exporting.places((each,)) for each in found.files} == {
        (1,): [(0, 0), (0, 2)],
        (2,): [(0, 1), (1, 0)],
    }


def test_a_table_of_records_has_the_value_as_text(exporting: Exporting) -> None:
    exporting.put(0, " [1] ", "x", None)
    found = exporting.export(RECORDS)
    assert [(row["offset"], row["value"], row["topic"]) for row in exporting.rows(found.files)] == [
        (0, " [1] ", "t"), (2, None, "t"),
    ]  # fmt: skip
    assert found.bad == 1


def test_a_damaged_object_is_this_topics_failure_and_no_error_of_the_task(exporting: Exporting) -> None:
    exporting.put(0, "{}")
    (object_id,) = exporting.world.image.objects
    exporting.world.flip(object_id, 40)
    found = exporting.export()
    assert found.failure is not None and "t-0 cannot be read from offset 0 on" in found.failure.reason
    assert (found.files, list(exporting.tables.list())) == ((), [])


def test_rule_14_what_nobody_has_thought_of_costs_the_records_that_cause_it(
    exporting: Exporting, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Shaping.rows

    def rows(shaping: Any, columns: Any, count: int) -> Any:
        if 3 in columns.get("a", pa.array([])).to_pylist():
            raise AttributeError("a fault")
        return real(shaping, columns, count)

    exporting.put(0, *(f'{{"a": {number}}}' for number in range(7)))
    monkeypatch.setattr(Shaping, "rows", rows)
    result = exporting.export()
    assert (result.records, result.bad) == (7, 1)
    assert result.example == "partition 0 offset 3: it cannot be made a row: AttributeError: a fault"
    assert exporting.places(result.files) == [(0, offset) for offset in (0, 1, 2, 4, 5, 6)]
    (dead,) = exporting.rows(result.dead_letter_files, "kafka/t__errors/")
    assert (dead["offset"], dead["value"]) == (3, b'{"a": 3}')
