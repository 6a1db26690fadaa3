"""The commit by itself: what it refuses, and who finds it."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from siltstone.maintenance import committing
from siltstone.maintenance.committing import ATTEMPTS_MAX, CompactionOutcomeUnknown, commit
from siltstone.metadata.client import CommitUnknown
from siltstone.metadata.commands import CommitCompaction, NewObject, PrepareObjects, StartJob
from siltstone.metadata.refusals import CompactedObjectsNotFound, CoverageNotMatched
from siltstone.model.errors import Unavailable
from siltstone.model.limits import HOUR_MS
from siltstone.model.objects import ObjectKind, ObjectRange, object_key
from support.compaction_world import CompactionWorld


def command_of(world: CompactionWorld, end: int = 10) -> CommitCompaction:
    """Two objects of stream 0, [0, 5) and [5, 10), become one stream object [0, end)."""
    compacted = tuple(world.upload({0: [(0, 5, 100)]}, {0: [(5, 10, 100)]}))
    job_id = world.metadata.execute(StartJob("sso-compaction", "a test", HOUR_MS))
    object_id = world.metadata.execute(PrepareObjects(1, HOUR_MS, job_id=job_id))
    world.store.put(object_key(object_id), [b"as if it were one"])
    new = NewObject(object_id, 300, (ObjectRange(0, object_id, 0, end, 200, 9),))
    return CommitCompaction(job_id, compacted, None, (new,))


def new_key(command: CommitCompaction) -> str:
    return object_key(command.stream_objects[0].object_id)


def test_a_whole_command_is_committed(world: CompactionWorld) -> None:
    command = command_of(world)
    commit(world.context, command, world.store)
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
        commit(world.context, command, world.store)
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
        commit(world.context, stale, world.store)


def test_a_cleanup_that_fails_does_not_hide_the_refusal(world: CompactionWorld) -> None:
    command = command_of(world, end=9)
    world.store.delete = _denied  # type: ignore[method-assign]
    with pytest.raises(CoverageNotMatched):
        commit(world.context, command, world.store)
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
    with pytest.raises(CompactionOutcomeUnknown):
        commit(world.context, command, world.store)
    waits = [after - before for before, after in pairwise(asked)]
    assert len(asked) == ATTEMPTS_MAX
    assert 100 <= waits[0] <= 200
    assert 5_000 <= waits[-1] <= 10_000
    assert new_key(command) in world.bucket_keys()
