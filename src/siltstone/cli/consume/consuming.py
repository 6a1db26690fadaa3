"""Reads a topic as a member of a group, prints its records, and commits exactly what was printed.

Records are gathered, written to stdout together, noted as printed, and committed: in this order, once a second, and at
the end. So a record is committed only after it was printed. A record can be printed twice only if a commit was refused
because the group had lost this member, or if the process is killed before it commits.
"""

from collections.abc import Collection
from contextlib import suppress

from siltstone.cli.consume.run import ConsumeParts, ConsumeRun
from siltstone.cli.tail.filters import told_apart
from siltstone.cli.tail.sink import GATHERED_BYTES
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.consuming import Fetcher
from siltstone.kafka_client.coordinated_member import CoordinatedMember
from siltstone.kafka_client.following import FETCH_WAIT_MS, BrokerOutage
from siltstone.kafka_client.groups import committed_offsets
from siltstone.kafka_client.membership import GroupMember, NotCurrent
from siltstone.kafka_client.offsets import READ_COMMITTED, ends_of
from siltstone.model.errors import SiltstoneError

COMMIT_INTERVAL_MS = 1_000
"""What may be printed twice after a kill; Kafka's clients commit every 5 s."""


class GroupConsuming(ConsumeRun):
    """Reads as a member of a consumer group of either protocol."""

    def __init__(self, parts: ConsumeParts) -> None:
        super().__init__(parts)
        join = CoordinatedMember if self._settings.is_coordinated else GroupMember
        self._member: CoordinatedMember | GroupMember = join(
            self._cluster, self._settings.group_id, self._settings.topic
        )
        self._lines: list[bytes] = []
        self._lines_bytes = 0
        self._gathered: dict[TopicPartition, int] = {}
        self._printed: dict[TopicPartition, int] = {}
        self._next: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._fetcher: Fetcher | None = None
        self._committed_ms = 0.0

    def _read(self) -> None:
        try:
            self._read_to_the_end()
            self._print()
        except SiltstoneError:
            self._print()
            raise

    def _settle(self) -> None:
        self._commit()

    def _leave(self) -> None:
        self._member.leave()

    # -- reading

    def _read_to_the_end(self) -> None:
        outage = BrokerOutage(self._cluster, self._on_remark)
        while not self._is_done():
            with outage.survived():
                try:
                    self._read_once()
                except NotCurrent:
                    self._fetcher = None

    def _is_done(self) -> bool:
        if self._left == 0:
            return True
        if not self._settings.until_end or self._fetcher is None:
            return False
        return all(position >= self._ends[key] for key, position in self._fetcher.positions.items())

    def _read_once(self) -> None:
        if self._fetcher is None:
            self._join()
            return
        if not self._fetcher.positions:
            self._cluster.clock.block_ms(FETCH_WAIT_MS)
        is_current = self._member.is_current()
        fetched = self._fetcher.fetch(FETCH_WAIT_MS) if is_current else ()
        for found, is_shown in told_apart(fetched, self._settings.matches):
            if found is None:
                continue
            where, record = found
            self.records_read += 1
            self._gather(where, record.offset, self._write(where, record) if is_shown else None)
            if self._left == 0:
                break
            if self._lines_bytes >= GATHERED_BYTES:
                self._print()
                self._commit_in_time()
                is_current = self._member.is_current()
                if not is_current:
                    break
        self._print()
        self._commit_in_time()
        if not is_current:
            self._commit()
            self._fetcher = None

    def _join(self) -> None:
        with suppress(NotCurrent):
            self._commit()
        assigned = self._member.join()
        positions = self._beginnings(assigned)
        self._forget_lost(assigned)
        if not positions:
            self._on_remark(
                f"the other members of group {self._settings.group_id} have all partitions; waiting"
            )
        self._next = positions
        self._fetcher = Fetcher(self._cluster, positions, self._say_gap, READ_COMMITTED)

    def _beginnings(self, keys: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns where to continue in each partition: where the group is, but not before what this process has
        printed."""
        group_id = self._settings.group_id
        committed = committed_offsets(self._cluster, [group_id])[group_id] if keys else {}
        ends = ends_of(self._cluster, keys, READ_COMMITTED) if keys else {}
        self._ends = {key: found.end_offset for key, found in ends.items()}
        beginnings: dict[TopicPartition, int] = {}
        for key in keys:
            first = ends[key].start_offset if self._settings.from_beginning else ends[key].end_offset
            known = [offsets[key] for offsets in (committed, self._next) if key in offsets]
            beginnings[key] = max(known) if known else first
        return beginnings

    def _forget_lost(self, assigned: Collection[TopicPartition]) -> None:
        """Drops the printed offsets of partitions that another member has now, since this member can no longer commit
        them."""
        for key in self._printed.keys() - set(assigned):
            del self._printed[key]
            self._on_remark(
                f"partition {key.partition} went to another member before the last printed records were committed: it "
                "will print them again"
            )

    def _say_gap(self, where: TopicPartition, position: int, resumed: int) -> None:
        self._on_remark(
            f"partition {where.partition} has no record at offset {position}: continuing at offset {resumed}"
        )

    # -- printing and committing

    def _gather(self, where: TopicPartition, offset: int, line: bytes | None) -> None:
        """``line``: None for a record that is not shown; it counts as printed with the lines before it."""
        self._gathered[where] = offset + 1
        if line is None:
            return
        self._lines.append(line)
        self._lines_bytes += len(line)
        if self._left is not None:
            self._left -= 1

    def _print(self) -> None:
        """Writes what is gathered. Raises ReaderGone, also when there is nothing to write; then nothing of it counts
        as printed."""
        with self._signals.held():
            lines, self._lines, self._lines_bytes = self._lines, [], 0
            gathered, self._gathered = self._gathered, {}
            self._sink.write(b"".join(lines))
            self._sink.flush()
            self._printed |= gathered
            self._next |= gathered

    def _commit_in_time(self) -> None:
        now_ms = self._cluster.clock.monotonic_ms()
        if now_ms - self._committed_ms >= COMMIT_INTERVAL_MS:
            self._commit()
            self._committed_ms = now_ms

    def _commit(self) -> None:
        """Commits what was printed. Raises NotCurrent if the group has lost this member."""
        if self._printed:
            printed = self._printed
            self._member.commit(printed)
            self._printed = {}
