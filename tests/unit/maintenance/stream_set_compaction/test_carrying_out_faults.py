"""T08: rounds whose reads, writes and commits fail."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from siltstone.carrying.outcomes import OutcomeUnknown
from siltstone.maintenance.stream_set_compaction.carrying_out import SourcesUnusable
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.client import CommitUnknown
from siltstone.metadata.commands import CommitCompaction
from siltstone.metadata.entities import JobState
from siltstone.metadata.refusals import JobRunning
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import COMPACTION_TIME_LIMIT_MS, GRACE_PERIOD_MS
from siltstone.model.objects import ObjectKind, ObjectState, object_key
from siltstone.offline.settings import CompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner, RunFailed, Task
from siltstone.runtime.tasks import OnProgress
from support.engine.faulty_store import Fault
from support.maintenance.compacting import RoundNotDone, RoundReport, compact, planned_round
from support.maintenance.compaction_sources import F1
from support.maintenance.compaction_world import CompactionWorld, scaled
from support.maintenance.opened_stores import failing

SSO, SO = ObjectKind.STREAM_SET_OBJECT, ObjectKind.STREAM_OBJECT


SETTINGS = CompactionSettings(
    split_size_bytes=400, memory_bytes=1200, part_bytes_min=1, merged_block_bytes_max=1_000_000
)


def compacted(world: CompactionWorld, with_settings: CompactionSettings = SETTINGS) -> RoundReport:
    return compact(world.context, InProcessRunner(), with_settings)


class Interrupting(InProcessRunner):
    """A runner that lets something happen when the tasks are done."""

    def __init__(self, happens: Callable[[], object]) -> None:
        super().__init__()
        self._happens = happens

    def run(
        self, task: Task, inputs: Sequence[bytes], on_progress: OnProgress | None = None, label: str = ""
    ) -> list[bytes]:
        results = super().run(task, inputs)
        self._happens()
        return results


def test_t08_unreadable_index_leaves_its_object_alone(world: CompactionWorld) -> None:
    sources = world.upload(*scaled([*F1, {2: [(270, 280, 75)]}], 4))
    world.damage(sources[3], -100)
    report = compacted(world)
    assert report.objects_before == 3
    assert [each.object_id for each in report.left_out] == [sources[3]]
    assert "its index cannot be read" in report.left_out[0].reason
    assert world.ids(SSO) == {sources[3], report.stream_set_object}


def test_t08_read_fails_in_the_second_iteration(world: CompactionWorld) -> None:
    sources = world.upload(*scaled(F1, 4))
    before = world.records()
    first = planned_round(world.context, SETTINGS).iteration(0)
    reads_before = 3 + len(first.reads)  # the indexes, and the first iteration
    world.store.fail_next(*([None] * reads_before), Fault.BEFORE, call="get_range")
    with pytest.raises(RunFailed, match="StoreTransient"):
        compacted(world)
    assert world.ids(SSO) == set(sources)
    assert world.records() == before
    assert list(world.store.store.list_multipart()) == []
    assert [job.state for job in world.metadata.image.jobs.values()] == [JobState.FAILED]
    assert compacted(world).committed
    assert world.records() == before


@pytest.mark.parametrize(
    ("call", "fault"), failing("put", "upload_part", "complete_multipart", "start_multipart")
)
@pytest.mark.parametrize("threads", [1, 2])
def test_t08_a_write_that_fails_for_ever_fails_the_round(
    world: CompactionWorld, call: str, fault: Fault, threads: int
) -> None:
    sources = world.upload(*scaled(F1, 4))
    before = world.records()
    world.store.fail_next(*([fault] * 20), call=call)
    with pytest.raises(SiltstoneError, match=call):
        compact(world.context, InProcessRunner(threads), SETTINGS)
    assert world.ids(SSO) == set(sources)
    world.store.calm()
    assert compacted(world).committed
    assert world.records() == before


def test_t08_damaged_block_is_named_and_not_rewritten(world: CompactionWorld) -> None:
    sources = world.upload(*scaled(F1, 4))
    world.damage(sources[1], 10)
    named = rf"DamagedBlock.*object {sources[1]}, stream 0 \[15, 20\)"
    with pytest.raises(SourcesUnusable, match=named) as caught:
        compacted(world)
    assert [failure.object_id for failure in caught.value.failures] == [sources[1]]
    assert world.ids(SSO) == set(sources)
    assert [job.state for job in world.metadata.image.jobs.values()] == [JobState.FAILED]
    assert list(world.store.store.list_multipart()) == []


@pytest.mark.parametrize(
    ("damaged", "named"),
    [
        ([(1, 10), (2, 10)], [1, 2]),
        ([(0, 10), (0, 4 * 155 + 10)], [0]),
    ],
    ids=["one in each task", "the same in both tasks"],
)
def test_t08_every_damaged_source_is_named_once(
    world: CompactionWorld, damaged: list[tuple[int, int]], named: list[int]
) -> None:
    """The first task reads objects 0 and 1, the second one objects 0 and 2."""
    sources = world.upload(*scaled(F1, 4))
    for number, position in damaged:
        world.damage(sources[number], position)
    with pytest.raises(SourcesUnusable) as caught:
        compacted(world)
    assert [failure.object_id for failure in caught.value.failures] == [sources[each] for each in named]


def losing_answers(
    world: CompactionWorld, monkeypatch: pytest.MonkeyPatch, times: int, *, done: bool
) -> list[Any]:
    """The answers to the compaction's first commits are lost; ``done``: they happened all the same."""
    sent: list[Any] = []
    execute = world.metadata.execute

    def lossy(command: Any) -> Any:
        if not isinstance(command, CommitCompaction):
            return execute(command)
        sent.append(command)
        if len(sent) > times:
            return execute(command)
        if done:
            execute(command)
        raise CommitUnknown("connection lost")

    monkeypatch.setattr(world.metadata, "execute", lossy)
    return sent


