"""A streaming query on a store without a broker, with virtual time: how far it reads, and what it asks while idle."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from siltstone.metadata.store.port import LogUnavailable
from siltstone.offline.context import MaintenanceContext
from siltstone.scanning.request import LATEST, Bound, BoundKind, Bounds, ScanRequest, Tail
from siltstone.scanning.streaming.advancing import BatchLimit, LimitKind, StreamLag
from siltstone.scanning.streaming.failures import StoreIsAnother
from siltstone.scanning.streaming.owners import WARNING_INTERVAL_MS
from siltstone.scanning.streaming.position import StreamPosition
from siltstone.scanning.streaming.topic_stream import OUTAGE_MS_MAX, StreamOfTopics, StreamRequest
from support.maintenance.keyed_world import KeyedWorld

POLL_MS = 200
ALL = BatchLimit()


class Query:
    def __init__(self, start: Bounds | None = None, **given: Any) -> None:
        self.world = KeyedWorld()
        self.streams = self.world.topic("t", 2, cleanup_policy="delete")
        self.topic_id = self.world.topic_named().topic_id
        scan = ScanRequest(topics=("t",), tail=Tail.COMMITTED)
        if start is not None:
            scan = ScanRequest(topics=("t",), tail=Tail.COMMITTED, start=start)
        self.context = self.world.another_context()
        self.is_closed = False
        self.stream = StreamOfTopics(self._opened, StreamRequest(scan, poll_interval_ms=POLL_MS, **given))

    @contextmanager
    def _opened(self) -> Iterator[MaintenanceContext]:
        yield self.context
        self.is_closed = True

    def put(self, partition: int, count: int) -> None:
        self.world.append_pairs(self.streams[partition], [("k", "v")] * count)

    def position(self, *offsets: int) -> StreamPosition:
        return StreamPosition(
            "", {self.topic_id: "t"}, {(self.topic_id, n): at for n, at in enumerate(offsets)}
        )

    def latest(self, *start: int, limit: BatchLimit = ALL) -> list[int]:
        """The offsets of the partitions up to which the next micro-batch reads, from these on."""
        found = self.stream.latest(self.position(*start), limit)
        return [found.offsets[self.topic_id, number] for number in range(len(start))]

    def later(self, ms: int = POLL_MS) -> None:
        self.world.clock.advance_ms(ms)


def test_a_query_begins_at_its_start_and_again_at_the_same() -> None:
    query = Query(Bounds(None, {("t", 0): LATEST, ("t", 1): Bound(BoundKind.OFFSET, 2)}))
    query.put(0, 5)
    query.put(1, 5)
    first = query.stream.initial()
    assert first == query.position(5, 2)
    query.put(0, 5)
    query.later()
    assert query.stream.initial() == first


def test_the_metadata_is_read_once_in_a_poll_interval() -> None:
    query = Query()
    assert query.latest(0, 0) == [0, 0]
    query.put(0, 3)
    query.later(POLL_MS - 1)
    assert query.latest(0, 0) == [0, 0]
    query.later(1)
    assert query.latest(0, 0) == [3, 0]
    assert query.stream.newest() == query.position(3, 0)


def test_a_limited_batch_knows_the_newest_offset_all_the_same() -> None:
    query = Query()
    query.put(0, 10)
    assert query.stream.newest() is None
    assert query.latest(0, 0, limit=BatchLimit(LimitKind.OFFSETS, 4)) == [4, 0]
    assert query.stream.newest() == query.position(10, 0)


def test_few_offsets_wait_for_more_and_not_longer_than_the_delay() -> None:
    query = Query(offsets_min=5, trigger_delay_ms=10_000)
    assert query.latest(0, 0) == [0, 0]
    query.put(0, 4)
    query.later()
    assert query.latest(0, 0) == [0, 0], "four are too few"
    query.put(1, 1)
    query.later()
    assert query.latest(0, 0) == [4, 1], "of all partitions together"
    query.put(0, 1)
    query.later(9_999)
    assert query.latest(4, 1) == [4, 1]
    query.later(1)
    assert query.latest(4, 1) == [5, 1], "ten seconds after the batch before"
    query.later(60_000)
    assert query.latest(5, 1) == [5, 1], "there is nothing"


def test_a_query_with_fixed_ends_reads_up_to_them_and_waits_for_nothing() -> None:
    query = Query(Bounds(LATEST), offsets_min=100)
    query.put(0, 3)
    query.stream.fix_ends()
    query.put(0, 4)
    query.put(1, 4)
    query.later()
    assert query.latest(0, 0) == [3, 0]
    assert query.stream.initial() == query.position(3, 0), "the end is that which was fixed"


def test_metadata_that_cannot_be_read_is_no_news_for_two_minutes_and_then_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query = Query()
    query.put(0, 3)
    assert query.latest(0, 0) == [3, 0]

    def silent() -> None:
        raise LogUnavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(query.context.metadata, "refresh", silent)
        query.later(OUTAGE_MS_MAX)
        assert query.latest(0, 0) == [3, 0]
        query.later()
        with pytest.raises(LogUnavailable):
            query.latest(0, 0)
    query.put(0, 1)
    query.later()
    assert query.latest(0, 0) == [4, 0]


def test_that_the_metadata_are_away_is_said_once_a_minute_and_asked_once_a_poll(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query()
    query.put(0, 3)
    assert query.latest(0, 0) == [3, 0]
    asked: list[int] = []

    def silent() -> None:
        asked.append(1)
        raise LogUnavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(query.context.metadata, "refresh", silent)
        for _ in range(10):
            query.later(POLL_MS)
            for _ in range(16):  # as Spark does
                assert query.latest(0, 0) == [3, 0]
    away = "the metadata cannot be read, so the query reads nothing new: no answer"
    assert (len(asked), caplog.messages) == (10, [away])
    with monkeypatch.context() as patched:
        patched.setattr(query.context.metadata, "refresh", silent)
        query.later(WARNING_INTERVAL_MS)
        query.latest(0, 0)
    query.later()
    query.latest(0, 0)
    query.later()
    query.latest(0, 0)
    assert caplog.messages == [away, away, "the metadata can be read again, and the query continues"]


def test_a_query_that_has_read_no_metadata_yet_fails_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query()

    def silent() -> None:
        raise LogUnavailable("no answer")

    monkeypatch.setattr(query.context.metadata, "refresh", silent)
    with pytest.raises(LogUnavailable):
        query.latest(0, 0)


def test_a_checkpoint_of_another_store_is_refused() -> None:
    query = Query()
    query.put(0, 3)
    other = StreamPosition("other", {query.topic_id: "t"}, {(query.topic_id, 0): 1})
    with pytest.raises(StoreIsAnother):
        query.stream.latest(other, ALL)
    with pytest.raises(StoreIsAnother):
        query.stream.plan(query.position(0, 0), StreamPosition("other", other.names, other.offsets))


def test_a_micro_batch_is_what_lies_between_its_positions_and_its_objects_are_pinned() -> None:
    query = Query()
    query.put(0, 5)
    query.put(1, 5)
    query.stream.latest(query.position(0, 0), ALL)
    assert query.stream.plan(query.position(5, 5), query.position(5, 5)) == ()
    assert not query.world.image.pins, "a micro-batch without records needs no pin"
    units = query.stream.plan(query.position(1, 5), query.position(4, 5))
    found = [
        (piece.partition, piece.start_offset, piece.end_offset) for unit in units for piece in unit.pieces
    ]
    assert found == [(0, 1, 4)]
    (pin,) = query.world.image.pins.values()
    assert all(unit.lease_until_ms == pin.until_ms for unit in units)
    assert "stream of t" in pin.holder
    query.stream.latest(query.position(4, 5), ALL)
    assert not query.world.image.pins, "the micro-batch before is over"
    query.stream.plan(query.position(4, 5), query.position(5, 5))
    query.stream.close()
    assert not query.world.image.pins and query.is_closed


def test_ss23_the_lag_is_what_waits_behind_the_micro_batch_with_its_bytes_and_its_age() -> None:
    query = Query()
    assert query.stream.lag() == StreamLag(), "before the first look"
    query.put(0, 6)
    first_ms = query.world.clock.now_ms()
    query.later(5_000)
    query.put(1, 4)
    assert query.latest(0, 0, limit=BatchLimit(LimitKind.OFFSETS, 5)) == [3, 2]
    query.later(1_000)
    behind = query.stream.lag()
    assert (behind.records, behind.seconds) == (5, (query.world.clock.now_ms() - first_ms) / 1000)
    assert query.latest(6, 0, limit=BatchLimit(LimitKind.OFFSETS, 1)) == [6, 1]
    rest = query.stream.lag()
    assert (rest.records, rest.seconds) == (3, 1.0), "what is read does not count"
    assert 0 < rest.size_bytes < behind.size_bytes
    assert query.latest(6, 0) == [6, 4]
    assert query.stream.lag() == StreamLag()
