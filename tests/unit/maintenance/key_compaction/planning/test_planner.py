from siltstone.metadata.commands import DeleteTopic
from siltstone.model.limits import DAY_MS, HOUR_MS
from support.maintenance.keyed_metadata import KeyedMetadata


def test_everything_a_task_needs_to_know(world) -> None:
    stream = world.topic(delete_retention_ms="77")
    world.filled(stream, 100, 200)
    world.objects(stream, 300)
    plan = world.the_plan()
    assert (plan.name, plan.topic, plan.partition, plan.stream_id) == ("t-0", "t", 0, stream)
    assert (plan.start_offset, plan.dirty_offset, plan.bound) == (0, 0, 200)
    assert [source.held.end_offset for source in plan.sources] == [100, 200], "no object beyond the bound"
    assert plan.delete_retention_ms == 77
    assert plan.configs == world.image.topics[plan.topic_id].configs
    assert plan.limit == "the active segment begins at offset 200"
    assert plan.bytes_read == 2 * 1100 + 2000


def test_the_object_that_holds_the_bound_is_read_whole(world) -> None:
    stream = world.topic()
    world.objects(stream, 100, 200)
    world.roll(stream, 130)
    plan = world.the_plan()
    assert (len(plan.sources), plan.bound) == (2, 130)


def test_what_is_clean_is_read_as_well(world) -> None:
    """Proof of absence: nothing of a key may be left before what is removed."""
    stream = world.topic()
    world.filled(stream, 100, 300)
    world.cleaned(stream, 100)
    plan = world.the_plan()
    assert (plan.dirty_offset, len(plan.sources)) == (100, 2)
    assert (plan.dirtiness.clean_bytes, plan.dirtiness.dirty_bytes) == (1000, 2000)


def test_k11_by_bytes(world) -> None:
    for clean, dirty in ((60, 40), (50, 50), (40, 60)):
        stream = world.topic(f"t{dirty}")
        world.filled(stream, clean, clean + dirty)
        world.cleaned(stream, clean)
    planned = world.planned()
    assert [plan.topic for plan in planned.chosen] == ["t60"]
    assert [each.name for each in planned.unplanned] == ["t40-0", "t50-0"]
    assert (
        planned.unplanned[1].reason == "500 B of 1000 B dirty, 0.50, not above min.cleanable.dirty.ratio 0.5"
    )


def test_k12_beyond_the_longest_lag_whatever_the_ratio(world) -> None:
    stream = world.topic(max_compaction_lag_ms=str(HOUR_MS))
    world.filled(stream, 90)
    world.objects(stream, 100)
    world.roll(stream, 100, open_ms=HOUR_MS)
    world.cleaned(stream, 90)  # takes a minute
    plan = world.the_plan()
    assert "longer than max.compaction.lag.ms" in plan.reason
    assert (plan.dirty_offset, plan.bound) == (90, 100)


def test_k12_all_in_the_active_segment(world) -> None:
    stream = world.topic(max_compaction_lag_ms=str(HOUR_MS))
    world.objects(stream, 100)
    world.now_ms += 2 * HOUR_MS
    assert world.why_not() == "nothing may be compacted yet: the active segment begins at offset 0"
    world.roll(stream, 100)
    assert world.the_plan().bound == 100


def test_o6_an_hourly_record_is_compacted_when_its_segment_was_closed(world) -> None:
    stream = world.topic(max_compaction_lag_ms=str(DAY_MS), min_cleanable_dirty_ratio="0.9")
    world.objects(stream, *range(1, 49))
    world.roll(stream, 24, open_ms=2 * DAY_MS)
    world.cleaned(stream, 12)
    assert world.the_plan().bound == 24


def test_dirtiest_first(world) -> None:
    for name, clean in (("a", 30), ("b", 0), ("c", 10), ("d", 10)):
        stream = world.topic(name)
        world.filled(stream, *([clean, 100] if clean else [100]))
        if clean:
            world.cleaned(stream, clean)
    assert [plan.topic for plan in world.planned().chosen] == ["b", "c", "d", "a"]


def test_k23_retention_moved_the_start_past_what_was_clean(world) -> None:
    stream = world.topic(cleanup_policy="compact,delete")
    world.filled(stream, 100, 200, 300)
    world.cleaned(stream, 100)
    world.trim(stream, 150)
    plan = world.the_plan()
    assert (plan.start_offset, plan.dirty_offset, plan.bound) == (150, 150, 300)
    assert len(plan.sources) == 2
    assert plan.dirtiness.clean_bytes == 0


def test_other_policies_are_nobodys_business(world) -> None:
    stream = world.topic(cleanup_policy="delete")
    world.filled(stream, 100)
    assert world.planned() == KeyedMetadata().planned()


