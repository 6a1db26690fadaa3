"""Reads partitions continuously: from given offsets on, or the last records; reconnects when a broker restarts."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from heapq import nlargest

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.consuming import Fetcher
from siltstone.kafka_client.failures import KafkaNotReady
from siltstone.kafka_client.offsets import READ_UNCOMMITTED, Ends, ends_of
from siltstone.kafka_client.patience import Patience
from siltstone.kafka_protocol.records.reading import Record
from siltstone.model.errors import Unavailable

Found = tuple[TopicPartition, Record]

FETCH_WAIT_MS = 500
RECONNECT_TIME_LIMIT_MS = 60_000
"""How long reading waits for a lost broker; a restart takes less."""


NOT_READY_TOLD_AFTER = 3
"""A broker that answers "not ready" is reported after so many failures in a row: a partition is not ready for a moment
whenever its leader changes."""


class BrokerOutage:
    """Repeats steps while the broker is away: a failed step is followed by a pause, and after a minute without a step
    that succeeds the failure is raised. ``on_remark`` is called once for each outage."""

    def __init__(self, cluster: Cluster, on_remark: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._on_remark = on_remark
        self._patience = Patience(cluster.clock, cluster.rng, RECONNECT_TIME_LIMIT_MS)
        self._failures = 0
        self._is_reported = False

    @contextmanager
    def survived(self) -> Iterator[None]:
        """One step. Raises Unavailable after a minute."""
        try:
            yield
        except Unavailable as trouble:
            self._failures += 1
            if not self._is_reported and (
                self._failures >= NOT_READY_TOLD_AFTER or not isinstance(trouble, KafkaNotReady)
            ):
                self._on_remark(f"{trouble}; retrying for {RECONNECT_TIME_LIMIT_MS // 1000} s")
                self._is_reported = True
            self._cluster.reconnect()
            self._patience.wait_after(trouble)
        else:
            self._failures, self._is_reported = 0, False
            self._patience.restart()


class Following:
    """Reads records and survives lost brokers.

    ``on_remark(text)`` receives notes for the user, such as a lost connection; reading continues. ``on_positions``
    receives the next offset of each partition after every fetch; it advances past offsets without records, too.
    ``on_gap`` and ``isolation`` are those of ``Fetcher``.
    """

    def __init__(
        self,
        cluster: Cluster,
        on_remark: Callable[[str], None],
        on_positions: Callable[[Mapping[TopicPartition, int]], None] = lambda _: None,
        on_gap: Callable[[TopicPartition, int, int], None] = lambda *_: None,
        isolation: int = READ_UNCOMMITTED,
    ) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._on_remark = on_remark
        self._on_positions = on_positions
        self._on_gap = on_gap

    def records(
        self, positions: dict[TopicPartition, int], until: dict[TopicPartition, int] | None = None
    ) -> Iterator[Found | None]:
        """Yields the records from ``positions`` on, and None after every fetch, so that the caller regains control
        while no records arrive. With ``until``, each partition ends before that offset; without, reading never ends.
        Raises KafkaRefusal, CorruptData, and Unavailable after a minute without a broker."""
        fetcher = Fetcher(self._cluster, positions, self._tell_gap, self._isolation)
        outage = BrokerOutage(self._cluster, self._on_remark)
        while _is_open(fetcher.positions, until):
            with outage.survived():
                yield from self._fetched(fetcher, until)
                self._on_positions(fetcher.positions)
                yield None

    def _fetched(self, fetcher: Fetcher, until: dict[TopicPartition, int] | None) -> Iterator[Found]:
        for where, record in fetcher.fetch(FETCH_WAIT_MS):
            if until is None or record.offset < until[where]:
                yield where, record
        if until is not None:
            for where in [key for key, position in fetcher.positions.items() if position >= until[key]]:
                del fetcher.positions[where]

    def _tell_gap(self, where: TopicPartition, position: int, resumed: int) -> None:
        self._on_gap(where, position, resumed)
        if resumed < position:
            self._on_remark(
                f"partition {where.partition} ends before offset {position}: the topic was deleted and created again; "
                f"continuing at offset {resumed}"
            )
        else:
            self._on_remark(
                f"partition {where.partition}: the records at offsets {position} to {resumed - 1} were deleted"
            )

    def last(
        self, partitions: list[TopicPartition], count: int
    ) -> tuple[list[Found], dict[TopicPartition, int]]:
        """Returns the last ``count`` records of all partitions together, sorted by timestamp, and the end offset of
        each partition. Reads further back where compaction has left gaps."""
        ends = ends_of(self._cluster, partitions)
        if count == 0:
            return [], {key: each.end_offset for key, each in ends.items()}
        span = count
        while True:
            found = self._last_offsets(ends, span, count)
            if len(found) >= count or all(span >= each.span for each in ends.values()):
                return found, {key: each.end_offset for key, each in ends.items()}
            span *= 4

    def _last_offsets(self, ends: dict[TopicPartition, Ends], span: int, count: int) -> list[Found]:
        begin = {key: max(each.start_offset, each.end_offset - span) for key, each in ends.items()}
        until = {key: each.end_offset for key, each in ends.items()}
        found = (each for each in self.records(begin, until) if each is not None)
        return sorted(nlargest(count, found, key=_by_time), key=_by_time)


def _is_open(positions: dict[TopicPartition, int], until: dict[TopicPartition, int] | None) -> bool:
    return until is None or any(position < until[key] for key, position in positions.items())


def _by_time(found: Found) -> tuple[int, int, TopicPartition]:
    where, record = found
    return record.timestamp_ms, record.offset, where
