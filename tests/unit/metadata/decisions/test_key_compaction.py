from typing import Any

import pytest
from msgspec.structs import replace

from siltstone.metadata.commands import (
    AlterTopicConfigs,
    CommitKeyCompaction,
    CreateTopic,
    DeleteTopic,
    FinishJob,
    OpenStream,
    TrimStream,
)
from siltstone.model.limits import COMPACTION_STREAM_OBJECTS_MAX
from siltstone.model.objects import ObjectState
from support.metadata.metadata_world import MetadataWorld, new_object

TOPIC_ID = "ab" * 16
COMPACT = {"cleanup.policy": "compact"}
OLDEST_MS = 1_000


class CompactedTopic(MetadataWorld):
    """Stream 0: stream objects 0 [0, 100) and 1 [100, 200), and a stream set object 2 [200, 300); job 0 runs."""

    def __init__(self) -> None:
        super().__init__()
        self.register(0)
        self.do(CreateTopic(0, 1, "t", TOPIC_ID, 1, configs=COMPACT))
        self.do(OpenStream(0, 1, 0, 0))
        self.do(self.upload(alone=((0, 0, 100),), data_time_ms=OLDEST_MS))
        self.do(self.upload(alone=((0, 100, 200),)))
        self.do(self.upload((0, 200, 300)))
        self.start_job("key-compaction")

    def command(self, *ranges: tuple[int, int], prepared: int = 4, **changes: Any) -> CommitKeyCompaction:
        """Both stream objects become one for each range: of ``prepared`` ids the rest is given up."""
        first = self.prepare_for_job(0, prepared)
        new = tuple(new_object(first + at, (0, *held)) for at, held in enumerate(ranges or ((0, 200),)))
        command = CommitKeyCompaction(
            job_id=0,
            stream_id=0,
            topic_id=TOPIC_ID,
            configs=COMPACT,
            compacted=(0, 1),
            stream_objects=new,
            cleaned_offset=180,
            latest_ms=self.now_ms,
            released=tuple(range(first + len(new), first + prepared)),
        )
        return replace(command, **changes)

    def unchanged(self, cleaned_offset: int = 180, prepared: int = 2) -> CommitKeyCompaction:
        """Nothing could be removed."""
        first = self.prepare_for_job(0, prepared)
        return self.command(
            compacted=(),
            stream_objects=(),
            cleaned_offset=cleaned_offset,
            released=tuple(range(first, first + prepared)),
        )

    def states(self) -> dict[int, str]:
        return {object_id: each.state.name for object_id, each in self.image.objects.items()}

    @property
    def cleaned_offset(self) -> int:
        return self.image.streams[0].cleaned_offset


@pytest.fixture
def world() -> CompactedTopic:
    return CompactedTopic()


def test_objects_and_clean_offset_change_in_one_commit(world) -> None:
    before = world.image.streams[0]
    command = world.command((0, 150), (150, 200))
    assert world.outcome(command)[0] == "OK"
    after = world.image.streams[0]
    assert world.held(0) == [(3, 0, 150), (4, 150, 200), (2, 200, 300)]
    assert world.cleaned_offset == 180
    assert replace(after, ranges=(), cleaned_offset=0) == replace(before, ranges=())
    assert world.image.objects[3].data_time_ms == OLDEST_MS
    assert set(world.states().values()) == {"COMMITTED", "DESTROYED"}
    assert [world.states()[each] for each in (0, 1, 5, 6)] == ["DESTROYED"] * 4, (
        "released ids with the sources"
    )


def test_rule_5_a_commit_that_was_done_is_never_refused(world) -> None:
    command = world.command()
    world.do(command)
    world.do(FinishJob(0, False, "lost"))
    assert world.outcome(command) == ("OK", 0)


def test_nothing_could_be_removed(world) -> None:
    before = world.image.streams[0]
    command = world.unchanged()
    assert world.outcome(command)[0] == "OK"
    assert world.cleaned_offset == 180
    assert world.image.streams[0].ranges == before.ranges
    assert all(world.states()[each] == "DESTROYED" for each in command.released)
    assert world.outcome(command) == ("OK", 0)
    world.do(FinishJob(0, True))
    assert world.outcome(command) == ("OK", 0)


def test_ids_are_given_up_though_the_offset_stands(world) -> None:
    world.do(world.unchanged())
    command = world.unchanged(cleaned_offset=150)
    assert world.outcome(command)[0] == "OK"
    assert world.cleaned_offset == 180, "it never moves back"
    assert all(world.states()[each] == "DESTROYED" for each in command.released)


def test_the_clean_offset_is_never_below_the_start(world) -> None:
    world.do(TrimStream(0, 1, 0, 0, 190))
    world.do(world.unchanged(cleaned_offset=180))
    assert world.cleaned_offset == 190


@pytest.mark.parametrize("cleaned_offset", [301, 2**60])
def test_clean_beyond_the_end(world, cleaned_offset) -> None:
    assert world.outcome(world.unchanged(cleaned_offset=cleaned_offset)) == ("INVALID_REQUEST", 0)


