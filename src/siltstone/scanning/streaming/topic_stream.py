"""``StreamOfTopics`` answers the questions of a streaming query while the query runs, in one long-lived process.

The engine of the query calls ``initial`` once, then again and again ``latest`` (how far may the next micro-batch go?)
and, when there is something new, ``plan`` (the scan units between two positions). After a restart ``plan`` may be the
first call, with positions of the checkpoint. While nothing is new, ``latest`` reads the metadata log at most every
``poll_interval_ms``, asks the owners of open partitions as often, writes nothing, and asks no bucket.
"""

import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack

import msgspec

from siltstone.kafka_client.patience import Patience
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.store_id import store_id_of
from siltstone.model.errors import Unavailable
from siltstone.model.limits import MINUTE_MS, SECOND_MS
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.topic_streams import PartitionName
from siltstone.scanning.failures import TailNotReadable
from siltstone.scanning.flushing import flush_tails
from siltstone.scanning.planning import ScanPartition, cut, wanted_partitions
from siltstone.scanning.request import (
    Bound,
    BoundKind,
    Bounds,
    Isolation,
    ScanRequest,
    Tail,
)
from siltstone.scanning.scan import plan_scan, refuse_others, settled_offset
from siltstone.scanning.streaming.advancing import (
    BatchLimit,
    StreamEnd,
    StreamLag,
    advance,
    continued,
    lag_behind,
    waiting,
)
from siltstone.scanning.streaming.batch_pins import BatchPins
from siltstone.scanning.streaming.failures import StoreIsAnother, TopicMadeAnew
from siltstone.scanning.streaming.group_progress import StreamGroupProgress
from siltstone.scanning.streaming.owners import WARNING_INTERVAL_MS, TailOwners
from siltstone.scanning.streaming.position import StreamKey, StreamPosition
from siltstone.scanning.streaming.query_names import QueryNaming, QueryQuestion
from siltstone.scanning.tail import TailEnds, tail_ends
from siltstone.scanning.transactions import CommittedEnds, has_transactions
from siltstone.scanning.unit import ScanUnit

log = logging.getLogger(__name__)

POLL_INTERVAL_MS = 200
"""Spark asks for the latest offset some 80 times a second while nothing is new."""

FLUSH_INTERVAL_MS = 10 * SECOND_MS
"""With ``tail=flush`` the owners upload at most this often for a query: each flush makes small objects, and two entries
of the metadata log."""

TRIGGER_DELAY_MS_MAX = 15 * MINUTE_MS
"""How long a micro-batch with fewer than ``offsets_min`` offsets waits, unless the query says otherwise [Kafka's
connector]."""

OUTAGE_MS_MAX = 2 * MINUTE_MS
"""How long the metadata, or the owner of a tail that a position reaches into, may be unreachable before the query
fails."""


class StreamRequest(msgspec.Struct, frozen=True):
    """``scan`` says which topics, columns and leases; its start is where a query without a checkpoint begins, its end
    is not used. A micro-batch waits until it has ``offsets_min`` offsets, but not longer than ``trigger_delay_ms``.
    ``group_id``: the consumer group for which finished offsets are committed; "": none; None: the one that is named
    after the query, whose name a task tells."""

    scan: ScanRequest
    offsets_min: int = 0
    trigger_delay_ms: int = TRIGGER_DELAY_MS_MAX
    group_id: str | None = ""
    poll_interval_ms: int = POLL_INTERVAL_MS
    flush_interval_ms: int = FLUSH_INTERVAL_MS


class _Seen(msgspec.Struct, frozen=True):
    """The state of the topics when the metadata and the owners were last asked."""

    image: MetadataImage
    ends: Mapping[StreamKey, StreamEnd]


OpenSource = Callable[[], AbstractContextManager[MaintenanceContext]]


