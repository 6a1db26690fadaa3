"""Transactions written into a partition as a coordinator and its producer would, without either."""

from siltstone.broker.partitions.admission import Admitted
from siltstone.broker.partitions.partition import Appended, Partition
from siltstone.broker.partitions.transaction_state import TransactionEnding, TransactionPermission
from siltstone.kafka_protocol.batch_header import TRANSACTIONAL_BIT, read_batch_header
from siltstone.kafka_protocol.records.control import Outcome, TransactionMarker
from support.kafka.kafka_requests import NOW_MS, batch_of

PID, OTHER_PID = 9, 10
COORDINATOR_EPOCH = 3


class OpenProducer:
    """A producer of transaction version 2: each end raises its epoch."""

    def __init__(self, partition: Partition, producer_id: int = PID) -> None:
        self.partition = partition
        self.producer_id = producer_id
        self.epoch = self.sequence = 0

    def begin(self, count: int = 1, timestamp_ms: int = NOW_MS) -> Appended:
        """Appends a batch to the transaction, which it begins if none is open."""
        batch = batch_of(
            count, timestamp_ms=timestamp_ms, producer_id=self.producer_id, producer_epoch=self.epoch,
            base_sequence=self.sequence, attributes=TRANSACTIONAL_BIT,
        )  # fmt: skip
        self.sequence += count
        admitted = Admitted(batch, read_batch_header(batch), -1)
        return self.partition.append_admitted(admitted, TransactionPermission(100 + self.epoch, True))

    async def send(self, count: int = 1, timestamp_ms: int = NOW_MS) -> int:
        appended = self.begin(count, timestamp_ms)
        assert appended.durable is not None
        await appended.durable
        return appended.base_offset

    async def end(self, outcome: Outcome) -> None:
        number = 100 + self.epoch
        self.epoch, self.sequence = self.epoch + 1, 0
        marker = TransactionMarker(outcome, COORDINATOR_EPOCH)
        durable = self.partition.append_marker(
            TransactionEnding(self.producer_id, self.epoch, marker, True, number)
        )
        assert durable is not None
        await durable


async def plain(partition: Partition, count: int = 1, timestamp_ms: int = NOW_MS) -> None:
    batch = batch_of(count, timestamp_ms=timestamp_ms)
    appended = partition.append_admitted(Admitted(batch, read_batch_header(batch), -1))
    assert appended.durable is not None
    await appended.durable
