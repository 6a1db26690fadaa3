from siltstone.console.views.objects import largest_objects, objects_summary, objects_to_delete, topics_in
from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.entities import ScanPin
from siltstone.model.objects import ObjectState
from support.console.images import SO, ImageBuilder


def everybody(_: str) -> bool:
    return True


def test_objects_are_counted_by_kind_state_and_bucket():
    built = ImageBuilder().topic("a", (1, 0, 10, 100), (2, 10, 30, 300)).topic("b", (2, 0, 5, 50))
    built.add_object(9, SO, state=ObjectState.DESTROYED, destroyed_ms=7, size_bytes=1_000)
    found = objects_summary(built.image())
    assert (found.stream_set_objects, found.stream_objects, found.live_bytes) == (1, 1, 450)
    assert (found.waiting_objects, found.waiting_bytes) == (1, 1_000)
    assert found.by_bucket == {0: (2, 450)}


def test_wc12_an_object_is_listed_to_visitors_who_may_see_a_topic_in_it():
    image = ImageBuilder().topic("a", (1, 0, 10, 100), (2, 10, 30, 300)).topic("b", (2, 0, 5, 50)).image()
    assert [each.object_id for each in largest_objects(image, everybody)] == [2, 1], "the largest first"
    assert [each.object_id for each in largest_objects(image, lambda name: name == "b")] == [2]
    assert [each.object_id for each in largest_objects(image, everybody, rows_max=1)] == [2]


def test_what_will_be_deleted_says_when_and_why():
    built = ImageBuilder()
    built.add_object(1, SO, state=ObjectState.DESTROYED, destroyed_ms=2_000, destroyed_version=4)
    built.add_object(2, SO, state=ObjectState.DESTROYED, destroyed_ms=1_000, destroyed_version=9)
    built.add_object(
        3, None, state=ObjectState.DESTROYED, destroyed_ms=3_000, destroyed_version=4, committed_ms=0
    )
    pins = ShardedMap([("t", ScanPin("t", 7, 90_000, "a scan of Spark"))])
    second, first, third = objects_to_delete(built.image(version=20, pins=pins), 100)
    assert (first.object_id, first.due_ms) == (1, 2_100) and "grace period" in first.why
    assert (second.object_id, second.due_ms) == (2, 90_000) and "a scan of Spark" in second.why
    assert third.object_id == 3 and "never committed" in third.why


def test_the_ranges_of_an_object_are_named_by_their_topics():
    image = ImageBuilder().topic("b", (2, 10, 30, 300)).topic("a", (2, 0, 5, 50)).image()
    assert topics_in(image, image.objects[2]) == [("a", 0, "data", 0, 5, 50), ("b", 0, "data", 10, 30, 300)]
    without = ImageBuilder().image(objects=image.objects)
    assert [each[0] for each in topics_in(without, image.objects[2])] == ["stream 0", "stream 1"]