@pytest.mark.parametrize("done", [True, False])
def test_t08_lost_commit_is_asked_again(
    world: CompactionWorld, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    world.upload(*scaled(F1, 4))
    before = world.records()
    sent = losing_answers(world, monkeypatch, 2, done=done)
    assert compacted(world).committed
    assert len(sent) == 3
    assert sent[0] == sent[2]
    assert world.records() == before
    world.assert_sound()


def test_t08_outcome_that_stays_unknown_deletes_nothing(
    world: CompactionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit took effect, though its answer was lost: deleting the outputs would lose data."""
    world.upload(*scaled(F1, 4))
    before = world.records()
    losing_answers(world, monkeypatch, 1000, done=True)
    with pytest.raises(OutcomeUnknown):
        compacted(world)
    assert world.records() == before


def test_t08_refusal_after_an_unknown_answer_deletes_nothing(
    world: CompactionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.upload(*scaled(F1, 4))
    losing_answers(world, monkeypatch, 1, done=False)
    execute = world.metadata.execute

    def refusing(command: Any) -> Any:
        if isinstance(command, CommitCompaction) and refused:
            raise JobRunning("as if")
        refused.append(command) if isinstance(command, CommitCompaction) else None
        return execute(command)

    refused: list[Any] = []
    monkeypatch.setattr(world.metadata, "execute", refusing)
    kept = world.bucket_keys()
    with pytest.raises(RoundNotDone, match="as if"):
        compacted(world)
    assert len(world.bucket_keys() - kept) == 4


def test_t08_refused_commit_cleans_up(world: CompactionWorld) -> None:
    """Another driver took the job over when the lease had passed, and compacted the same sources."""
    world.upload(*scaled(F1, 4))
    before = world.records()
    kept: set[str] = set()

    def overtake() -> None:
        world.clock.advance_ms(SETTINGS.lease_ms + 1)
        own = world.bucket_keys()
        compact(world.another_context(), InProcessRunner(), SETTINGS)
        kept.update(world.bucket_keys() - own)

    with pytest.raises(RoundNotDone, match="another driver"):
        compact(world.context, Interrupting(overtake), SETTINGS)
    assert world.records() == before
    assert len(kept) == 4
    objects = world.metadata.refresh().objects
    prepared = {object_key(each) for each, held in objects.items() if held.state is ObjectState.PREPARED}
    assert len(prepared) == 4
    assert not prepared & world.bucket_keys(), "what was refused is deleted"
    assert kept <= world.bucket_keys()


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the driver runs after it."""


def test_t08_killed_between_last_upload_and_commit(
    world: CompactionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = world.upload(*scaled(F1, 4))
    before = world.records()
    kept = world.bucket_keys()

    def die(_: object) -> None:
        raise Killed

    victim = world.another_context()
    with pytest.raises(Killed):
        compact(victim, Interrupting(lambda: monkeypatch.setattr(victim.metadata, "execute", die)), SETTINGS)
    assert world.ids(SSO) == set(sources)
    assert world.records() == before
    with pytest.raises(JobRunning):
        compacted(world)
    world.clock.advance_ms(COMPACTION_TIME_LIMIT_MS)
    sweep(world.context)
    world.clock.advance_ms(GRACE_PERIOD_MS)
    sweep(world.context)
    assert world.bucket_keys() == kept
    assert list(world.store.store.list_multipart()) == []
    assert compacted(world).committed
    assert world.records() == before


def test_t08_stream_deleted_between_plan_and_commit(world: CompactionWorld) -> None:
    world.upload(*scaled(F1, 4))
    report = compact(world.context, Interrupting(lambda: world.delete_stream(1)), SETTINGS)
    assert report.committed
    objects = world.metadata.refresh().objects
    new = [
        held
        for held in objects.values()
        if report.stream_set_object and held.object_id >= report.stream_set_object
    ]
    assert sorted(held.state for held in new) == [
        ObjectState.COMMITTED, ObjectState.COMMITTED, ObjectState.DESTROYED, ObjectState.DESTROYED,
    ]  # fmt: skip
    assert set(world.records()) == {0, 2}
    world.assert_sound()


def test_t08_source_destroyed_between_plan_and_job(
    world: CompactionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plan was made before the other's commit: found before anything is written."""
    world.upload(*scaled(F1, 4))
    before = world.records()
    late = world.another_context()
    execute = late.metadata.execute

    def overtaken(command: Any) -> Any:
        monkeypatch.setattr(late.metadata, "execute", execute)
        assert compacted(world).committed
        return execute(command)

    monkeypatch.setattr(late.metadata, "execute", overtaken)
    version_of_objects = world.metadata.image.next_object_id
    with pytest.raises(RoundNotDone, match="another driver"):
        compact(late, InProcessRunner(), SETTINGS)
    assert world.metadata.refresh().next_object_id == version_of_objects + 4
    assert world.records() == before


def test_t08_trimmed_while_it_was_rewritten(world: CompactionWorld) -> None:
    world.upload(*scaled(F1, 4))
    report = compact(world.context, Interrupting(lambda: world.trim(0, 17)), SETTINGS)
    assert report.committed
    assert [start for start, _, _ in world.records()[0]] == [15]
    world.assert_sound()


def test_appended_while_it_was_rewritten(world: CompactionWorld) -> None:
    world.upload(*scaled(F1, 4))
    appended: list[int] = []
    compact(
        world.context, Interrupting(lambda: appended.extend(world.upload({0: [(20, 30, 100)]}))), SETTINGS
    )
    assert [end for _, end, _ in world.records()[0]] == [15, 20, 30]
    assert set(appended) < world.ids(SSO)
    world.assert_sound()
