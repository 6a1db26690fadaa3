"""Retention as a kind: what it commits, and what others do meanwhile."""

import pytest

from siltstone.carrying.pipeline.kind import Attempt, Outcome, Scope
from siltstone.carrying.pipeline.watch import Cancelled, Watch
from siltstone.maintenance.retention.kind import RETENTION, Retention
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.commands import (
    AlterTopicConfigs,
    CloseStream,
    DeleteTopic,
    FinishJob,
    StartJob,
    TrimStreams,
)
from siltstone.metadata.entities import JobState
from siltstone.metadata.refusals import CommandMalformed, JobNotRunning, JobRunning
from siltstone.model.limits import HOUR_MS, JOB_LEASE_MS, OPEN_STREAM_LEFT_ALONE_MS
from siltstone.model.objects import ObjectState
from support.engine.batches import batch
from support.maintenance.retained_store import RetainedStore, no_runner, retain, unplanned


@pytest.fixture
def store() -> RetainedStore:
    return RetainedStore()


def plan(store: RetainedStore):
    return Retention().plan(store.context, Scope(), Watch(RETENTION, store.clock))


def carrying_out(store: RetainedStore, made, job_id: int, names, watch: Watch):
    return Retention().carry_out(made, names, Attempt(store.context, no_runner, job_id, watch))


def carry_out(store: RetainedStore, made, job_id: int, names=None, watch: Watch | None = None):
    names = [unit.name for unit in made.units] if names is None else names
    watch = watch or Watch(RETENTION, store.clock)
    return list(carrying_out(store, made, job_id, names, watch))


def test_starts_move_and_nothing_else(store):
    topic = store.topic("t", retention_ms="1000")
    store.fill(topic, [5_000, 2_000, 0])
    before = store.image
    report = retain(store.context)
    assert (report.kind, report.in_one_line.split(";")[0]) == ("retention", "1 of 1 done")
    (unit,) = report.units
    assert (unit.name, unit.outcome, unit.offsets_trimmed) == ("t", Outcome.DONE, 60)
    assert unit.text == "60 offsets trimmed in 1 partition"
    stream = store.stream(topic)
    assert (stream.start_offset, stream.end_offset, len(stream.segments)) == (60, 90, 1)
    assert dict(store.image.objects.items()) == dict(before.objects.items())
    assert store.store.counts["delete"] == 0
    assert store.image.jobs[report.job_id].state is JobState.SUCCEEDED


def test_a_second_run_has_nothing_to_do(store):
    store.fill(store.topic("t", retention_ms="1000"), [5_000, 0])
    assert retain(store.context).job_id is not None
    version = store.image.version
    assert retain(store.context).job_id is None
    assert store.image.version == version
    assert unplanned(store.context)["t"].startswith(
        "no closed segment is older than retention.ms (1 second); the first"
    )


def test_r17_the_active_segment_is_closed_and_trimmed_in_one_run_and_the_end_stays(store):
    topic = store.topic("t", retention_ms=str(HOUR_MS))
    stream_id = topic.partitions[0].data_stream_id
    store.append(stream_id)
    store.metadata.execute(CloseStream(0, 1, stream_id, 0))
    assert retain(store.context).units[0].outcome is Outcome.DONE  # its records are from 1970
    stream = store.stream(topic)
    assert (stream.start_offset, stream.end_offset, stream.segments) == (30, 30, ())
    assert retain(store.context).job_id is None


def test_r17_one_that_a_broker_has_open_is_left_to_it_for_a_while(store):
    topic = store.topic("t", retention_ms="0")
    store.append(topic.partitions[0].data_stream_id)
    assert retain(store.context).job_id is None
    store.clock.advance_ms(OPEN_STREAM_LEFT_ALONE_MS)
    assert retain(store.context).units[0].outcome is Outcome.DONE


@pytest.mark.parametrize("meanwhile", ["deleted", "configured", "trimmed"])
def test_what_happened_since_the_plan_was_made(store, meanwhile):
    topic, other = store.topic("t", retention_ms="0"), store.topic("other", retention_ms="0")
    for each in (topic, other):
        store.fill(each, [5])
    made = plan(store)
    if meanwhile == "deleted":
        store.metadata.execute(DeleteTopic(0, 1, topic.topic_id))
    elif meanwhile == "configured":
        store.metadata.execute(AlterTopicConfigs(topic.topic_id, put={"retention.ms": "-1"}))
    else:
        store.trim(topic.partitions[0].data_stream_id, 30)
    job_id = store.metadata.execute(StartJob(RETENTION, "test", HOUR_MS))
    reports = {each.name: each.outcome for each in carry_out(store, made, job_id)}
    assert reports == {"t": Outcome.NOT_NEEDED, "other": Outcome.DONE}
    if meanwhile == "configured":
        assert store.stream(topic).start_offset == 0


