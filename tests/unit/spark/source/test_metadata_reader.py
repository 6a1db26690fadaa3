"""The options of a read of the metadata, and the rows as tasks get them. ``tests/spark`` has a real Spark."""

import pickle
from pathlib import Path

import pytest

import siltstone
from siltstone.metadata_tables.catalog import METADATA_TABLES, MetadataTableUnknown
from siltstone.scanning.failures import ScanRefused
from siltstone.spark.source.data_source import TopicDataSource
from siltstone.spark.source.metadata_reader import (
    MetadataReader,
    MetadataRequest,
    metadata_request,
    metadata_schema,
)
from support.engine.small_store import small_store


def test_options_name_a_table_and_a_moment() -> None:
    assert metadata_request({"store": "s", "subscribe": "flights"}) is None
    given = {
        "STORE": "s",
        "Table": "objects",
        "metadataVersion": "7",
        "bucket.1": "s3://b",
        "kafka.acks": "1",
    }
    assert metadata_request(given) == MetadataRequest("s", None, {1: "s3://b"}, "objects", 7)
    given = {"metadata": "sqlite:///x", "table": "log", "asOf": "1970-01-01T00:00:01Z"}
    assert metadata_request(given) == MetadataRequest(None, "sqlite:///x", {}, "log", None, 1_000)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"subscribe": "flights"}, "option subscribe does not exist"),
        ({"metadata": "sqlite:///x"}, "name the store: give one"),
        ({"metadataVersion": "-1"}, "metadataVersion='-1': write a number"),
        ({"asOf": "yesterday"}, "option asOf='yesterday'"),
        ({"bucket.0": "s3://key:hunter2@bucket"}, "has a password"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(more: dict[str, str], text: str) -> None:
    with pytest.raises(ScanRefused) as refused:
        metadata_request({"store": "s", "table": "objects", **more})
    assert text in str(refused.value) and "hunter2" not in str(refused.value)


@pytest.mark.parametrize("name", METADATA_TABLES)
def test_every_table_has_a_schema_of_spark(name: str) -> None:
    names = [each.name for each in METADATA_TABLES[name].columns]
    assert metadata_schema(MetadataRequest("s", None, {}, name)).names == names


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(MetadataTableUnknown):
        metadata_schema(MetadataRequest("s", None, {}, "objcts"))


def test_a_task_gets_rows_and_no_place(tmp_path: Path) -> None:
    settings = small_store(tmp_path / "store")
    source = TopicDataSource({"metadata": settings.metadata, "table": "objects"})
    chosen = source.schema()
    chosen = type(chosen)([chosen["bytes"], chosen["object_id"]])
    reader = source.reader(chosen)
    assert isinstance(reader, MetadataReader)
    parts = reader.partitions()
    copy = pickle.loads(pickle.dumps(reader))
    assert "metadata.sqlite" not in str(vars(copy))
    rows = [row for part in parts for batch in copy.read(part) for row in batch.to_pylist()]
    assert rows == siltstone.metadata(settings.metadata).objects.rows(["bytes", "object_id"])
    assert list(copy.read(type(parts[0])(None))) == []  # of an empty table
