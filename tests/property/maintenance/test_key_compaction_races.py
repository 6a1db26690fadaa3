"""Others at work while streams are compacted, at every step and from seeds; and drivers killed at every step.

Whatever happens: a consumer from the beginning ends up with the same table, offsets never come twice or back, the check
finds nothing, and when all time limits have passed the bucket holds what is committed and nothing else.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random

import pytest
from msgspec.structs import replace

from siltstone.carrying.pipeline.kind import Outcome
from siltstone.maintenance.key_compaction.task import run_key_compaction
from siltstone.maintenance.key_compaction.task_input import CODEC
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.commands import (
    CloseStream,
    Command,
    CommitKeyCompaction,
    OpenStream,
    PrepareObjects,
    RegisterNode,
)
from siltstone.metadata.refusals import JobRunning
from siltstone.model.buckets import StrategyType
from siltstone.model.limits import GRACE_PERIOD_MS, HOUR_MS, JOB_LEASE_MS
from siltstone.model.objects import ObjectState
from siltstone.object_store.memory import MemoryStore
from siltstone.offline.tasks.runner import Task
from support.maintenance.keyed_world import SETTINGS, Found, KeyedWorld, keyed_world, table_of
from support.maintenance.spread import Spread

PATIENT = replace(SETTINGS, allowance_ms=HOUR_MS)
Act = Callable[[KeyedWorld, Random], object]


@pytest.fixture
def keyed() -> Iterator[KeyedWorld]:
    with keyed_world() as made:
        yield made


class History:
    """What was appended to each stream of topic ``t``, and what a reader may find of it."""

    def __init__(self, keyed: KeyedWorld, partitions: int, seed: int) -> None:
        self.keyed = keyed
        self.streams = keyed.topic(partitions=partitions, delete_retention_ms=str(HOUR_MS * 24))
        for number, stream in enumerate(self.streams):
            keyed.fill(stream, seed * 10 + number, count=80, keys=12)
        self.appended = {stream: keyed.records(stream) for stream in self.streams}

    def assert_kept(self) -> None:
        image = self.keyed.image
        for stream, appended in self.appended.items():
            if stream in image.streams and image.topics:
                start = image.streams[stream].start_offset
                _assert_follows(self.keyed.records(stream), [one for one in appended if one[0] >= start])
        self.keyed.assert_sound()

    def assert_converges(self) -> None:
        """Without anybody doing anything but waiting and sweeping."""
        self.keyed.clock.advance_ms(3 * HOUR_MS)
        sweep(self.keyed.context)
        self.keyed.clock.advance_ms(GRACE_PERIOD_MS)
        sweep(self.keyed.context)
        for bucket_id in self.keyed.stores:
            assert self.keyed.keys(bucket_id) == self.keyed.committed_keys(bucket_id)
        assert all(each.state is ObjectState.COMMITTED for each in self.keyed.image.objects.values())
        self.assert_kept()


def _assert_follows(found: Sequence[Found], appended: Sequence[Found]) -> None:
    assert table_of(found) == table_of(appended)
    everything = iter(appended)
    assert all(record in everything for record in found), "in order, and nothing that was not appended"


# -- others at work --------------------------------------------------------------------------------------------


def trim(keyed: KeyedWorld, rng: Random) -> None:
    stream = keyed.stream(rng.choice(_streams(keyed)))
    keyed.trim(stream.stream_id, rng.randint(stream.start_offset, stream.end_offset))


def delete_topic(keyed: KeyedWorld, rng: Random) -> None:
    if keyed.image.topics:
        keyed.delete_topic()


def change_policy(keyed: KeyedWorld, rng: Random) -> None:
    if keyed.image.topics:
        keyed.configure(cleanup_policy=rng.choice(["delete", "compact,delete"]))


def second_driver(keyed: KeyedWorld, rng: Random) -> None:
    """One that waits for its turn, or takes over a driver that seems to be gone."""
    if rng.random() < 0.5:
        keyed.clock.advance_ms(JOB_LEASE_MS)
        keyed.compact(PATIENT, context=keyed.another_context())
        return
    with pytest.raises(JobRunning):
        keyed.compact(PATIENT, context=keyed.another_context())


def restart_node(keyed: KeyedWorld, rng: Random) -> None:
    """Its next life closes what was open, opens it under a higher epoch, and continues appending."""
    epoch = keyed.metadata.execute(RegisterNode(0, "second", "nowhere")).node_epoch
    for stream_id in _streams(keyed):
        stream = keyed.stream(stream_id)
        keyed.metadata.execute(CloseStream(0, epoch, stream_id, stream.epoch))
        keyed.metadata.execute(OpenStream(0, epoch, stream_id, stream.epoch + 1))


OTHERS: dict[str, Act] = {
    each.__name__: each for each in (trim, delete_topic, change_policy, second_driver, restart_node)
}


def _streams(keyed: KeyedWorld) -> list[int]:
    image = keyed.image
    return [each.data_stream_id for topic in image.topics.values() for each in topic.partitions]


@pytest.mark.parametrize("name", sorted(OTHERS))
@pytest.mark.parametrize("seed", range(6))
def test_others_at_work(name: str, seed: int) -> None:
    """Before the task, after it, or between the last look at the metadata and the commit (K29, K30, R18, GC8)."""
    with keyed_world(Spread(1 + seed % 3, StrategyType.ROUND_ROBIN, seed)) as keyed:
        _others_at_work(keyed, name, Random(seed), seed)


def _others_at_work(keyed: KeyedWorld, name: str, rng: Random, seed: int) -> None:
    history = History(keyed, partitions=3, seed=seed)
    moment = rng.choice(["before", "after", "commit"])
    victim = f"t-{rng.randrange(3)}"
    acts = [lambda: OTHERS[name](keyed, rng)]

    def act() -> None:
        if acts:
            acts.pop()()

    def task(unit: bytes) -> bytes:
        is_victim = CODEC.decode_input(unit).name == victim
        if is_victim and moment == "before":
            act()
        answer = run_key_compaction(unit)
        if is_victim and moment == "after":
            act()
        if is_victim and moment == "commit":
            keyed.log.before_append.append(act)
        return answer

    before = {stream: keyed.stream(stream).start_offset for stream in history.streams}
    report = keyed.compact(replace(PATIENT, wave_streams_max=rng.choice([1, 3])), task=task)
    assert not acts
    assert all(unit.outcome is not Outcome.FAILED for unit in report.units), report
    image = keyed.image
    for stream, start in before.items():
        if stream in image.streams:
            assert image.streams[stream].start_offset >= start
    history.assert_kept()
    if keyed.image.topics and "compact" in keyed.topic_named().configs["cleanup.policy"]:
        keyed.clock.advance_ms(JOB_LEASE_MS)
        keyed.compact(PATIENT, is_forced=True)
        history.assert_kept()
    history.assert_converges()


def test_r18_trimmed_beyond_everything_while_it_ran(keyed: KeyedWorld) -> None:
    history = History(keyed, partitions=1, seed=3)
    (stream,) = history.streams

    def task(unit: bytes) -> bytes:
        answer = run_key_compaction(unit)
        keyed.trim(stream, keyed.stream(stream).end_offset)
        return answer

    report = keyed.compact(PATIENT, task=task)
    assert report.is_well
    assert keyed.records(stream) == []
    history.assert_converges()


def test_k30_the_other_streams_of_the_job_are_committed(keyed: KeyedWorld) -> None:
    history = History(keyed, partitions=2, seed=4)
    (doomed,) = keyed.topic("doomed")
    keyed.fill(doomed, 9)

    def task(unit: bytes) -> bytes:
        answer = run_key_compaction(unit)
        if CODEC.decode_input(unit).name == "doomed-0":
            keyed.delete_topic("doomed")
        return answer

    report = keyed.compact(PATIENT, task=task)
    assert {unit.name: unit.outcome for unit in report.units} == {
        "t-0": Outcome.DONE,
        "t-1": Outcome.DONE,
        "doomed-0": Outcome.NOT_NEEDED,
    }
    history.assert_converges()


# -- drivers that are killed -----------------------------------------------------------------------------------


class Killed(BaseException):
    """The process is gone: nothing after it happens."""


class Kill:
    """A driver of its own, whose metadata and bucket end at ``step``."""

    def __init__(self, keyed: KeyedWorld, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keyed = keyed
        self.step = step
        self.context = keyed.another_context()
        self.is_dead = False
        self._puts = 0
        self._execute = self.context.metadata.execute
        monkeypatch.setattr(self.context.metadata, "execute", self._watched)

    def run(self) -> None:
        with pytest.raises(Killed):
            self.keyed.compact(replace(PATIENT, object_bytes=512), task=self._task(), context=self.context)
        self.is_dead = True

    def _die(self, step: str) -> None:
        if self.is_dead or step == self.step:
            self.is_dead = True
            raise Killed(step)

    def _watched(self, command: Command[object]) -> object:
        self._die("")
        if isinstance(command, CommitKeyCompaction):
            self._die("uploaded")
        answer = self._execute(command)
        if isinstance(command, PrepareObjects):
            self._die("prepared")
        if isinstance(command, CommitKeyCompaction):
            self._die("committed")
        return answer

    def _task(self) -> Task:
        def task(unit: bytes) -> bytes:
            put = self.keyed.store.put

            def dying(*given: object) -> None:
                self._puts += 1
                put(*given)  # type: ignore[arg-type]
                if self._puts == 2:
                    self._die("mid-upload")

            self.keyed.store.put = dying  # type: ignore[method-assign]
            try:
                return run_key_compaction(unit)
            finally:
                self.keyed.store.put = put  # type: ignore[method-assign]

        return task


@pytest.mark.parametrize("step", ["committed", "mid-upload", "prepared", "uploaded"])
@pytest.mark.parametrize("first_id", [9, 255, 500])
def test_gc9_killed_at_a_step(
    keyed: KeyedWorld, step: str, first_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(keyed, partitions=2, seed=5)
    if (burnt := first_id - keyed.image.next_object_id) > 0:
        keyed.prepare(burnt)
    Kill(keyed, step, monkeypatch).run()
    history.assert_kept()
    # The second upload is the second stream's: by then the first stream is committed.
    assert (keyed.stream(history.streams[0]).cleaned_offset > 0) == (step in ("committed", "mid-upload"))
    with pytest.raises(JobRunning):
        keyed.compact(PATIENT)
    keyed.clock.advance_ms(JOB_LEASE_MS)
    assert keyed.compact(PATIENT, is_forced=True).is_well
    assert all(keyed.stream(stream).cleaned_offset for stream in history.streams)
    history.assert_converges()


def test_k31_killed_before_the_commit_and_nobody_tries_again(
    keyed: KeyedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(keyed, partitions=1, seed=6)
    bucket = keyed.keys()
    Kill(keyed, "uploaded", monkeypatch).run()
    assert keyed.keys() > bucket
    history.assert_converges()
    assert keyed.keys() == bucket


@pytest.mark.parametrize("deleted", [0, 1, 3])
def test_k31_killed_while_the_sources_are_deleted(
    keyed: KeyedWorld, deleted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(keyed, partitions=2, seed=7)
    assert keyed.compact(PATIENT).is_well
    keyed.clock.advance_ms(GRACE_PERIOD_MS)

    def dying(keys: Sequence[str]) -> None:
        MemoryStore.delete(keyed.store, keys[:deleted])
        raise Killed("half deleted")

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(keyed.store, "delete", dying)
        sweep(keyed.another_context())
    history.assert_kept()
    history.assert_converges()
