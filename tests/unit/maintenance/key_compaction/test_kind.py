"""Whole runs over a store in memory: plan, job, tasks, commits."""

import pytest

from siltstone.carrying.pipeline.kind import Outcome
from siltstone.model.limits import DAY_MS, HOUR_MS
from support.maintenance.keyed_world import SETTINGS, KeyedWorld


def test_k1_the_newest_of_each_key_in_order(keyed: KeyedWorld) -> None:
    (stream,) = keyed.topic()
    keyed.append_pairs(stream, *([(f"k{n % 10}", f"{n}")] for n in range(1024)))
    keyed.roll(stream)
    report = keyed.compact_now()
    assert keyed.offsets(stream) == list(range(1014, 1024))
    after = keyed.stream(stream)
    assert (after.start_offset, after.end_offset, after.cleaned_offset) == (0, 1024, 1024)
    assert report.records_removed == 1014
    assert report.bytes_freed > 0 and report.objects_before == 1
    keyed.assert_sound()


def test_k2_the_active_segment_is_not_mapped(keyed: KeyedWorld) -> None:
    (stream,) = keyed.topic()
    keyed.append_pairs(stream, *([(f"k{n % 10}", f"{n}")] for n in range(1024)))
    keyed.roll(stream)
    keyed.append_pairs(stream, [("k0", "newer")])
    keyed.compact_now()
    assert keyed.offsets(stream) == list(range(1014, 1025))
    assert keyed.table(stream)["k0"] == "newer"


def test_k4_a_tombstone_stays_as_long_as_it_has_to(keyed: KeyedWorld) -> None:
    (stream,) = keyed.topic(delete_retention_ms=str(DAY_MS))
    keyed.append_pairs(stream, [("a", "1")], [("b", "1")], [("a", None)], [("c", "1")])
    keyed.roll(stream)
    keyed.compact_now()
    assert keyed.offsets(stream) == [1, 2, 3]
    keyed.clock.advance_ms(DAY_MS - 1)
    keyed.compact_now()
    assert keyed.offsets(stream) == [1, 2, 3]
    keyed.clock.advance_ms(1)
    keyed.compact_now()
    assert keyed.offsets(stream) == [1, 3]


def test_k5_a_longer_limit_later_changes_nothing_for_old_tombstones(keyed: KeyedWorld) -> None:
    (stream,) = keyed.topic(delete_retention_ms=str(DAY_MS))
    keyed.append_pairs(stream, [("a", "1")], [("a", None)], [("c", "1")])
    keyed.roll(stream)
    keyed.compact_now()
    keyed.configure(delete_retention_ms=str(7 * DAY_MS))
    keyed.clock.advance_ms(DAY_MS)
    keyed.compact_now()
    assert keyed.offsets(stream) == [2]


def test_the_time_of_tombstones_begins_no_earlier_than_the_commit(keyed: KeyedWorld) -> None:
    """5.2: with an allowance for the job, a reader has the whole time limit from the commit on."""
    patient = SETTINGS.__class__(object_bytes=4096, block_bytes=512, allowance_ms=HOUR_MS)
    (stream,) = keyed.topic(delete_retention_ms=str(DAY_MS))
    keyed.append_pairs(stream, [("a", None)], [("c", "1")])
    keyed.roll(stream)
    keyed.compact_now(patient)
    keyed.clock.advance_ms(DAY_MS)
    keyed.compact_now(patient)
    assert keyed.offsets(stream) == [0, 1]
    keyed.clock.advance_ms(HOUR_MS)
    keyed.compact_now(patient)
    assert keyed.offsets(stream) == [1]


def test_k9_a_full_map_ends_the_pass_and_the_next_goes_on(keyed: KeyedWorld) -> None:
    (stream,) = keyed.topic()
    keyed.append_pairs(stream, *([(f"k{n}", "old")] for n in range(500)))
    keyed.append_pairs(stream, *([(f"k{n}", "new")] for n in range(500)))
    keyed.roll(stream)
    small = SETTINGS.__class__(
        map_bytes_max=200 * 24, object_bytes=4096, block_bytes=512, memory_bytes=2**23, allowance_ms=0
    )
    offsets = [0]
    while True:
        report = keyed.compact(small, is_forced=True)
        assert report.is_well
        (unit,) = report.units
        offsets.append(keyed.stream(stream).cleaned_offset)
        assert offsets[-1] > offsets[-2], "every pass comes further"
        assert report.has_remaining == (offsets[-1] < 1000)
        assert ("the next run continues" in unit.text) == report.has_remaining
        if not report.has_remaining:
            break
    assert len(offsets) > 3
    assert keyed.offsets(stream) == list(range(500, 1000))


def test_k12_by_the_longest_lag_whatever_the_ratio(keyed: KeyedWorld) -> None:
    (stream,) = keyed.topic(min_cleanable_dirty_ratio="0.9", max_compaction_lag_ms=str(HOUR_MS))
    keyed.fill(stream, seed=1)
    keyed.compact_now()
    keyed.append_pairs(stream, [("k1", "x"), ("k1", "y")])
    keyed.roll(stream)
    assert keyed.compact().units == ()
    keyed.clock.advance_ms(HOUR_MS + 1)
    (unit,) = keyed.compact().units
    assert unit.outcome is Outcome.DONE
    assert keyed.table(stream)["k1"] == "y"


