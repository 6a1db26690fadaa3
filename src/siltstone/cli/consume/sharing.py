"""Reads a topic as a member of a share group, prints its records, and accepts exactly what was printed.

Records are acquired, written to stdout together, and accepted: in this order. What was acquired and not printed is
released, so another member gets it at once. A record can be printed twice only if the process is killed between the
two, or if its lock time was over.
"""

from siltstone.cli.consume.run import ConsumeParts, ConsumeRun
from siltstone.cli.tail.filters import told_apart
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.following import FETCH_WAIT_MS, BrokerOutage
from siltstone.kafka_client.share_member import RECORDS_AT_ONCE, Found, SharingMember


class ShareConsuming(ConsumeRun):
    """Reads as a member of a share group."""

    def __init__(self, parts: ConsumeParts) -> None:
        super().__init__(parts)
        self._member = SharingMember(self._cluster, self._settings.group_id, self._settings.topic)

    def _read(self) -> None:
        outage = BrokerOutage(self._cluster, self._on_remark)
        while self._left != 0:
            with outage.survived():
                self._print(self._member.fetch(FETCH_WAIT_MS, self._at_once()))

    def _settle(self) -> None:
        """What was printed is accepted already."""

    def _leave(self) -> None:
        self._member.leave()

    def _at_once(self) -> int:
        return RECORDS_AT_ONCE if self._left is None else min(self._left, RECORDS_AT_ONCE)

    def _print(self, fetched: list[Found]) -> None:
        if not fetched:
            return
        lines: list[bytes] = []
        printed: dict[TopicPartition, list[int]] = {}
        for found, is_shown in told_apart(iter(fetched), self._settings.matches):
            if found is None:
                continue
            if self._left == 0:
                break
            where, record = found
            printed.setdefault(where, []).append(record.offset)
            if is_shown:
                lines.append(self._write(where, record))
                self._left = None if self._left is None else self._left - 1
        with self._signals.held():
            self._sink.write(b"".join(lines))
            self._sink.flush()
            self.records_read += sum(map(len, printed.values()))
            self._member.acknowledge(printed)
