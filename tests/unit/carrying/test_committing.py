"""The commit by itself: what it refuses, and how a repeated attempt finds it."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from siltstone.carrying import committing
from siltstone.carrying.committing import commit
from siltstone.carrying.outcomes import TRIES_MAX, OutcomeUnknown
from siltstone.metadata.client import APPEND_ATTEMPTS_MAX, CommitUnknown
from siltstone.metadata.commands import CommitCompaction, NewObject, PrepareObjects, RegisterNode, StartJob
from siltstone.metadata.refusals import CompactedObjectsNotFound, CoverageNotMatched, ObjectNotExist
from siltstone.metadata.store_id import put_store_id
from siltstone.model.errors import Unavailable
from siltstone.model.limits import HOUR_MS
from siltstone.model.objects import ObjectKind, ObjectRange, object_key
from siltstone.object_store.metadata_mark import mark_of_state, marks_in, newest_of
from siltstone.runtime.randomness import seeded_randomness
from support.maintenance.compaction_world import CompactionWorld
from support.metadata.faulty_log import Fault

NO_ANSWER = [Fault.LOST] * APPEND_ATTEMPTS_MAX
"""The client asks so many times, and then does not know whether its append happened."""
NO_ANSWER_AND_DONE = [Fault.DONE, *[Fault.UNAVAILABLE] * (APPEND_ATTEMPTS_MAX - 1)]
NO_ANSWER_AND_DONE_LATER = [*NO_ANSWER[1:], Fault.LATE]
"""The last of these appends is under way, and is written just before the next that anybody tries."""


def command_of(world: CompactionWorld, end: int = 10, time_limit_ms: int = HOUR_MS) -> CommitCompaction:
    """Two objects of stream 0, [0, 5) and [5, 10), become one stream object [0, end), which has to be committed within
    ``time_limit_ms``."""
    compacted = tuple(world.upload({0: [(0, 5, 100)]}, {0: [(5, 10, 100)]}))
    job_id = world.metadata.execute(StartJob("sso-compaction", "a test", HOUR_MS))
    object_id = world.metadata.execute(PrepareObjects(1, time_limit_ms, job_id=job_id))
    world.store.put(object_key(object_id), [b"as if it were one"])
    new = NewObject(object_id, 300, (ObjectRange(0, object_id, 0, end, 200, 9),))
    return CommitCompaction(job_id, compacted, None, (new,))


def new_key(command: CommitCompaction) -> str:
    return object_key(command.stream_objects[0].object_id)


def test_a_whole_command_is_committed(world: CompactionWorld) -> None:
    command = command_of(world)
    commit(world.context, command)
    assert world.ids(ObjectKind.STREAM_OBJECT) == {command.stream_objects[0].object_id}


@pytest.mark.parametrize("end", [9, 11])
@pytest.mark.parametrize("worker_checks", [True, False])
def test_rule_4_lost_or_invented_offsets_are_refused(
    world: CompactionWorld, monkeypatch: pytest.MonkeyPatch, end: int, worker_checks: bool
) -> None:
    """By the driver before it asks, and by the decision that commits even if the driver does not look."""
    if not worker_checks:
        monkeypatch.setattr(committing, "_check_coverage", lambda *_: None)
    command = command_of(world, end)
    version = world.metadata.image.version
    with pytest.raises(CoverageNotMatched):
        commit(world.context, command)
    assert world.metadata.refresh().version == version
    assert world.ids(ObjectKind.STREAM_SET_OBJECT) == set(command.compacted)
    assert new_key(command) not in world.bucket_keys()


@pytest.mark.parametrize("worker_checks", [True, False])
def test_sources_that_are_gone_are_refused(
    world: CompactionWorld, monkeypatch: pytest.MonkeyPatch, worker_checks: bool
) -> None:
    if not worker_checks:
        monkeypatch.setattr(committing, "_check_coverage", lambda *_: None)
    command = command_of(world)
    stale = msgspec.structs.replace(command, compacted=(*command.compacted, 999))
    with pytest.raises(CompactedObjectsNotFound):
        commit(world.context, stale)


def test_a_cleanup_that_fails_does_not_hide_the_refusal(world: CompactionWorld) -> None:
    command = command_of(world, end=9)
    world.store.delete = _denied  # type: ignore[method-assign]
    with pytest.raises(CoverageNotMatched):
        commit(world.context, command)
    assert new_key(command) in world.bucket_keys()


def _denied(_: Any) -> None:
    raise Unavailable("slow down")


def test_an_unknown_outcome_is_asked_again_with_growing_patience(
    world: CompactionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = command_of(world)
    asked: list[int] = []

    def silent(_: Any) -> None:
        asked.append(world.clock.now_ms())
        raise CommitUnknown("no answer")

    monkeypatch.setattr(world.metadata, "execute", silent)
    with pytest.raises(OutcomeUnknown):
        commit(world.context, command)
    waits = [after - before for before, after in pairwise(asked)]
    assert len(asked) == TRIES_MAX
    assert 100 <= waits[0] <= 200
    assert 5_000 <= waits[-1] <= 10_000
    assert new_key(command) in world.bucket_keys()


# -- rule 5: nothing is deleted after an unknown outcome ----------------------------------------------------------


def something_else_is_appended(world: CompactionWorld) -> None:
    world.metadata.execute(RegisterNode(1, "second", "nowhere"))


def assert_replaced(world: CompactionWorld, command: CommitCompaction) -> None:
    """The new object is committed, and its bytes are there."""
    assert world.ids(ObjectKind.STREAM_OBJECT) == {command.stream_objects[0].object_id}
    assert new_key(command) in world.bucket_keys()


@pytest.mark.parametrize(
    "faults",
    [NO_ANSWER, NO_ANSWER_AND_DONE, NO_ANSWER_AND_DONE_LATER],
    ids=["not done", "done", "done later"],
)
def test_t08_a_commit_without_an_answer_is_asked_again(world: CompactionWorld, faults: list[Fault]) -> None:
    command = command_of(world)
    world.log.faults.extend(faults)
    commit(world.context, command)
    assert_replaced(world, command)


def test_t08_a_refusal_after_an_unknown_outcome_deletes_nothing(world: CompactionWorld) -> None:
    """The second attempt is refused because the time limit of the new object has passed. The first is still on its way
    to the log and is written after the refusal: had the outputs been deleted, the records would be lost."""
    command = command_of(world, time_limit_ms=1_000)
    world.log.faults.extend(NO_ANSWER_AND_DONE_LATER)
    with pytest.raises(ObjectNotExist):
        commit(world.context, command)
    assert world.ids(ObjectKind.STREAM_SET_OBJECT) == set(command.compacted)
    something_else_is_appended(world)
    assert_replaced(world, command)


def test_t08_an_outcome_that_stays_unknown_deletes_nothing(world: CompactionWorld) -> None:
    command = command_of(world)
    world.log.faults.extend([*NO_ANSWER * (TRIES_MAX - 1), *NO_ANSWER_AND_DONE_LATER])
    with pytest.raises(OutcomeUnknown):
        commit(world.context, command)
    something_else_is_appended(world)
    assert_replaced(world, command)


def test_a_refusal_without_an_unknown_outcome_deletes_the_outputs(world: CompactionWorld) -> None:
    command = command_of(world, time_limit_ms=1_000)
    world.clock.advance_ms(1_001)
    with pytest.raises(ObjectNotExist):
        commit(world.context, command)
    assert new_key(command) not in world.bucket_keys()


def test_a_refusal_deletes_the_new_stream_set_object_too(world: CompactionWorld) -> None:
    command = command_of(world, end=5)
    set_id = world.metadata.execute(PrepareObjects(1, HOUR_MS, job_id=command.job_id))
    world.store.put(object_key(set_id), [b"the rest"])
    rest = NewObject(set_id, 100, (ObjectRange(0, set_id, 5, 9, 100, 9),))
    lossy = msgspec.structs.replace(command, stream_set_object=rest)
    with pytest.raises(CoverageNotMatched):
        commit(world.context, lossy)
    assert world.bucket_keys().isdisjoint({new_key(command), object_key(set_id)})


def test_prepared_ids_are_marked_in_their_bucket(world: CompactionWorld) -> None:
    """So that older metadata, which would give them out again, is refused there."""
    world.metadata.execute(put_store_id(seeded_randomness(1)))
    job_id = world.metadata.execute(StartJob("sso-compaction", "a test", HOUR_MS))
    first_id = committing.prepare(world.context, PrepareObjects(3, HOUR_MS, job_id=job_id))
    assert world.metadata.image.next_object_id == first_id + 3
    marks = marks_in(world.store)
    assert newest_of(marks).version == world.metadata.image.version
    assert newest_of(marks).ids_end >= first_id + 3


def test_without_an_id_of_the_store_nothing_is_marked(world: CompactionWorld) -> None:
    job_id = world.metadata.execute(StartJob("sso-compaction", "a test", HOUR_MS))
    assert committing.prepare(world.context, PrepareObjects(1, HOUR_MS, job_id=job_id)) == 0
    assert marks_in(world.store) == []


def test_replaced_objects_are_marked_in_every_bucket(world: CompactionWorld) -> None:
    world.metadata.execute(put_store_id(seeded_randomness(1)))
    command = command_of(world)
    commit(world.context, command)
    assert mark_of_state(world.metadata.image) in marks_in(world.store)
