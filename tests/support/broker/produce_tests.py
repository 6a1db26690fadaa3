"""What the tests of Produce share."""

from siltstone.kafka_protocol.error_code import ErrorCode
from support.kafka.kafka_requests import (
    rows_of,
)


def codes(response) -> list[ErrorCode]:
    return [ErrorCode(row.error_code) for row in rows_of(response)]


async def stored(world, topic, index=0) -> int:
    """How many records there are."""
    return (await world.partition(topic, index)).high_watermark


SWEEP_MS = 1_000
