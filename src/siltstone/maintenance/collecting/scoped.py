"""Which objects a run by topic looks at: those that hold something of one of its topics, dead or alive."""

from siltstone.maintenance.pipeline.scope import Scope
from siltstone.maintenance.topic_streams import topic_streams
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import MetadataImage

Topics = dict[int, str]
"""The topic's name by stream id."""


def names_of_topics(image: MetadataImage, scope: Scope) -> Topics:
    """Empty when everything is looked at."""
    if scope.topics is None:
        return {}
    return {stream_id: each.topic.name for stream_id, each in topic_streams(image).items()}


def in_scope(metadata: ObjectMetadata, topics: Topics, scope: Scope) -> bool:
    return scope.topics is None or any(scope.includes(topics.get(held.stream_id)) for held in metadata.ranges)