def test_who_names_a_topic_that_is_not_compacted_is_told_so(world) -> None:
    world.topic("t", partitions=2, cleanup_policy="delete")
    world.topic("u", cleanup_policy="delete")
    (told,) = world.planned(topics=frozenset({"t"})).unplanned
    assert (told.name, told.reason) == ("t", "cleanup.policy is delete, without compact")


def test_snapshots_of_a_partition_have_no_keys(world) -> None:
    world.topic()
    names = [each.name for each in world.planned().unplanned]
    assert names == ["t-0"]


def test_a_deleted_topic(world) -> None:
    stream = world.topic()
    world.filled(stream, 100)
    world.objects(stream, 200, in_set=True)
    world.do(DeleteTopic(0, 1, world.image.topic_ids["t"]))
    assert world.image.streams[stream].ranges
    planned = world.planned()
    assert not planned.chosen and not planned.unplanned


def test_only_the_topics_asked_for(world) -> None:
    for name in ("a", "b"):
        world.filled(world.topic(name), 100)
    assert [plan.topic for plan in world.planned(topics=frozenset({"b"})).chosen] == ["b"]


# -- why not -------------------------------------------------------------------------------------------------


def test_nothing_in_objects(world) -> None:
    world.topic()
    assert world.why_not() == "none of its records are in an object yet"


def test_it_begins_in_a_stream_set_object(world) -> None:
    stream = world.topic()
    world.objects(stream, 100, in_set=True)
    world.roll(stream, 100)
    text = "its first records lie in stream set object 0, which sso-compaction splits first"
    assert world.why_not() == text
    assert world.why_not(is_forced=True) == text


def test_clean_as_far_as_it_may_be(world) -> None:
    stream = world.topic()
    world.filled(stream, 100)
    world.cleaned(stream, 100)
    world.objects(stream, 200)
    assert world.why_not() == "already compacted up to offset 100; the active segment begins at offset 100"


def test_of_what_was_compacted_beyond_the_limit_on_request_no_limit_is_named(world) -> None:
    stream = world.topic()
    world.objects(stream, 100)
    world.cleaned(stream, 100)
    assert world.stream(stream).active_offset == 0
    assert world.why_not() == "already compacted up to offset 100"


# -- by force ------------------------------------------------------------------------------------------------


def test_force_heeds_no_ratio(world) -> None:
    stream = world.topic(min_cleanable_dirty_ratio="1")
    world.filled(stream, 100)
    assert "not above" in world.why_not()
    assert world.the_plan(is_forced=True).reason == "forced: 1000 B of 1000 B dirty, 1.00"


def test_force_heeds_lag_and_active_segment(world) -> None:
    stream = world.topic(min_compaction_lag_ms=str(HOUR_MS))
    world.objects(stream, 100, 200)
    world.roll(stream, 100, newest_age_ms=2 * HOUR_MS)
    assert world.the_plan(is_forced=True).bound == 100


def test_force_lets_tombstones_of_a_clean_stream_go(world) -> None:
    stream = world.topic()
    world.filled(stream, 100)
    assert world.the_plan(is_forced=True).dirty_offset == 0
    world.cleaned(stream, 100)
    plan = world.the_plan(is_forced=True)
    assert (plan.dirty_offset, plan.bound, len(plan.sources)) == (100, 100, 1)
    assert plan.reason == "forced: no new records; expired tombstones will be removed"


def test_up_to_an_offset(world) -> None:
    stream = world.topic(min_compaction_lag_ms=str(HOUR_MS), min_cleanable_dirty_ratio="1")
    world.objects(stream, 100, 200)
    plan = world.the_plan(up_to=150)
    assert (plan.dirty_offset, plan.bound, len(plan.sources)) == (0, 150, 2)
    assert plan.reason == "up to offset 150, as requested: 1.5 KiB of 1.5 KiB dirty, 1.00"
    assert plan.limit == "offset 150 was requested"


def test_up_to_more_than_objects_hold(world) -> None:
    stream = world.topic()
    world.objects(stream, 100)
    world.objects(stream, 200, in_set=True)
    plan = world.the_plan(up_to=1_000)
    assert plan.bound == 100
    assert "which sso-compaction splits first" in plan.limit


def test_up_to_what_is_clean_already(world) -> None:
    stream = world.topic()
    world.filled(stream, 100)
    world.cleaned(stream, 100)
    assert world.why_not(up_to=50) == "already compacted up to offset 100; offset 50 was requested"


def test_a_topic_without_a_policy_is_told_too(world) -> None:
    world.topic("t", cleanup_policy="")
    (told,) = world.planned(topics=frozenset({"t"})).unplanned
    assert (told.name, told.reason) == ("t", "cleanup.policy is empty, without compact")