def test_k22_records_without_key_from_another_time_go_and_are_counted(keyed: KeyedWorld) -> None:
    (stream,) = keyed.topic(cleanup_policy="delete")
    keyed.append_pairs(stream, [("a", "1"), (None, "lost"), ("b", "2")], [(None, "too")], [("a", "3")])
    keyed.roll(stream)
    assert keyed.compact(is_forced=True).units == ()
    keyed.configure(cleanup_policy="compact")
    report = keyed.compact_now()
    assert "2 records without key removed" in report.text
    assert keyed.records(stream) == [(2, "b", "2"), (4, "a", "3")]


def test_k23_retention_passes_what_was_clean(keyed: KeyedWorld) -> None:
    (stream,) = keyed.topic(cleanup_policy="compact,delete")
    keyed.append_pairs(stream, *([(f"old{n}", "x")] for n in range(10)))
    keyed.roll(stream)
    keyed.compact_now()
    keyed.append_pairs(stream, *([(f"k{n % 5}", f"{n}")] for n in range(20)))
    keyed.trim(stream, 15)
    keyed.roll(stream)
    keyed.compact_now()
    assert keyed.offsets(stream) == [25, 26, 27, 28, 29]
    assert keyed.stream(stream).cleaned_offset == 30
    keyed.assert_sound()


def test_nothing_to_remove_still_moves_the_clean_offset(keyed: KeyedWorld) -> None:
    (stream,) = keyed.topic()
    keyed.append_pairs(stream, [("a", "1")], [("b", "2")])
    keyed.roll(stream)
    before = keyed.stream(stream).ranges
    report = keyed.compact_now()
    assert "nothing could be removed" in report.text
    after = keyed.stream(stream)
    assert after.ranges == before and after.cleaned_offset == 2
    assert not keyed.image.prepared, "ids are given up"
    assert keyed.compact().units == ()


def test_ids_that_were_not_used_are_given_up(keyed: KeyedWorld) -> None:
    (stream,) = keyed.topic()
    keyed.fill(stream, seed=2)
    keyed.compact_now()
    assert not keyed.image.prepared
    assert len(keyed.committed_keys()) == len(keyed.stream(stream).ranges)


def test_many_streams_in_one_job_each_with_its_own_commit(keyed: KeyedWorld) -> None:
    streams = keyed.topic("many", partitions=4) + keyed.topic("more", partitions=3)
    for seed, stream in enumerate(streams):
        keyed.fill(stream, seed)
    tables = [keyed.table(stream) for stream in streams]
    waves = SETTINGS.__class__(
        object_bytes=4096, block_bytes=512, memory_bytes=2**23, allowance_ms=0, wave_streams_max=3
    )
    report = keyed.compact(waves)
    assert {unit.name for unit in report.units} == {
        *(f"many-{n}" for n in range(4)),
        "more-0",
        "more-1",
        "more-2",
    }
    assert len(keyed.image.jobs) == 1
    assert [keyed.table(stream) for stream in streams] == tables
    assert all(keyed.stream(stream).cleaned_offset for stream in streams)
    keyed.assert_sound()


@pytest.mark.parametrize("seed", range(8))
def test_the_table_stays_whatever_is_compacted_when(keyed: KeyedWorld, seed: int) -> None:
    (stream,) = keyed.topic(delete_retention_ms="1000")
    for step in range(6):
        keyed.fill(stream, seed * 10 + step, count=60)
        table = keyed.table(stream)
        keyed.compact_now()
        assert keyed.table(stream) == table
        keyed.clock.advance_ms(700)
    offsets = keyed.offsets(stream)
    assert offsets == sorted(set(offsets))
    keyed.assert_sound()


def test_up_to_an_offset_through_the_active_segment(keyed: KeyedWorld) -> None:
    (stream,) = keyed.topic(min_compaction_lag_ms=str(DAY_MS))
    keyed.append_pairs(stream, *([("a", f"{n}")] for n in range(10)))
    assert keyed.compact(is_forced=True).units == ()
    (unit,) = keyed.compact(up_to=5).units
    assert unit.outcome is Outcome.DONE
    assert keyed.offsets(stream) == [4, 5, 6, 7, 8, 9]


def test_a_dead_stream_object_below_the_start_is_none_of_its_business(keyed: KeyedWorld) -> None:
    """Compact-only topics drop what lies below their start as all do (G34)."""
    (stream,) = keyed.topic()
    keyed.append_pairs(stream, *([("a", f"{n}")] for n in range(10)))
    keyed.append_pairs(stream, *([("a", f"{n}")] for n in range(10)))
    keyed.trim(stream, 10)
    keyed.roll(stream)
    dead = keyed.stream(stream).ranges[0]
    keyed.compact_now()
    assert dead in keyed.stream(stream).ranges
    assert keyed.offsets(stream) == [19]