class StreamOfTopics:
    """Opens the store at the first call; ``close`` ends its pins and closes it."""

    def __init__(self, open_source: OpenSource, request: StreamRequest) -> None:
        self._open_source = open_source
        self._request = request
        self._stack = ExitStack()
        self._opened: MaintenanceContext | None = None
        self._owners: TailOwners | None = None
        self._committed: CommittedEnds | None = None
        self._pins: BatchPins | None = None
        self._progress = StreamGroupProgress(request.group_id) if request.group_id else None
        self._naming = QueryNaming() if request.group_id is None else None
        self._seen: _Seen | None = None
        self._seen_ms = self._asked_ms = 0.0
        self._warned_ms: float | None = None
        self._fixed: _Seen | None = None
        self._initial: StreamPosition | None = None
        self._newest: StreamPosition | None = None
        self._ahead: tuple[StreamPosition, _Seen] | None = None
        self._waits_since_ms: float | None = None
        self._flush_due_ms = 0.0

    # -- calls of the engine of the query

    def fix_ends(self) -> None:
        """Fixes the partitions of the stream, and their ends, as they are now. Raises TailNotReadable, because a query
        with fixed ends stops there, and would silently leave out a tail that cannot be read now."""
        source = self._source
        image = self._refreshed(source)
        partitions = wanted_partitions(image, _of_those_there(image, self._request.scan))
        with self._tail_ends(image, partitions) as ends:
            self._fixed = _Seen(image, _stream_ends(partitions, ends))

    def initial(self) -> StreamPosition:
        """Returns the position at which a query without a checkpoint begins, the same at every call. Raises what
        planning a scan raises."""
        if self._initial is None:
            self._initial = self._settled_start()
        return self._initial

    def latest(self, start: StreamPosition, limit: BatchLimit) -> StreamPosition:
        """Returns the position up to which the next micro-batch reads; ``start`` itself if no micro-batch is due. The
        call means that the micro-batch before is over, so its pin is ended, and ``start`` is finished: Spark says so by
        ``finished`` only when it has another micro-batch, and never of the last one. Raises StoreIsAnother, TopicGone,
        TopicMadeAnew, and Unavailable when the metadata was away for too long."""
        if self._pins is not None:
            self._pins.end_all()
        seen = self._fixed or self._look()
        self._refuse_another_store(seen.image, start)
        self._learn_name()
        if self._progress is not None and start != self._initial:
            self._progress.commit(self._source, start, lambda: self._lag_after(start, seen))
        kept, warnings = continued(start, seen.ends, seen.image, fail_on_data_loss=self._fails_on_loss)
        for warning in warnings:
            log.warning("%s", warning)
        self._newest = advance(kept, seen.ends, BatchLimit(), seen.image)
        end = start if self._is_too_little(kept, seen) else advance(kept, seen.ends, limit, seen.image)
        self._ahead = end, seen
        return end

    def finished(self, end: StreamPosition) -> None:
        """Is called when the query has processed all records before ``end``. If the request names a group, the offsets
        are committed for it, for tools that show lag and for retention that waits for groups. Offsets that cannot be
        committed now are committed later, with those of the next batch at the latest."""
        self._learn_name()
        if self._progress is not None:
            seen = self._fixed or self._seen
            self._progress.commit(self._source, end, lambda: self._lag_after(end, seen))

    def question(self, units: Sequence[ScanUnit]) -> QueryQuestion | None:
        """Returns what the first task of a planned micro-batch is asked; None if there is nothing to ask."""
        if self._naming is None or not units:
            return None
        first = units[0]
        bucket_id = first.pieces[0].bucket_id if first.pieces else min(first.bucket_urls, default=None)
        if bucket_id not in first.bucket_urls:
            return None
        return self._naming.ask(self._source, first.bucket_urls[bucket_id])

    def _learn_name(self) -> None:
        if self._naming is not None and (query := self._naming.learned()) is not None:
            self._naming = None
            self._progress = StreamGroupProgress(query.group_id, query)

    def _lag_after(self, position: StreamPosition, seen: _Seen | None) -> StreamLag:
        if seen is None:
            return StreamLag()
        return lag_behind(position, seen.ends, seen.image, self._source.clock.now_ms())

    def newest(self) -> StreamPosition | None:
        """Returns the end of everything that could be read when the metadata and the owners were last asked; None
        before."""
        return self._newest

    def lag(self) -> StreamLag:
        """Returns what waits behind the position that ``latest`` returned, as the store was seen then."""
        if self._ahead is None:
            return StreamLag()
        end, seen = self._ahead
        return lag_behind(end, seen.ends, seen.image, self._source.clock.now_ms())

    def plan(self, start: StreamPosition, end: StreamPosition) -> tuple[ScanUnit, ...]:
        """Plans the units of the records from ``start`` to ``end``, whose objects are kept until ``latest`` is called.
        The topics in the positions are checked again, because a position may come from a checkpoint. Raises
        StoreIsAnother, TopicGone, TopicMadeAnew, and what ``plan_scan`` raises."""
        source = self._source
        ranges = {
            key: (start.offsets.get(key, 0), offset)
            for key, offset in end.offsets.items()
            if start.offsets.get(key, 0) < offset
        }
        if not ranges:
            return ()
        self._refuse_another_store(source.metadata.refresh(), end)
        assert self._pins is not None
        until_ms = self._pins.take()
        patience = Patience(source.clock, source.rng, OUTAGE_MS_MAX)
        while True:
            try:
                units = self._planned(end, ranges)
                return tuple(msgspec.structs.replace(unit, lease_until_ms=until_ms) for unit in units)
            except TailNotReadable as trouble:
                log.warning("a micro-batch waits for the records that are in no object yet: %s", trouble)
                patience.wait_after(trouble)

    def close(self) -> None:
        if self._pins is not None:
            self._pins.close()
        if self._owners is not None:
            self._owners.close()
        self._stack.close()
        self._opened = None

    # -- the metadata and the owners

    @property
    def _source(self) -> MaintenanceContext:
        if self._opened is None:
            opened = self._stack.enter_context(self._open_source())
            scan = self._request.scan
            topics = ", ".join(scan.topics or scan.assigned or [scan.pattern or ""])
            holder = f"{socket.gethostname()} process {os.getpid()}: stream of {topics}"
            self._pins = BatchPins(opened, scan.lease_ms, holder)
            self._owners = TailOwners(opened.clock, opened.rng, lambda: opened.security, scan.isolation)
            if scan.isolation is Isolation.COMMITTED:
                self._committed = CommittedEnds(opened)
            self._opened = opened
        return self._opened

    @property
    def _fails_on_loss(self) -> bool:
        return self._request.scan.fail_on_data_loss

    def _look(self) -> _Seen:
        source, now_ms = self._source, self._source.clock.monotonic_ms()
        if self._seen is not None and now_ms - self._asked_ms < self._request.poll_interval_ms:
            return self._seen
        self._asked_ms = now_ms
        try:
            image = self._flushed_from_time_to_time(source)
        except Unavailable as trouble:
            if self._seen is None or now_ms - self._seen_ms > OUTAGE_MS_MAX:
                raise
            self._warn(trouble, now_ms)
            return self._seen
        if self._warned_ms is not None:
            self._warned_ms = None
            log.warning("the metadata can be read again, and the query continues")
        partitions = wanted_partitions(image, _of_those_there(image, self._request.scan))
        ends = TailEnds("")
        if self._request.scan.tail in (Tail.AUTO, Tail.FETCH) and self._owners is not None:
            ends = self._owners.ends(image, partitions)
        self._limit(image, partitions, ends)
        self._seen = _Seen(image, _stream_ends(partitions, ends))
        self._seen_ms = self._asked_ms = source.clock.monotonic_ms()
        return self._seen

    def _tail_ends(self, image: MetadataImage, partitions: Sequence[ScanPartition]) -> TailEnds:
        """Returns the ends up to which the query may read now. The caller closes them. Raises TailNotReadable."""
        source, scan = self._source, self._request.scan
        ends = tail_ends(
            image, partitions, scan.tail, source.clock, source.rng, source.security, scan.isolation
        )
        try:
            self._limit(image, partitions, ends)
        except BaseException:
            ends.close()
            raise
        return ends

    def _limit(self, image: MetadataImage, partitions: Sequence[ScanPartition], ends: TailEnds) -> None:
        if self._committed is not None:
            self._committed.limit(image, partitions, ends)

    def _warn(self, trouble: Unavailable, now_ms: float) -> None:
        """Logs once a minute, although Spark asks all the time."""
        if self._warned_ms is None or now_ms - self._warned_ms >= WARNING_INTERVAL_MS:
            self._warned_ms = now_ms
            log.warning("the metadata cannot be read, so the query reads nothing new: %s", trouble)

    @property
    def _flushes(self) -> bool:
        return self._request.scan.tail is Tail.FLUSH

    def _refreshed(self, source: MaintenanceContext) -> MetadataImage:
        """Returns the newest image, after the owners have uploaded their tails if the query wants that. Raises
        TailNotReadable."""
        image = source.metadata.refresh()
        if not self._flushes:
            return image
        return flush_tails(source, wanted_partitions(image, _of_those_there(image, self._request.scan)))

    def _flushed_from_time_to_time(self, source: MaintenanceContext) -> MetadataImage:
        """Does the same as ``_refreshed``, but asks the owners at most every ``flush_interval_ms``. While an owner does
        not answer, the query reads only records that are in objects."""
        now_ms = source.clock.monotonic_ms()
        if not self._flushes or now_ms < self._flush_due_ms:
            return source.metadata.refresh()
        try:
            return self._refreshed(source)
        except TailNotReadable as trouble:
            log.warning("the query reads only what is in objects: %s", trouble)
            return source.metadata.refresh()
        finally:
            self._flush_due_ms = source.clock.monotonic_ms() + self._request.flush_interval_ms

    def _settled_start(self) -> StreamPosition:
        source, scan = self._source, self._request.scan
        image = self._refreshed(source)
        partitions = wanted_partitions(image, scan)
        refuse_others(scan.start, partitions, "begin")
        with self._tail_ends(image, partitions) as ends:
            if self._fixed is not None:
                partitions = [each for each in partitions if _key(each) in self._fixed.ends]
            offsets: dict[StreamKey, int] = {}
            for each in partitions:
                end_offset = ends.end_of(each)
                if self._fixed is not None:
                    end_offset = self._fixed.ends[_key(each)].end_offset
                start = settled_offset(source, image, each, scan.start, ends, "begin")
                if scan.start.of(each.key) == Bound(BoundKind.LATEST):
                    start = end_offset
                checked = cut(
                    each, start, start, end_offset=ends.end_of(each), fail_on_data_loss=self._fails_on_loss
                )
                offsets[_key(each)] = checked.start_offset
                if checked.warning:
                    log.warning("%s", checked.warning)
        names = {each.topic.topic_id: each.topic.name for each in partitions}
        return StreamPosition(store_id_of(image) or "", names, offsets)

    def _is_too_little(self, start: StreamPosition, seen: _Seen) -> bool:
        """Returns whether the micro-batch waits for more offsets. A stream with fixed ends waits for nothing."""
        if not self._request.offsets_min or self._fixed is not None:
            return False
        now_ms = self._source.clock.monotonic_ms()
        if self._waits_since_ms is None:
            self._waits_since_ms = now_ms
        is_late = now_ms - self._waits_since_ms >= self._request.trigger_delay_ms
        count = sum(waiting(start, seen.ends).values())
        if count and (is_late or count >= self._request.offsets_min):
            self._waits_since_ms = now_ms
            return False
        return True

    def _may_be_decided_in_tail(self, image: MetadataImage, partition: ScanPartition) -> bool:
        """Returns whether a transaction in the objects of the partition may have its marker in its tail."""
        return self._committed is not None and has_transactions(image, partition)

    def _refuse_another_store(self, image: MetadataImage, position: StreamPosition) -> None:
        store_id = store_id_of(image) or ""
        if position.store_id != store_id:
            raise StoreIsAnother(store_id, position.store_id)

    def _planned(
        self, end: StreamPosition, ranges: Mapping[StreamKey, tuple[int, int]]
    ) -> tuple[ScanUnit, ...]:
        source, scan = self._source, self._request.scan
        image = source.metadata.refresh()
        partitions = wanted_partitions(image, _of_those_there(image, scan))
        named = _stream_ends(partitions, TailEnds(""))
        kept, _ = continued(end, named, image, fail_on_data_loss=self._fails_on_loss)
        wanted = {key: ranges[key] for key in kept.offsets if key in ranges and key in named}
        if not wanted:
            return ()
        has_tail = any(
            until > named[key].of.committed_offset or self._may_be_decided_in_tail(image, named[key].of)
            for key, (_, until) in wanted.items()
        )
        request = msgspec.structs.replace(
            scan,
            topics=(),
            pattern=None,
            partitions=None,
            assigned=_assigned(wanted, kept.names),
            start=_bounds({key: first for key, (first, _) in wanted.items()}, kept.names),
            end=_bounds({key: until for key, (_, until) in wanted.items()}, kept.names),
            tail=(self._request.scan.tail if self._flushes else Tail.AUTO) if has_tail else Tail.COMMITTED,
            lease_ms=0,
        )
        plan = plan_scan(source, request, self._committed)
        read = {each.of.topic.name: each.of.topic.topic_id for each in plan.cuts}
        for topic_id, name in kept.names.items():
            if read.get(name, topic_id) != topic_id:  # the topic was created again since the image above
                raise TopicMadeAnew(name, topic_id, read[name])
        return plan.units


