"""Erasure as a kind of maintenance, on whole stores in memory."""

from siltstone.carrying.pipeline.kind import Budget, Outcome, Scope
from siltstone.carrying.pipeline.running import run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.stream_set_compaction.kind import StreamSetObjectCompaction
from siltstone.metadata.commands import TrimStream
from siltstone.model.objects import ObjectState, object_key
from siltstone.offline.settings import CompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner
from support.maintenance.erased_world import ErasedWorld

KEYS = [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4")]


def test_a_store_without_erasures_has_nothing_to_do(erased: ErasedWorld) -> None:
    erased.append_pairs(erased.topic()[0], KEYS)
    report = erased.erase()
    assert (report.units, report.is_well) == ((), True)


def test_the_first_run_rewrites_and_the_second_verifies(erased: ErasedWorld) -> None:
    (stream,) = erased.topic()
    erased.append_pairs(stream, KEYS)
    untouched = erased.append_pairs(stream, [("b", "5")], [("c", "6")])
    erased.ask("a")

    (unit,) = erased.erase().units
    assert (unit.outcome, unit.records_removed, unit.has_remaining) == (Outcome.DONE, 2, True)
    assert "2 records erased from 1 object" in unit.text
    assert erased.erasure().is_pending
    assert erased.image.objects[untouched].state is ObjectState.COMMITTED

    (unit,) = erased.erase().units
    assert "no record of the keys is left" in unit.text
    found = erased.erasure().verification
    assert found is not None
    assert (found.objects, found.records) == (2, 4)
    assert erased.records(stream) == [(1, "b", "2"), (3, "c", "4"), (4, "b", "5"), (5, "c", "6")]
    erased.assert_sound()

    assert erased.erase().units == (), "a verified erasure asks for nothing more"


def test_what_is_produced_after_the_request_stays(erased: ErasedWorld) -> None:
    (stream,) = erased.topic()
    erased.append_pairs(stream, KEYS)
    erased.ask("a")
    erased.append_pairs(stream, [("a", "new")])
    erased.erase(), erased.erase()
    assert not erased.erasure().is_pending
    assert erased.records(stream) == [(1, "b", "2"), (3, "c", "4"), (4, "a", "new")]


def test_every_partition_is_looked_at(erased: ErasedWorld) -> None:
    streams = erased.topic(partitions=3)
    for stream in streams[:2]:
        erased.append_pairs(stream, KEYS)
    erased.ask("c")
    assert [unit.name for unit in erased.erase().units] == ["t-0", "t-1"]
    erased.erase()
    assert not erased.erasure().is_pending
    assert all("c" not in {key for _, key, _ in erased.records(stream)} for stream in streams)


def test_other_topics_are_not_touched(erased: ErasedWorld) -> None:
    (stream,), (other,) = erased.topic("t"), erased.topic("u")
    erased.append_pairs(stream, KEYS), erased.append_pairs(other, KEYS)
    erased.ask("a")
    erased.erase()
    assert len(erased.records(other)) == 4


def test_a_stream_set_object_waits_for_its_split(erased: ErasedWorld) -> None:
    (stream,) = erased.topic()
    held = erased.append_pairs(stream, KEYS, in_set=True)
    erased.ask("a")
    (unit,) = erased.erase().units
    assert "1 stream set object to be split by sso-compaction first" in unit.text
    assert not unit.has_remaining, "another run of this kind alone would find the same"
    assert erased.erasure().is_pending
    assert [each.object_id for each in erased.holders()] == [held]


def test_a_stream_set_object_without_the_keys_need_not_be_split(erased: ErasedWorld) -> None:
    (stream,) = erased.topic()
    erased.append_pairs(stream, [("b", "1")], in_set=True)
    erased.ask("a")
    erased.erase()
    assert not erased.erasure().is_pending


def test_the_objects_that_held_records_are_noted_before_they_are_replaced(erased: ErasedWorld) -> None:
    (stream,) = erased.topic()
    held = erased.append_pairs(stream, KEYS)
    erased.ask("a")
    erased.erase()
    (noted,) = erased.holders()
    assert (noted.object_id, noted.records, noted.partition) == (held, 2, 0)
    assert noted.replaced_ms == erased.image.objects[held].destroyed_ms
    assert noted.deleted_ms == 0
    assert erased.image.objects[held].state is ObjectState.DESTROYED


def test_what_was_trimmed_and_is_still_in_an_object_is_erased(erased: ErasedWorld) -> None:
    (stream,) = erased.topic()
    erased.append_pairs(stream, KEYS)
    erased.metadata.execute(TrimStream(0, 1, stream, 0, 3))
    erased.ask("a")
    erased.erase()
    assert sum(each.records for each in erased.holders()) == 2
    erased.assert_sound()


def test_two_erasures_of_a_topic_are_counted_apart(erased: ErasedWorld) -> None:
    (stream,) = erased.topic()
    erased.append_pairs(stream, KEYS)
    erased.ask("a", erasure_id="first")
    erased.ask("b", "c", erasure_id="second")
    erased.erase(), erased.erase()
    assert [each.records for each in erased.holders("first")] == [2]
    assert [each.records for each in erased.holders("second")] == [2]
    assert not erased.erasure("first").is_pending
    assert not erased.erasure("second").is_pending
    assert erased.records(stream) == []


def test_an_object_that_cannot_be_read_keeps_the_erasure_pending(erased: ErasedWorld) -> None:
    (stream,) = erased.topic()
    lost = erased.append_pairs(stream, [("a", "1")])
    erased.append_pairs(stream, [("a", "2")])
    erased.ask("a")
    erased.stores[0].delete([object_key(lost)])
    (unit,) = erased.erase().units
    assert unit.outcome is Outcome.FAILED
    assert str(lost) in unit.text
    assert erased.erasure().is_pending
    (other,) = [each for each in erased.holders() if each.replaced_ms]
    assert other.object_id != lost, "the objects that can be read are written again meanwhile"
    erased.erase(is_forced=True)
    assert erased.erasure().is_pending, "a look that lacks an object verifies nothing"


def test_a_deleted_topic_asks_for_nothing(erased: ErasedWorld) -> None:
    erased.append_pairs(erased.topic()[0], KEYS)
    erased.ask("a")
    erased.delete_topic()
    assert erased.erase().units == ()


def test_a_scope_names_topics(erased: ErasedWorld) -> None:
    erased.append_pairs(erased.topic()[0], KEYS)
    erased.topic("u")
    erased.ask("a")
    assert erased.erase(topics=frozenset(["u"])).units == ()
    assert len(erased.erase(topics=frozenset(["t"])).units) == 1


def test_only_the_stream_set_objects_that_hold_the_keys_are_split(erased: ErasedWorld) -> None:
    (stream,) = erased.topic()
    held = erased.append_pairs(stream, KEYS, in_set=True)
    beside = erased.append_pairs(stream, [("b", "5")], in_set=True)
    erased.ask("a")
    erased.erase()
    kind = StreamSetObjectCompaction(CompactionSettings(), frozenset([held]))
    watch = Watch(kind.name, erased.clock)
    report = run(erased.context, kind, InProcessRunner, Scope(is_forced=True), Budget(), watch)
    assert report.is_well and report.done
    objects = erased.context.metadata.refresh().objects
    assert objects[held].state is ObjectState.DESTROYED
    assert objects[beside].state is ObjectState.COMMITTED
    erased.erase(), erased.erase()
    assert not erased.erasure().is_pending
    erased.assert_sound()
