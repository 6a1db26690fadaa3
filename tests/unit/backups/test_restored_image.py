"""The metadata of a restored store is that of the point, at other places, and what it lacks is named."""

from siltstone.backups.restored_image import LostOffsets, losses, restored_image
from siltstone.metadata.commands import CreateTopic, PutKey
from siltstone.metadata.entities import JobState, StreamState
from siltstone.metadata.snapshot import decode_snapshot, encode_snapshot
from siltstone.model.objects import ObjectState
from support.metadata.queried_store import queried_world


def test_streams_are_closed_and_keep_their_offsets() -> None:
    world = queried_world()
    made = restored_image(world.image, world.image)
    for stream_id, stream in world.image.streams.items():
        restored = made.streams[stream_id]
        assert restored.state is StreamState.CLOSED and stream.state is StreamState.OPENED
        assert (restored.start_offset, restored.end_offset, restored.epoch, restored.ranges) == (
            stream.start_offset,
            stream.end_offset,
            stream.epoch,
            stream.ranges,
        )


def test_only_committed_objects_are_kept_and_all_in_the_new_bucket() -> None:
    world = queried_world()
    made = restored_image(world.image, world.image)
    assert sorted(made.objects) == [0, 1, 3]
    for object_id, one in made.objects.items():
        assert one.state is ObjectState.COMMITTED and one.every_bucket_id == (0,)
        assert one.ranges == world.image.objects[object_id].ranges
    assert not made.prepared and not made.destroyed


def test_ids_continue_after_the_highest_of_the_whole_backup() -> None:
    """Else a node of the restored store would give an object a key that a copy in the backup's bucket has already."""
    world = queried_world()
    point = world.images[6]
    assert point.next_object_id < world.image.next_object_id == 5
    made = restored_image(point, world.image)
    assert (made.next_object_id, made.next_stream_id, made.next_job_id) == (
        world.image.next_object_id,
        world.image.next_stream_id,
        world.image.next_job_id,
    )


def test_what_belongs_to_the_places_and_nodes_of_the_original_is_gone() -> None:
    world = queried_world()
    for key in (
        "store/id",
        "store/bucket/0",
        "kafka/cluster-id",
        "flush/0",
        "node-address/0",
        "topic-defaults",
    ):
        world.do(PutKey(key, b"{}"))
    made = restored_image(world.image, world.image)
    assert set(made.keys) == {"node-secrets", "topic-defaults"}
    assert all(node.is_fenced and not node.is_live for node in made.nodes.values())
    assert [job.state for job in made.jobs.values()] == [JobState.FAILED]
    assert dict(made.topics) == dict(world.image.topics)


def test_it_is_an_image_that_a_snapshot_holds() -> None:
    world = queried_world()
    for version, point in enumerate(world.images):
        made = restored_image(point, world.image)
        again = decode_snapshot(version, encode_snapshot(made))
        assert dict(again.streams) == dict(made.streams) and dict(again.objects) == dict(made.objects)


def test_what_was_written_after_the_point_is_lost() -> None:
    world = queried_world()
    point = world.image
    assert losses(point, point).offset_count == 0
    assert losses(point, point).open_partitions == ("flights-0", "flights-1", "planes-0")
    world.do(world.upload((0, 30, 37)))
    world.do(CreateTopic(0, 1, "trains", "b" * 32, 1))
    lost = losses(point, world.image)
    assert lost.offsets == (LostOffsets("flights", 0, 30, 37),) and lost.offset_count == 7
    assert lost.topics == ("trains",)
    assert losses(world.images[0], point).offsets == (
        LostOffsets("flights", 0, 12, 30),
        LostOffsets("flights", 1, 0, 5),
        LostOffsets("planes", 0, 0, 7),
    )
