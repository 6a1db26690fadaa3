import msgspec

from siltstone.metadata.commands import CreateStream, PutKey
from siltstone.offline.topic_streams import (
    TOPIC_DEFAULTS_KEY,
    Role,
    put_topic_defaults,
    topic_defaults,
    topic_streams,
)
from support.maintenance.retained_store import RetainedStore


def test_streams_are_known_by_their_topics():
    store = RetainedStore()
    nobodys = store.metadata.execute(CreateStream(0, 1))
    topic = store.topic("t", 2, cleanup_policy="compact", retention_ms="5")
    found = topic_streams(store.image)
    assert nobodys not in found
    assert [(found[at].name, found[at].role) for at in sorted(found)] == [
        ("t-0", Role.BATCHES), ("t-0", Role.SNAPSHOTS), ("t-1", Role.BATCHES), ("t-1", Role.SNAPSHOTS),
    ]  # fmt: skip
    assert all(each.topic == topic and each.config.retention_ms == 5 for each in found.values())
    assert [at for at, each in found.items() if each.is_compacted] == [
        partition.data_stream_id for partition in topic.partitions
    ]


def test_what_brokers_say_of_topics_that_say_nothing():
    store = RetainedStore()
    store.topic("t", retention_ms="5")
    assert topic_defaults(store.image) == {}
    told = put_topic_defaults(store.image, {"segment.bytes": "1048576", "retention.ms": "9"})
    assert told is not None and told.key == TOPIC_DEFAULTS_KEY
    store.metadata.execute(told)
    (data, _) = topic_streams(store.image).values()
    assert (data.config.retention_ms, data.config.segment_bytes) == (5, 1 << 20)


def test_nothing_is_written_that_stands_there_already():
    store = RetainedStore()
    assert put_topic_defaults(store.image, {}) is None
    store.metadata.execute(PutKey(TOPIC_DEFAULTS_KEY, b'{"retention.ms":"9","segment.ms":"7"}'))
    assert put_topic_defaults(store.image, {"segment.ms": "7", "retention.ms": "9"}) is None
    told = put_topic_defaults(store.image, {})
    assert told is not None and told.overwrite
    assert msgspec.json.decode(told.value) == {}
