"""The live state written anew at the log's end, so that what lies before it can go.

It is written a thousand records at a time while everything goes on, and is right all the same: a key's record here
holds what the key holds when it is written; whatever changes later comes later in the log; what was removed before
has its tombstone after ``start`` or, removed before that, no record at all.
"""

from collections.abc import Iterator, Mapping

from siltstone.broker.groups.cell import GroupCell
from siltstone.broker.groups.log_port import GroupLog
from siltstone.broker.groups.log_writer import LogWriter
from siltstone.broker.groups.offsets_log.record import EncodedRecord, encode_record

RECORDS_PER_STEP = 1_000
"""A few milliseconds of the event loop, and as many records of memory."""


async def write_checkpoint(cells: Mapping[str, GroupCell], writer: LogWriter, log: GroupLog) -> bool:
    """``cells`` change while it runs. False: an append failed, and nothing was trimmed. Raises what trimming raises."""
    start_offset = log.next_offset
    step: list[EncodedRecord] = []
    for record in _live_records(cells):
        step.append(record)
        if len(step) == RECORDS_PER_STEP:
            writer.add(step)
            step = []
            if await writer.flushed() is not True:
                return False
    writer.add(step)
    if await writer.flushed() is not True:
        return False
    await log.trim_before(start_offset)
    return True


def _live_records(cells: Mapping[str, GroupCell]) -> Iterator[EncodedRecord]:
    """Each as it is when it is asked for."""
    for group_id in list(cells):
        cell = cells.get(group_id)
        if cell is None:
            continue
        group = cell.record_of_group()
        if group is not None:
            yield encode_record(group)
        for topic_partition in list(cell.offsets):
            offset = cell.record_of_offset(topic_partition)
            if offset is not None:
                yield encode_record(offset)
