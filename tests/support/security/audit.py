"""The audit in tests: what its topic has, as plain values."""

from typing import Any

import msgspec

from siltstone.broker.parts import BrokerParts
from siltstone.kafka_protocol.records.reading import iterate_records
from siltstone.model.audit import AUDIT_TOPIC

WHO = ("principal", "host", "listener", "api")
CHANGED = ("event", "operation", "resource", "before", "after")


async def audited(*nodes: BrokerParts) -> list[dict[str, Any]]:
    """Returns the records of the partitions that these nodes have open, in the order of their times."""
    found = []
    for parts in nodes:
        topic = parts.topics.by_name(AUDIT_TOPIC)
        for index in range(0 if topic is None else topic.partition_count):
            assert topic is not None
            partition = parts.partitions.opened(topic.id, index)
            if partition is None or partition.next_offset == partition.log_start_offset:
                continue
            for batch in await partition.read(partition.log_start_offset, 2**30):
                for record in iterate_records(batch.payload):
                    assert record.value is not None
                    found.append(msgspec.json.decode(bytes(record.value)))
    return sorted(found, key=lambda record: record["time"])


def fields_of(record: dict[str, Any], names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(record.get(name, "") for name in names)
