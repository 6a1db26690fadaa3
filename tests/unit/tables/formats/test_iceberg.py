"""An Iceberg table as an export sees it, in a catalog of its own."""

from pathlib import Path
from typing import Any

import pytest

from siltstone.tables.failures import CatalogFailed
from siltstone.tables.formats.iceberg import IcebergFormat, _line
from siltstone.topic_configs.table_export import PartitionTransform
from support.maintenance.table_world import TableWorld


def test_offsets_are_found_from_an_end_on_and_of_partitions_with_an_end_alone(iceberg: TableWorld) -> None:
    streams = iceberg.kept(partitions=2, value="json")
    iceberg.append_values(streams[0], "{}", "garbage", "{}", "garbage")
    iceberg.append_values(streams[1], "garbage", "{}", "{}")
    iceberg.export_now()
    iceberg.append_values(streams[0], "garbage", "{}", "{}")
    iceberg.export_now()
    with iceberg.table_of("kafka.t__errors") as table:
        found = [table.offsets_from(ends) for ends in ({0: 0, 1: 0}, {0: 2}, {0: 4, 1: 1}, {0: 5}, {})]
        assert table.rows == 4
    ordered = [{number: sorted(offsets) for number, offsets in each.items()} for each in found]
    assert ordered == [{0: [1, 3, 4], 1: [0]}, {0: [3, 4]}, {0: [4]}, {}, {}]


def test_a_table_without_rows_has_no_file_and_is_divided_as_it_was_made(iceberg: TableWorld) -> None:
    iceberg.kept(value="json", columns="a int, b string")
    iceberg.configure("t", **{"siltstone.table.partition.by": "hour(timestamp),identity(b)"})
    (stream,) = iceberg.image.topics[iceberg.topic_named().topic_id].partitions
    iceberg.append_values(stream.data_stream_id, '{"a": 1, "b": "x"}')
    iceberg.export_now()
    with iceberg.table_of() as table:
        assert table.partition_by == (
            PartitionTransform("hour", "timestamp"), PartitionTransform("identity", "b"),
        )  # fmt: skip
        assert table.schema.names == ["a", "b", "kafka"] and table.rows == 1
        assert table.place.endswith(".metadata.json")
    with iceberg.table_of("kafka.t__errors") as empty:
        assert (empty.rows, list(empty.files()), empty.partition_by) == (0, [], ())
        assert empty.offsets_from({0: 0}) == {}


def test_a_catalog_that_cannot_be_reached_is_named_in_one_line(tmp_path: Path) -> None:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path / 'gone' / 'catalog.sqlite'}"}
    with pytest.raises(CatalogFailed, match=r"^the catalog does not answer: \w+"):
        IcebergFormat(catalog, tmp_path.as_uri())
    assert _line(ValueError("two\n  lines")) == "ValueError: two lines"
    assert len(_line(ValueError("x" * 1_000))) < 350


def test_trouble_of_the_catalogs_client_while_a_table_is_read_is_the_catalogs(
    iceberg: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    with iceberg.tables() as tables:
        assert tables.load("kafka.t") is None

        def load_table(name: str) -> Any:
            raise ConnectionResetError("no answer")

        monkeypatch.setattr(tables._catalog, "load_table", load_table)  # type: ignore[attr-defined]
        with pytest.raises(
            CatalogFailed, match=r"table kafka.t does not answer: ConnectionResetError: no answer"
        ):
            tables.load("kafka.t")
