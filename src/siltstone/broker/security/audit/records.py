"""What a DeleteRecords has deleted, by topic: from which offset to which its partitions lost their records.

Kafka Streams deletes records each half minute, and any client may as often as it likes. So such events are gathered,
as commits of offsets are.
"""

from collections.abc import Iterator, Mapping

from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import AnswerInPieces, EncodedBody
from siltstone.kafka_protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from siltstone.kafka_protocol.notation import Message
from siltstone.model.audit import (
    NAME_CHARACTERS,
    AuditEvent,
    AuditKind,
    shortened,
    shown_offsets,
)

Starts = Mapping[tuple[str, int], int]
"""Topic and partition → its first offset."""


def log_starts(parts: BrokerParts, request: DeleteRecordsRequest) -> Starts:
    """Returns where the partitions begin that the request names and that this node has open."""
    found: dict[tuple[str, int], int] = {}
    for asked in request.topics:
        if (topic := parts.topics.by_name(asked.name)) is None:
            continue
        for each in asked.partitions:
            partition = parts.partitions.opened(topic.id, each.partition_index)
            if partition is not None:
                found[asked.name, each.partition_index] = partition.log_start_offset
    return found


def deletion_events(response: Message | EncodedBody | AnswerInPieces, before: Starts) -> Iterator[AuditEvent]:
    """Yields what the answer to a DeleteRecords says. A partition that has lost nothing is not named."""
    assert isinstance(response, DeleteRecordsResponse)
    for topic in response.topics:
        after = {
            (topic.name, row.partition_index): row.low_watermark
            for row in topic.partitions
            if not row.error_code and row.low_watermark > before.get((topic.name, row.partition_index), 0)
        }
        if after:
            yield AuditEvent(
                event=AuditKind.RECORDS,
                operation="DELETE",
                resource=shortened(f"topic {topic.name}", NAME_CHARACTERS),
                before=shown_offsets({key: before[key] for key in after if key in before}),
                after=shown_offsets(after),
            )
