"""The plan of a load: which objects it writes, and at which offsets."""

import pytest
from msgspec.structs import replace

from siltstone.metadata.commands import CloseStream, CreateTopic, DeleteTopic, OpenStream
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import StreamNotClosed
from siltstone.metadata.sinks import StreamLoad
from siltstone.model.limits import GIB, STREAMS_PER_OBJECT_MAX
from siltstone.sinking.failures import TopicGoneForSink
from siltstone.sinking.load_plan import PREPARED_MS_MIN, LoadPlan, plan_load
from siltstone.sinking.manifest import SinkManifest
from siltstone.sinking.staging import StagedPart
from support.metadata.metadata_world import MetadataWorld

TOPIC_ID = "0f" * 16


class World:
    def __init__(self, partitions: int = 3) -> None:
        self.world = MetadataWorld()
        self.world.register(0)
        made = self.world.do(CreateTopic(0, 1, "t", TOPIC_ID, partitions))
        self.streams = [each.data_stream_id for each in made.partitions]

    @property
    def image(self) -> MetadataImage:
        return self.world.image

    def part(self, partition: int, size_bytes: int, records: int = 10) -> StagedPart:
        stream_id = self.streams[partition]
        return StagedPart("t", TOPIC_ID, partition, stream_id, f"k{partition}", 0, size_bytes, records)

    def plan(self, *parts: StagedPart, append_time: bool = False, **limits: int) -> LoadPlan:
        topics = frozenset([TOPIC_ID] if append_time else [])
        return plan_load(self.image, SinkManifest(1, parts, b""), topics, 100, 1_000, **limits)


def offsets(plan: LoadPlan) -> list[tuple[bool, list[tuple[int, int, list[int]]]]]:
    return [
        (
            each.is_set,
            [(run.stream_id, run.start_offset, [part.size_bytes for part in run.parts]) for run in each.runs],
        )
        for each in plan.objects
    ]


def test_small_streams_share_an_object_and_a_large_one_has_its_own_cut_at_the_limit() -> None:
    world = World()
    parts = [world.part(2, 5), world.part(1, 600), world.part(0, 7), world.part(1, 300), world.part(1, 101)]
    zero, one, two = world.streams
    assert offsets(world.plan(*parts)) == [
        (True, [(zero, 0, [7]), (two, 0, [5])]),
        (False, [(one, 0, [600, 300])]),
        (False, [(one, 20, [101])]),
    ]
    assert world.plan(*parts).loads == tuple(StreamLoad(each, 0, 0) for each in world.streams)
    assert offsets(world.plan(world.part(0, 5))) == [(False, [(zero, 0, [5])])], "one stream is no set"
    assert offsets(world.plan(world.part(0, 5_000), world.part(0, 1))) == [
        (False, [(zero, 0, [5_000])]),
        (False, [(zero, 10, [1])]),
    ], "a part is never cut"


def test_a_stream_goes_on_at_its_end_under_the_next_epoch() -> None:
    world = World(1)
    (stream,) = world.streams
    world.world.do(OpenStream(0, 1, stream, 4))
    world.world.do(world.world.upload((stream, 0, 7)))
    with pytest.raises(StreamNotClosed, match="t-0 is open at node 0"):
        world.plan(world.part(0, 5))
    world.world.do(CloseStream(0, 1, stream, 4))
    plan = world.plan(world.part(0, 5), append_time=True)
    assert plan.loads == (StreamLoad(stream, 5, 7),)
    ((run,),) = (each.runs for each in plan.objects)
    assert (run.epoch, run.start_offset, run.has_append_time) == (5, 7, True)


def test_sw15_a_topic_that_is_gone_or_another_one_is_named() -> None:
    world = World(1)
    part = world.part(0, 5)
    with pytest.raises(TopicGoneForSink):
        world.plan(replace(part, topic_id="00" * 16))
    world.world.do(DeleteTopic(0, 1, TOPIC_ID))
    with pytest.raises(TopicGoneForSink, match="topic t was deleted"):
        world.plan(part)


def test_a_stream_set_object_has_no_more_streams_than_it_may() -> None:
    assert STREAMS_PER_OBJECT_MAX == 20_000
    world = World(4)
    plan = world.plan(*(world.part(number, 5) for number in range(4)), streams_max=2)
    assert [(each.is_set, len(each.runs)) for each in plan.objects] == [(True, 2), (False, 1), (False, 1)]


def test_a_large_load_has_more_time() -> None:
    world = World(1)
    assert world.plan(world.part(0, 5)).time_limit_ms == PREPARED_MS_MIN
    assert world.plan(world.part(0, GIB)).time_limit_ms == PREPARED_MS_MIN + 256_000
