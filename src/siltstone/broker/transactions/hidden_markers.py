"""Ends the transactions whose markers are lost to damage.

Readers of committed records wait for the marker of a transaction. If the object with the marker is damaged, and the
partition is opened again, the transaction looks open, and nobody writes another marker: its coordinator takes it for
complete. So the leader of the partition asks the coordinator about two kinds of open transactions:

- transactions that were open where batches of the log could not be read (``PartitionTransactions.damaged``);
- transactions that got no batch for longer than any transaction may last: an earlier leader may have met the damage.

A transaction that is under way gets its marker. One that is not is aborted here: its outcome cannot be known any more,
and readers may be shown less than was committed, never what was aborted. The log and a metric report it.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from siltstone.broker.partitions.partition import Partition
from siltstone.broker.partitions.partitions import PartitionKey, Partitions
from siltstone.broker.partitions.transaction_state import TransactionEnding
from siltstone.broker.transactions.ports import MarkerSink
from siltstone.broker.transactions.rules.requests import JoinedTransaction
from siltstone.broker.transactions.state_log.record import TopicPartition
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.records.control import Outcome, TransactionMarker
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import TRANSACTION_HANGS_AFTER_MS
from siltstone.model.serving_limits import HIDDEN_MARKER_CHECK_INTERVAL_MS
from siltstone.object_formats.partition_snapshot import ProducerEntry
from siltstone.runtime.clock import Clock
from siltstone.runtime.log_limit import LogLimit
from siltstone.runtime.turns import one_by_one

log = logging.getLogger(__name__)

OpenOf: TypeAlias = Callable[[int, TopicPartition], Awaitable[JoinedTransaction | ErrorCode]]


class HiddenMarkers:
    """``name_of``: topic id → name, None if the topic is deleted. ``open_of``: see ``Transactions.open_anywhere``.
    ``timeout_ms_max``: the longest time-out of a transaction."""

    def __init__(
        self,
        partitions: Partitions,
        name_of: Callable[[str], str | None],
        open_of: OpenOf,
        markers: MarkerSink,
        clock: Clock,
        timeout_ms_max: int,
    ) -> None:
        self._partitions = partitions
        self._name_of = name_of
        self._open_of = open_of
        self._markers = markers
        self._clock = clock
        self._silent_ms_max = timeout_ms_max + TRANSACTION_HANGS_AFTER_MS
        self._limit = LogLimit(clock)
        self.aborted = 0
        """Transactions that were aborted here since the start."""

    async def watch(self) -> None:
        """Runs for ever."""
        while True:
            await self._clock.sleep_ms(HIDDEN_MARKER_CHECK_INTERVAL_MS)
            await one_by_one(self._look, self._partitions.all_opened())

    async def _look(self, opened: tuple[PartitionKey, Partition]) -> None:
        (topic_id, index), partition = opened
        silent_since_ms = self._clock.now_ms() - self._silent_ms_max
        for entry in partition.transactions.in_doubt(silent_since_ms):
            name = self._name_of(topic_id)
            if name is None or partition.is_closed:
                return
            try:
                await self._ask(partition, (name, index), entry)
            except SiltstoneError as trouble:
                if self._limit.is_due((name, index)):
                    log.warning(
                        "the transaction of producer %d in %s-%d, whose marker cannot be read, stays open for now: %s",
                        entry.producer_id, name, index, trouble,
                    )  # fmt: skip

    async def _ask(self, partition: Partition, place: TopicPartition, entry: ProducerEntry) -> None:
        """Raises what ``MarkerSink.end`` raises."""
        found = await self._open_of(entry.producer_id, place)
        if _is_other(entry, partition.producers.get(entry.producer_id)) or partition.is_closed:
            return
        if isinstance(found, JoinedTransaction) and place in found.partitions:
            partition.transactions.number_is(entry.producer_id, found.number, found.coordinator_epoch)
            partition.transactions.is_under_way(entry.producer_id)
            return
        if isinstance(found, ErrorCode) and found is not ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            return  # the coordinator does not know now, and is asked again
        marker = TransactionMarker(Outcome.ABORT, entry.coordinator_epoch)
        await self._markers.end(place, TransactionEnding(entry.producer_id, entry.epoch, marker))
        self.aborted += 1
        log.error(
            "%s-%d: the transaction of producer %d from offset %d on has no marker that can be read, and its "
            "coordinator has ended it: it is aborted here. Readers of committed records do not get it, even if it was "
            "committed; readers of uncommitted records do. Run siltstone check",
            *place, entry.producer_id, entry.open_from,
        )  # fmt: skip


def _is_other(asked: ProducerEntry, now: ProducerEntry | None) -> bool:
    """Whether the transaction has its marker meanwhile, or has got another batch: then it is under way."""
    return now is None or (now.open_from, now.epoch, now.batches) != (
        asked.open_from,
        asked.epoch,
        asked.batches,
    )
