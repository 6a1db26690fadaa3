"""What the tests of Fetch share."""

from siltstone.kafka_protocol.messages.fetch import FetchRequest, FetchResponse
from support.kafka.kafka_requests import (
    batch_of,
    produce_request,
)
from support.kafka.message_versions import versions_with_own_layout

VERSIONS = versions_with_own_layout(FetchRequest, FetchResponse)


LEADER_EPOCHS, SESSIONS = 9, 7


async def filled(world, partitions=1, batches=1, records=1):
    """A topic with so many batches of SIZE bytes, if of one record, in each partition."""
    topic = await world.topic(partitions=partitions)
    for _ in range(batches):
        sent = [batch_of(records, value_bytes=100) for _ in range(partitions)]
        await world.client().ask(produce_request(topic, *sent))
    return topic
