"""A cluster in which one broker leads everything while records flow, for what evens it out."""

from collections.abc import Iterator
from contextlib import contextmanager

from siltstone.metadata.commands import MovePartitions
from siltstone.metadata.image import MetadataImage
from siltstone.offline.opening.store import open_store
from siltstone.server.embedded import Broker
from siltstone.server.settings.node import load_node_settings
from support.broker.cluster_clients import Sending, until

PARTITIONS = 6


def image_of(broker: Broker) -> MetadataImage:
    with open_store(load_node_settings(broker.folder, environment={})) as store:
        return store.metadata.image


def leaders(broker: Broker) -> list[int]:
    """Returns the leader of each partition of topic t."""
    image = image_of(broker)
    return [each.leader for each in image.topics[image.topic_ids["t"]].partitions]


@contextmanager
def one_sided_cluster() -> Iterator[tuple[Broker, Sending]]:
    """Three brokers, of which the first leads all partitions of topic t, and a producer that sends to them."""
    with Broker(nodes=3) as broker:
        broker.create_topic("t", partitions=PARTITIONS)
        sending = Sending(broker.bootstrap_servers, "t", PARTITIONS)
        until(lambda: sending.answered > 100, "answers")
        with open_store(load_node_settings(broker.folder, environment={})) as store:
            topic_id = store.metadata.image.topic_ids["t"]
            store.metadata.execute(MovePartitions(tuple((topic_id, index, 0) for index in range(PARTITIONS))))
        until(lambda: set(leaders(broker)) == {0}, "the moves")
        yield broker, sending
