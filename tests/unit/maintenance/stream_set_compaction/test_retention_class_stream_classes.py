from siltstone.maintenance.stream_set_compaction.retention_class import RetentionClass, stream_classes
from siltstone.metadata.commands import CreateStream, CreateTopic
from support.maintenance.compaction_world import CompactionWorld

K = RetentionClass


def test_batches_by_their_topic_snapshots_of_none(world: CompactionWorld) -> None:
    alone = world.metadata.execute(CreateStream(0, 1))
    short = world.metadata.execute(CreateTopic(0, 1, "short", "0" * 32, 1, configs={"retention.ms": "1000"}))
    keyed = world.metadata.execute(
        CreateTopic(0, 1, "keyed", "1" * 32, 1, configs={"cleanup.policy": "compact"})
    )
    assert stream_classes(world.metadata.image) == {
        short.partitions[0].data_stream_id: K.MINUTES,
        short.partitions[0].meta_stream_id: K.NONE,
        keyed.partitions[0].data_stream_id: K.COMPACTED,
        keyed.partitions[0].meta_stream_id: K.NONE,
    }
    assert alone not in stream_classes(world.metadata.image)
