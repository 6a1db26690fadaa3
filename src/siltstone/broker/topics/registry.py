"""Holds the topics that exist, as the current metadata image has them, with their configurations as values.

A look-up costs two dictionary reads while no topic is created, altered or deleted: the image changes with every upload,
but its map of topics does not. An unchanged topic stays the same object, so other modules may compare and cache it.
"""

from collections.abc import Mapping

import msgspec

from siltstone.metadata.entities import TopicMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.service import MetadataService
from siltstone.topic_configs.table import TopicConfig, stored_topic_config, written_defaults


class Topic(msgspec.Struct, frozen=True):
    """``id`` is the id in the metadata (32 hex digits), ``topic_id`` the same id as 16 bytes of the protocol.
    ``fragments``: version of Metadata and listener → the leaders, and the topic encoded with them."""

    name: str
    id: str
    topic_id: bytes
    metadata: TopicMetadata
    config: TopicConfig
    partition_count: int
    is_internal: bool
    fragments: dict[tuple[int, str], tuple[tuple[int, ...], bytes]] = msgspec.field(default_factory=dict)

    @property
    def created_ms(self) -> int:
        return self.metadata.created_ms


class Topics:
    def __init__(self, metadata: MetadataService, defaults: Mapping[str, str] | None = None) -> None:
        """``defaults``: configurations of topics that do not set them. Raises InvalidTopicConfig."""
        self.defaults = written_defaults(defaults or {})
        self._metadata = metadata
        self._image = metadata.image
        self._known: dict[str, Topic] = {}
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._all: tuple[Topic, ...] | None = None

    def by_name(self, name: str) -> Topic | None:
        image = self._metadata.image
        if image is not self._image:
            self._follow(image)
        topic = self._by_name.get(name)
        if topic is not None:
            return topic
        topic_id = image.topic_ids.get(name)
        return None if topic_id is None else self._found(image.topics[topic_id])

    def by_id(self, topic_id: bytes) -> Topic | None:
        """Returns the topic with that id, in the 16 bytes of the protocol."""
        image = self._metadata.image
        if image is not self._image:
            self._follow(image)
        topic = self._by_id.get(topic_id)
        if topic is not None:
            return topic
        metadata = image.topics.get(topic_id.hex())
        return None if metadata is None else self._found(metadata)

    def name_of(self, topic_id: str) -> str | None:
        """Returns the name of the topic; None if it is deleted."""
        metadata = self._metadata.image.topics.get(topic_id)
        return None if metadata is None else metadata.name

    def all(self) -> tuple[Topic, ...]:
        """Returns all topics, ordered by name: the same object while no topic changes."""
        image = self._metadata.image
        if image is not self._image:
            self._follow(image)
        if self._all is None:
            found = map(self._found, image.topics.values())
            self._all = tuple(sorted(found, key=lambda topic: topic.name))
            self._known = {topic.id: topic for topic in self._all}
        return self._all

    def of(self, metadata: TopicMetadata) -> Topic:
        """Returns the topic that ``metadata`` describes, even if it has been deleted or altered since."""
        topic = self._known.get(metadata.topic_id)
        if topic is None or topic.metadata is not metadata:
            topic = self._known[metadata.topic_id] = self._made(metadata)
        return topic

    def _follow(self, image: MetadataImage) -> None:
        if not image.topics.is_unchanged_from(self._image.topics):
            self._by_name.clear()
            self._by_id.clear()
            self._all = None
            if len(self._known) > 2 * len(image.topics):
                self._known.clear()  # most of the cached topics no longer exist
        self._image = image

    def _found(self, metadata: TopicMetadata) -> Topic:
        topic = self.of(metadata)
        self._by_name[topic.name] = self._by_id[topic.topic_id] = topic
        return topic

    def _made(self, metadata: TopicMetadata) -> Topic:
        return Topic(
            name=metadata.name,
            id=metadata.topic_id,
            topic_id=bytes.fromhex(metadata.topic_id),
            metadata=metadata,
            config=stored_topic_config(metadata.configs, self.defaults),
            partition_count=len(metadata.partitions),
            is_internal=metadata.is_internal,
        )
