"""What another retention time would save: the segments that retention would trim then and not now.
Pure."""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from siltstone.costing.estimate import CostPrices
from siltstone.maintenance.retention.groups import bound_of
from siltstone.maintenance.retention.planning import walk
from siltstone.metadata.image import MetadataImage
from siltstone.model.limits import GIB
from siltstone.offline.topic_streams import Role, TopicStream, topic_defaults
from siltstone.topic_configs.table import stored_topic_config


class RetentionSaving(msgspec.Struct, frozen=True):
    """``retention_ms`` is the topic's present time; below 0: for ever. ``saved_bytes`` counts one copy, and ``saved``
    is their price for a month."""

    topic: str
    retention_ms: int
    saved_bytes: int
    saved: float


def retention_savings(
    image: MetadataImage, retention_ms: int, now_ms: int, prices: CostPrices
) -> list[RetentionSaving]:
    """Returns what a retention time of ``retention_ms`` would save in each topic whose records are deleted by age, the
    largest saving first. A time that is not shorter than the present one saves nothing."""
    found = list(_savings(image, retention_ms, now_ms, prices))
    found.sort(key=lambda each: (-each.saved_bytes, each.topic))
    return found


def _savings(
    image: MetadataImage, retention_ms: int, now_ms: int, prices: CostPrices
) -> Iterator[RetentionSaving]:
    defaults = topic_defaults(image)
    limit = bound_of(image)
    for topic in image.topics.values():
        config = stored_topic_config(topic.configs, defaults)
        if not config.is_deleted_by_age:
            continue
        shorter = replace(config, retention_ms=retention_ms)
        saved_bytes = 0
        if config.retention_ms < 0 or retention_ms < config.retention_ms:
            for number, partition in enumerate(topic.partitions):
                if (stream := image.streams.get(partition.data_stream_id)) is None:
                    continue
                held = TopicStream(stream.stream_id, topic, number, Role.BATCHES, config)
                bound = limit(held)
                saved_bytes += (
                    walk(stream, image.objects, shorter, now_ms, bound).size_bytes
                    - walk(stream, image.objects, config, now_ms, bound).size_bytes
                )
        price = saved_bytes / GIB * prices.storage_per_gib
        yield RetentionSaving(topic.name, config.retention_ms, saved_bytes, price)