def test_clean_beyond_the_new_objects(world) -> None:
    assert world.outcome(world.command(cleaned_offset=200))[0] == "OK"
    other = CompactedTopic()
    assert other.outcome(other.command(cleaned_offset=201)) == ("INVALID_REQUEST", 0)


@pytest.mark.parametrize("kind", ["unchanged", "command"])
@pytest.mark.parametrize(
    ("interference", "code"),
    [
        pytest.param([FinishJob(0, True)], "JOB_NOT_RUNNING", id="the job is over"),
        pytest.param([DeleteTopic(0, 1, TOPIC_ID)], "STREAM_NOT_EXIST", id="the topic is deleted"),
        pytest.param(
            [AlterTopicConfigs(TOPIC_ID, put={"cleanup.policy": "delete"})],
            "TOPIC_CONFIGURED_OTHERWISE",
            id="another policy",
        ),
        pytest.param(
            [AlterTopicConfigs(TOPIC_ID, put={"delete.retention.ms": "0"})],
            "TOPIC_CONFIGURED_OTHERWISE",
            id="another limit",
        ),
    ],
)
def test_what_changed_meanwhile_refuses(world, interference, code, kind) -> None:
    command = getattr(world, kind)()
    for each in interference:
        world.do(each)
    assert world.outcome(command) == (code, 0)


def test_k30_a_deleted_topic_leaves_no_output_committed(world) -> None:
    command = world.command()
    world.do(DeleteTopic(0, 1, TOPIC_ID))
    assert world.outcome(command) == ("STREAM_NOT_EXIST", 0)
    assert world.image.objects[3].state is ObjectState.PREPARED, "the sweep finds it when its time is over"


@pytest.mark.parametrize("kind", ["unchanged", "command"])
def test_a_commit_after_the_latest_time_is_refused(world, kind) -> None:
    command = getattr(world, kind)()
    world.now_ms += 1
    assert world.outcome(command) == ("COMPACTION_TOO_LATE", 0)


def test_k29_a_trim_meanwhile_clips(world) -> None:
    command = world.command((0, 100), (100, 200))
    world.do(TrimStream(0, 1, 0, 0, 120))
    assert world.outcome(command)[0] == "OK"
    assert world.held(0) == [(4, 100, 200), (2, 200, 300)], "what is dead on arrival is destroyed at once"
    assert world.states()[3] == "DESTROYED"


def test_gc8_of_two_compactions_one_is_refused(world) -> None:
    first, second = world.command(), world.command()
    world.do(first)
    assert world.outcome(second) == ("COMPACTED_OBJECTS_NOT_FOUND", 0)


@pytest.mark.parametrize(
    ("ranges", "compacted"),
    [
        pytest.param(((0, 199),), (0, 1), id="the end lost"),
        pytest.param(((1, 200),), (0, 1), id="the beginning lost"),
        pytest.param(((0, 150), (151, 200)), (0, 1), id="a hole"),
        pytest.param(((0, 151), (150, 200)), (0, 1), id="twice"),
        pytest.param(((0, 201),), (0, 1), id="offsets nobody appended"),
        pytest.param(((0, 200),), (0,), id="offsets of an object that stays"),
    ],
)
def test_rule_4_every_live_offset_stays_covered(world, ranges, compacted) -> None:
    command = world.command(*ranges, compacted=compacted, cleaned_offset=100)
    assert world.outcome(command) == ("COVERAGE_NOT_MATCHED", 0)


def test_stream_set_objects_are_not_replaced(world) -> None:
    command = world.command((0, 300), compacted=(0, 1, 2))
    assert world.outcome(command) == ("INVALID_REQUEST", 0)


def test_objects_of_other_streams_are_not_replaced(world) -> None:
    world.open_stream()
    world.do(world.upload(alone=((2, 0, 10),)))
    taken = max(world.image.objects)
    command = world.command(compacted=(0, 1, taken))
    assert world.outcome(command) == ("INVALID_REQUEST", 0)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"compacted": ()}, id="new objects in the place of none"),
        pytest.param({"stream_objects": ()}, id="objects for nothing"),
        pytest.param({"compacted": (0, 1, 1)}, id="one named twice"),
        pytest.param({"released": (3,)}, id="committed and given up"),
    ],
)
def test_commands_that_contradict_themselves(world, changes) -> None:
    assert world.outcome(world.command(**changes)) == ("INVALID_REQUEST", 0)


def test_more_outputs_than_a_commit_takes(world) -> None:
    command = world.command()
    too_many = command.stream_objects * (COMPACTION_STREAM_OBJECTS_MAX + 1)
    assert world.outcome(replace(command, stream_objects=too_many)) == ("INVALID_REQUEST", 0)


def test_ids_that_are_gone_already_are_passed_over(world) -> None:
    command = world.command(released=(99, 0))
    assert world.outcome(command)[0] == "OK"
    assert world.states()[0] == "DESTROYED"
