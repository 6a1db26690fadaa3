"""A member of a share group that asks a broker by messages, in a session of one connection."""

from collections.abc import Sequence
from typing import Any

from siltstone.broker.deliveries.progress import ShareProgress
from siltstone.broker.group_configs import key_of_group, written_group_configs
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from siltstone.kafka_protocol.messages.share_fetch import (
    PiggybackAcknowledgement,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
)
from siltstone.metadata.commands import PutKey
from support.broker.broker_world import BrokerWorld
from support.kafka.kafka_requests import batch_of, produce_request

SHARES = "workers"
LOCK_MS = 30_000
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
Ranges = list[tuple[int, int, int]]
"""First offset, last offset, delivery count."""


async def shared_topic(world: BrokerWorld, records: int = 0, **configs: str) -> Topic:
    """A topic with records, which the group reads from its beginning."""
    dotted = {"share.auto.offset.reset": "earliest"}
    dotted |= {f"share.{name.replace('_', '.')}": value for name, value in configs.items()}
    await world.parts.metadata.execute(
        PutKey(key_of_group(SHARES), written_group_configs(dotted), overwrite=True)
    )
    topic = await world.topic()
    if records:
        await send(world, topic, records)
    return topic


async def begins_at(node: Any, reset: str) -> None:
    """The group begins so in each partition."""
    stored = written_group_configs({"share.auto.offset.reset": reset})
    await node.parts.metadata.execute(PutKey(key_of_group(SHARES), stored, overwrite=True))


async def send(world: Any, topic: Topic, records: int) -> None:
    (row,) = (await world.client().ask(produce_request(topic, batch_of(records)))).topics[0].partitions
    assert row.error_code == 0


def progress_of(world: BrokerWorld, topic: Topic) -> ShareProgress:
    known = world.opened(topic).shares.get(SHARES)
    assert known is not None
    return known.progress


class ShareClient:
    """``told``: the last answer."""

    def __init__(self, world: Any, topic: Topic, member_id: str = "m", group: str = SHARES) -> None:
        self._topic, self._group = topic, group
        self.member_id, self.epoch = member_id, 0
        self.client = world.client()
        self.told: Any = None

    def request(self, *acknowledged: tuple[int, int, Sequence[int]], **fields: Any) -> ShareFetchRequest:
        batches = [
            PiggybackAcknowledgement(first_offset=first, last_offset=last, acknowledge_types=list(types))
            for first, last, types in acknowledged
        ]
        partition = ShareFetchPartition(index=0, acknowledgement_batches=batches)
        topics = [ShareFetchTopic(topic_id=self._topic.topic_id, partitions=[partition])]
        chosen = {"share_session_epoch": self.epoch, "max_records": 500, "topics": topics} | fields
        return ShareFetchRequest(group_id=self._group, member_id=self.member_id, **chosen)

    async def fetch(self, *acknowledged: tuple[int, int, Sequence[int]], **fields: Any) -> Ranges:
        """Returns what was acquired."""
        self.told = await self.client.ask(self.request(*acknowledged, **fields))
        if self.told.error_code == 0:
            self.epoch += 1
        return ranges_of(self.told)

    async def acknowledge(
        self, *acknowledged: tuple[int, int, Sequence[int]], epoch: int | None = None
    ) -> int:
        """Returns the code of the answer, or of the partition."""
        batches = [
            AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
            for first, last, types in acknowledged
        ]
        partition = AcknowledgePartition(index=0, acknowledgement_batches=batches)
        topics = [AcknowledgeTopic(topic_id=self._topic.topic_id, partitions=[partition])]
        self.told = await self.client.ask(
            ShareAcknowledgeRequest(
                group_id=self._group,
                member_id=self.member_id,
                share_session_epoch=self.epoch if epoch is None else epoch,
                topics=topics,
            )
        )
        if self.told.error_code:
            return int(self.told.error_code)
        self.epoch += 1
        return int(self.told.topics[0].partitions[0].error_code)


def ranges_of(answer: Any) -> Ranges:
    return [
        (each.first_offset, each.last_offset, each.delivery_count)
        for topic in answer.topics
        for partition in topic.partitions
        for each in partition.acquired_records
    ]


def code_of(answer: Any) -> tuple[int, int]:
    """Returns the code of the fetch and that of the acknowledgement of the only partition."""
    (partition,) = answer.topics[0].partitions
    return partition.error_code, partition.acknowledge_error_code