def _key(partition: ScanPartition) -> StreamKey:
    return partition.topic.topic_id, partition.partition


def _stream_ends(partitions: Sequence[ScanPartition], ends: TailEnds) -> dict[StreamKey, StreamEnd]:
    return {_key(each): StreamEnd(each, ends.end_of(each)) for each in partitions}


def _of_those_there(image: MetadataImage, request: ScanRequest) -> ScanRequest:
    """Returns the request without the topics and partitions that the store does not have: a running query finds out
    from its position whether one of them is missing."""
    if request.assigned is not None:
        there = {
            name: tuple(number for number in numbers if number < len(image.topics[topic_id].partitions))
            for name, numbers in request.assigned.items()
            if (topic_id := image.topic_ids.get(name)) is not None
        }
        return msgspec.structs.replace(request, assigned=there)
    topics = tuple(name for name in request.topics if name in image.topic_ids)
    return msgspec.structs.replace(request, topics=topics)


def _assigned(keys: Mapping[StreamKey, object], names: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for topic_id, number in keys:
        found.setdefault(names[topic_id], []).append(number)
    return {name: tuple(numbers) for name, numbers in found.items()}


def _bounds(offsets: Mapping[StreamKey, int], names: Mapping[str, str]) -> Bounds:
    named: dict[PartitionName, Bound] = {
        (names[topic_id], number): Bound(BoundKind.OFFSET, offset)
        for (topic_id, number), offset in offsets.items()
    }
    return Bounds(None, named)
