"""Reads a topic as a member of a share group, prints its records, and accepts exactly what was printed.

Records are acquired, written to stdout together, and accepted: in this order. What was acquired and not printed is
released, so another member gets it at once. A record can be printed twice only if the process is killed between the
two, or if its lock time was over.
"""

from collections.abc import Callable

from siltstone.cli.consume.consuming import ConsumeSettings
from siltstone.cli.consume.held_signals import HeldSignals
from siltstone.cli.tail.filters import told_apart
from siltstone.cli.tail.formats import Writer
from siltstone.cli.tail.sink import Sink
from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.following import FETCH_WAIT_MS, BrokerOutage
from siltstone.kafka_client.share_member import RECORDS_AT_ONCE, Found, SharingMember
from siltstone.model.errors import SiltstoneError


class ShareConsuming:
    """``run`` returns when the limit is reached, and raises KeyboardInterrupt after a signal, when all that was printed
    is accepted."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumeSettings,
        write: Writer,
        signals: HeldSignals,
        on_remark: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._write = write
        self._signals = signals
        self._on_remark = on_remark
        self._member = SharingMember(cluster, settings.group_id, settings.topic)
        self._sink = Sink()
        self._left = settings.limit
        self.records_read = 0
        """The number of records that were read, shown or not."""

    def run(self) -> None:
        """Raises KeyboardInterrupt, ReaderGone, KafkaRefusal, and Unavailable after a minute without the broker."""
        try:
            outage = BrokerOutage(self._cluster, self._on_remark)
            while self._left != 0:
                with outage.survived():
                    self._print(self._member.fetch(FETCH_WAIT_MS, self._at_once()))
        except KeyboardInterrupt:
            self._cluster.reconnect()  # a request may have been interrupted before its answer
            raise
        finally:
            self._finish()

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

    def _finish(self) -> None:
        with self._signals.held():
            try:
                self._member.leave()
            except SiltstoneError:
                return  # its sessions end with the connection, and what it holds is available again
