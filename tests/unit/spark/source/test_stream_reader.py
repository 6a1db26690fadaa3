"""What the reader of a stream says to Spark before any store is opened."""

from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from siltstone.maintenance.scanning.streaming.advancing import BatchLimit, LimitKind
from siltstone.spark.source import stream_reader as module
from siltstone.spark.source.stream_options import parse_stream_options
from siltstone.spark.source.stream_reader import TopicStreamReader, batch_limit


def reader_of(**options: str) -> TopicStreamReader:
    def opened(_: object) -> Any:
        raise AssertionError("the store was opened")

    return TopicStreamReader(opened, parse_stream_options({"store": "s", "subscribe": "t", **options}))


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "50"}, ReadMaxRows(50)),
        ({"maxBytesPerTrigger": "7000"}, ReadMaxBytes(7_000)),
    ],
)
def test_the_limit_of_the_options_is_what_spark_is_told(options: dict[str, str], limit: object) -> None:
    assert reader_of(**options).getDefaultReadLimit() == limit


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        (ReadAllAvailable(), BatchLimit()),
        (ReadMaxRows(50), BatchLimit(LimitKind.OFFSETS, 50)),
        (ReadMaxBytes(7_000), BatchLimit(LimitKind.BYTES, 7_000)),
    ],
)
def test_the_limit_that_spark_gives_is_the_one_of_the_micro_batch(given: Any, limit: BatchLimit) -> None:
    assert batch_limit(given) == limit


def test_a_reader_that_was_asked_nothing_opens_no_store_and_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of()
    reader.stop()
    frozen = []
    monkeypatch.setattr(module, "freeze_heap", lambda: frozen.append(True))
    for partition in (None, InputPartition(None)):
        assert list(reader.read(partition)) == []
    assert frozen == [True, True]