def test_a_second_driver_is_turned_away(store):
    store.fill(store.topic("t", retention_ms="0"), [5])
    store.another_context().metadata.execute(StartJob(RETENTION, "another", HOUR_MS))
    with pytest.raises(JobRunning):
        retain(store.context)


def test_a_job_that_was_taken_over_commits_nothing(store):
    topic = store.topic("t", retention_ms="0")
    store.fill(topic, [5])
    made = plan(store)
    job_id = store.metadata.execute(StartJob(RETENTION, "slow", JOB_LEASE_MS))
    store.clock.advance_ms(JOB_LEASE_MS + 1)
    other = store.another_context()
    taken_over = other.metadata.execute(StartJob(RETENTION, "fast", JOB_LEASE_MS))
    with pytest.raises(JobNotRunning):
        carry_out(store, made, job_id)
    assert store.stream(topic).start_offset == 0
    assert [each.outcome for each in carry_out(store, made, taken_over)] == [Outcome.DONE]


def test_cancelled_between_topics(store):
    for name in ("a", "b"):
        store.fill(store.topic(name, retention_ms="0"), [5])
    made = plan(store)
    job_id = store.metadata.execute(StartJob(RETENTION, "test", HOUR_MS))
    watch = Watch(RETENTION, store.clock)
    carried = carrying_out(store, made, job_id, ["a", "b"], watch)
    assert next(carried).outcome is Outcome.DONE
    watch.cancel("enough")
    with pytest.raises(Cancelled, match="enough"):
        next(carried)


def test_when_time_is_over_only_the_first_unit_is_begun(store):
    for name in ("a", "b"):
        store.fill(store.topic(name, retention_ms="0"), [5])
    made = plan(store)
    job_id = store.metadata.execute(StartJob(RETENTION, "test", HOUR_MS))
    watch = Watch(RETENTION, store.clock, seconds_max=1)
    store.clock.advance_ms(1_000)
    (done,) = carry_out(store, made, job_id, watch=watch)
    assert done.name == "a"


def test_a_unit_that_is_refused_costs_the_others_nothing(store, monkeypatch):
    for name in ("a", "b"):
        store.fill(store.topic(name, retention_ms="0"), [5])
    execute = store.metadata.execute

    def refuse(command):
        if isinstance(command, TrimStreams) and command.topics[0].topic_id.endswith("1"):
            raise CommandMalformed("this one not")
        return execute(command)

    monkeypatch.setattr(store.metadata, "execute", refuse)
    report = retain(store.context)
    assert {each.name: (each.outcome, each.text) for each in report.units} == {
        "a": (Outcome.FAILED, "this one not"),
        "b": (Outcome.DONE, "30 offsets trimmed in 1 partition"),
    }


def test_r16_a_crash_after_the_trim_leaves_nothing_behind(store):
    """The driver dies; the object, now dead, is deleted by a collection after its grace period, and not before."""
    topic = store.topic("t", retention_ms="1000")
    store.fill(topic, [5_000, 0])
    made = plan(store)
    job_id = store.metadata.execute(StartJob(RETENTION, "dies", HOUR_MS))
    carry_out(store, made, job_id)
    dead = next(each for each in store.image.objects.values() if each.ranges[0].end_offset == 30)
    assert dead.state is ObjectState.COMMITTED
    store.compact([dead.object_id], [])
    assert store.image.objects[dead.object_id].state is ObjectState.DESTROYED
    store.clock.advance_ms(HOUR_MS)
    assert sweep(store.context).objects_deleted == 1
    assert dead.object_id not in store.image.objects
    assert len(list(store.store.list())) == 1


def test_r18_a_trim_commits_at_once_and_a_compaction_of_the_same_range_clips(store):
    topic = store.topic("t", retention_ms="1000")
    store.fill(topic, [5_000, 0])
    compacted = sorted(store.image.objects)
    retain(store.context)
    stream_id = topic.partitions[0].data_stream_id
    store.compact(compacted, [batch(stream_id, 30 + 10 * number, 10, 60) for number in range(3)])
    stream = store.stream(topic)
    assert [(held.start_offset, held.end_offset) for held in stream.ranges] == [(30, 60)]
    assert (stream.start_offset, stream.end_offset) == (30, 60)


def test_a_job_that_ended_is_no_job(store):
    store.fill(store.topic("t", retention_ms="0"), [5])
    made = plan(store)
    job_id = store.metadata.execute(StartJob(RETENTION, "test", HOUR_MS))
    store.metadata.execute(FinishJob(job_id, True))
    with pytest.raises(JobNotRunning):
        carry_out(store, made, job_id)
