"""What the reader of a stream says to Spark before any store is opened."""

from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from siltstone.scanning.streaming.advancing import BatchLimit, LimitKind, StreamLag
from siltstone.scanning.streaming.position import StreamPosition, encode_position
from siltstone.spark.source import stream_reader as module
from siltstone.spark.source.stream_options import parse_stream_options
from siltstone.spark.source.stream_reader import StreamPartition, TopicStreamReader, batch_limit


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
    for partition in (None, StreamPartition(None, None), InputPartition(None)):
        assert list(reader.read(partition)) == []
    assert frozen == [True, True, True]


class FollowedTopic:
    """Stands for the StreamOfTopics: each call is recorded and answered with a position."""

    def __init__(self, *_: object) -> None:
        self.called: list[Any] = []
        self.end: StreamPosition | None = None
        STREAMS.append(self)

    def initial(self) -> StreamPosition:
        return START

    def latest(self, start: StreamPosition, limit: BatchLimit) -> StreamPosition:
        self.called.append((start, limit))
        return END

    def newest(self) -> StreamPosition | None:
        return self.end

    def lag(self) -> StreamLag:
        return StreamLag(7, 90, 1.5)

    def plan(self, start: StreamPosition, end: StreamPosition) -> list[Any]:
        self.called.append((start, end))
        return []

    def question(self, units: Any) -> None:
        assert list(units) == []

    def finished(self, end: StreamPosition) -> None:
        self.called.append(end)

    def fix_ends(self) -> None:
        self.called.append("fixed")

    def close(self) -> None:
        self.called.append("closed")


STREAMS: list[FollowedTopic] = []
TOPIC = "ab" * 16
START = StreamPosition("store", {TOPIC: "t"}, {(TOPIC, 0): 5})
END = StreamPosition("store", {TOPIC: "t"}, {(TOPIC, 0): 9})


def test_one_stream_answers_all_questions_of_a_query_in_the_form_of_the_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    STREAMS.clear()
    monkeypatch.setattr(module, "StreamOfTopics", FollowedTopic)
    reader = reader_of()
    start, end = encode_position(START), encode_position(END)
    reader.prepareForTriggerAvailableNow()
    assert reader.initialOffset() == start
    assert reader.reportLatestOffset() is None, "there has been no look yet"
    assert reader.latestOffset(start, ReadMaxRows(4)) == end
    (stream,) = STREAMS
    stream.end = END
    assert reader.reportLatestOffset() == {**end, "backlog": {"records": 7, "bytes": 90, "seconds": 1.5}}
    assert reader.partitions(start, end) == []
    reader.commit(end)
    reader.stop()
    reader.stop()
    assert stream.called == [
        "fixed", (START, BatchLimit(LimitKind.OFFSETS, 4)), (START, END), END, "closed",
    ]  # fmt: skip
    assert len(STREAMS) == 1
