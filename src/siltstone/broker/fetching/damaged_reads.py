"""Reads a partition for a fetch, and decides what happens where an object is damaged or missing.

A fetch that begins before the damage returns the batches before it. One that begins at the damage is refused, or, if
the topic is configured with ``siltstone.damaged.read=skip``, returns the batches behind the damage. Each fetch reads
the damaged object anew, so an object that was restored is read at once.

A fetch passes a limited number of damaged places. Where there are more, it returns nothing, and the next fetch of the
same offset continues where it ended: ``DamagedReads`` remembers that.
"""

from collections import OrderedDict

from siltstone.broker.error_codes import error_code
from siltstone.broker.fetching.wanted import WantedPartition
from siltstone.broker.partitions.damage import DamageReport
from siltstone.broker.partitions.partition import Partition
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import SiltstoneError
from siltstone.model.record_batch import RecordBatch
from siltstone.stream_engine.errors import DamagedRange, ReadRangeNotCovered

DAMAGE_PASSED_PER_FETCH_MAX = 100
"""The most damaged places that one fetch passes, each with a few requests to the bucket: that takes a second or two,
far less than the time limit of a client's request."""

FETCHES_REMEMBERED_MAX = 1_000
"""The most fetches that are to continue behind damage; the oldest are forgotten and begin anew."""


class DamagedReads:
    """Of one broker. Belongs to one event loop."""

    def __init__(self, report: DamageReport) -> None:
        self._report = report
        self._passed: OrderedDict[tuple[int, int], int] = OrderedDict()

    async def read(self, partition: Partition, wanted: WantedPartition, bytes_max: int) -> list[RecordBatch]:
        """See Partition.read; with ``skip``, the first batch may begin behind ``fetch_offset``, and the list may be
        empty before the end. Reports failures. Raises DamagedRange unless the topic skips damage."""
        assert wanted.topic is not None
        name = f"{wanted.topic.name}-{wanted.index}"
        try:
            return await partition.read(wanted.fetch_offset, bytes_max)
        except DamagedRange as damage:
            if not wanted.topic.config.skips_damage:
                self._report.refused(name, damage)
                raise
            return await self._read_behind(damage, name, partition, wanted.fetch_offset, bytes_max)
        except SiltstoneError as trouble:
            self.failed(wanted, trouble)
            raise

    def failed(self, wanted: WantedPartition, trouble: SiltstoneError) -> None:
        """Logs that the partition could not be opened or read, if the client receives an error that it retries."""
        may_pass = error_code(trouble) is ErrorCode.KAFKA_STORAGE_ERROR
        if wanted.topic is not None and (may_pass or isinstance(trouble, ReadRangeNotCovered)):
            self._report.failed(f"{wanted.topic.name}-{wanted.index}", trouble)

    async def _read_behind(
        self, damage: DamagedRange, name: str, partition: Partition, fetch_offset: int, bytes_max: int
    ) -> list[RecordBatch]:
        key = (partition.stream_id, fetch_offset)
        resumed = self._passed.pop(key, 0)
        skipped = 0
        for _ in range(DAMAGE_PASSED_PER_FETCH_MAX):
            self._report.skipping(name, damage)
            offset = max(damage.end_offset, resumed)
            skipped += offset - damage.start_offset
            try:
                batches = await partition.read(offset, bytes_max)
            except DamagedRange as further:
                damage = further
            else:
                if batches:
                    self._report.continued(skipped)
                return batches
        self._passed[key] = damage.start_offset
        if len(self._passed) > FETCHES_REMEMBERED_MAX:
            self._passed.popitem(last=False)
        return []
