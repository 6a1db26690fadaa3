"""Which topics are due for an export."""

import pytest

from siltstone.carrying.pipeline.kind import PlannedUnit, Scope, Unplanned
from siltstone.metadata.commands import CreateTopic
from siltstone.tables.planning import exports, lag_of, plan_exports, round_ranges
from siltstone.tables.progress import TableProgress, put_progress
from support.maintenance.table_world import TableWorld

MINUTES_5 = 5 * 60_000


def planned(world: TableWorld, **scope: object) -> tuple[list[PlannedUnit], dict[str, str]]:
    found = plan_exports(world.image, Scope(**scope), world.clock.now_ms())  # type: ignore[arg-type]
    return list(found.units), {each.name: each.reason for each in found.unplanned}


def exported(world: TableWorld, *offsets: int, name: str = "t") -> None:
    progress = TableProgress(
        table=f"kafka.{name}",
        table_format="parquet",
        offsets=dict(enumerate(offsets)),
        exported_ms=world.clock.now_ms(),
    )
    world.metadata.execute(put_progress(world.topic_named(name).topic_id, progress))


def test_a_topic_that_is_no_table_is_named_only_when_it_is_asked_for(plain: TableWorld) -> None:
    plain.topic("other")
    assert planned(plain) == ([], {})
    why = "siltstone.table.format is empty: it is not kept as a table"
    assert planned(plain, topics=frozenset(["other"])) == ([], {"other": why})


def test_due_at_once_then_by_time_or_by_size(plain: TableWorld) -> None:
    streams = plain.kept(partitions=2)
    (units, unplanned) = planned(plain)
    assert units == [] and "so there is no table kafka.t" in unplanned["t"]
    for stream_id in streams:
        plain.append_pairs(stream_id, [("a", "1")])
    ((first,), _) = planned(plain)
    waiting_bytes = lag_of(plain.image, plain.topic_named(), None).size_bytes
    assert first.bytes_read == first.bytes_written == waiting_bytes
    assert first.reason.startswith("2 offsets in 2 partitions, ") and first.reason.endswith(
        ": the first export"
    )
    exported(plain, 1, 0)
    units, unplanned = planned(plain)
    assert units == []
    assert unplanned["t"].startswith("1 offset in 1 partition, ")
    assert unplanned["t"].endswith(
        "0 ms after the last export, which is less than siltstone.table.interval.ms (5 min 00 s)"
    )
    ((forced,), _) = planned(plain, is_forced=True)
    assert forced.reason.startswith("forced: ")
    plain.configure("t", **{"siltstone.table.bytes.min": "10"})
    ((large,), _) = planned(plain)
    assert large.reason.endswith("at least siltstone.table.bytes.min (10 B)")
    plain.configure("t", **{"siltstone.table.bytes.min": "1000000"})
    plain.clock.advance_ms(MINUTES_5 - 1)
    assert planned(plain)[0] == []
    plain.clock.advance_ms(1)
    assert len(planned(plain)[0]) == 1
    exported(plain, 1, 1)
    assert planned(plain) == ([], {"t": "all that is in objects is in table kafka.t"})


def test_two_topics_with_one_table_are_both_refused(plain: TableWorld) -> None:
    for name in ("a.b", "a-b"):
        (stream,) = plain.kept(name)
        plain.append_pairs(stream, [("k", "v")])
    (stream,) = plain.kept("c", name="kafka.a_b__errors")
    _, unplanned = planned(plain)
    assert unplanned["a-b"].startswith("topic a.b has the table kafka.a_b, too")
    assert unplanned["a.b"].startswith("topic a-b has the table kafka.a_b, too")
    assert unplanned["c"].endswith(", too: set siltstone.table.name of one of them")


def test_configurations_that_contradict_each_other_are_the_reason_why_a_topic_is_not_planned(
    plain: TableWorld,
) -> None:
    (stream,) = plain.kept(value="string", columns="a int")
    plain.append_pairs(stream, [("k", "v")])
    units, unplanned = planned(plain)
    assert units == []
    assert unplanned["t"] == (
        "siltstone.table.columns names fields of JSON values, but siltstone.table.value is string"
    )


def test_internal_topics_are_no_tables_though_the_stores_default_has_a_format(plain: TableWorld) -> None:
    configs = {"siltstone.table.format": "parquet"}
    for number, is_internal in enumerate((False, True)):
        topic_id = f"{number + 10:032x}"
        plain.metadata.execute(
            CreateTopic(0, 1, f"topic{number}", topic_id, 1, configs=configs, is_internal=is_internal)
        )
    assert list(exports(plain.image)) == ["topic0"]


def test_the_topic_with_most_bytes_is_exported_first_and_the_scope_is_kept(plain: TableWorld) -> None:
    for name, size in (("a", 10), ("b", 1_000), ("c", 100)):
        (stream,) = plain.kept(name)
        plain.append_pairs(stream, [("k", "x" * size)])
    assert [unit.name for unit in planned(plain)[0]] == ["b", "c", "a"]
    units, unplanned = planned(plain, topics=frozenset(["a", "c"]))
    assert [unit.name for unit in units] == ["c", "a"] and unplanned == {}


def test_an_export_by_a_machine_whose_clock_is_ahead_was_just_now(plain: TableWorld) -> None:
    (stream,) = plain.kept()
    plain.append_pairs(stream, [("a", "1")])
    exported(plain, 0)
    _, unplanned = planned(plain)
    image, earlier = plain.image, plain.clock.now_ms() - MINUTES_5
    (found,) = plan_exports(image, Scope(), earlier).unplanned
    assert found.reason == unplanned["t"] and ", 0 ms after the last export" in found.reason


def test_a_damaged_progress_counts_as_none(plain: TableWorld) -> None:
    (stream,) = plain.kept()
    plain.append_pairs(stream, [("a", "1")])
    exported(plain, 1)
    from siltstone.metadata.commands import PutKey
    from siltstone.tables.progress import key_of

    plain.metadata.execute(PutKey(key_of(plain.topic_named().topic_id), b"{", overwrite=True))
    assert len(planned(plain)[0]) == 1


def test_the_lag_counts_what_is_in_objects(plain: TableWorld) -> None:
    streams = plain.kept(partitions=2)
    plain.append_pairs(streams[0], [("a", "1")] * 10)
    image, topic = plain.image, plain.topic_named()
    whole = lag_of(image, topic, None)
    assert (whole.offsets, whole.partitions) == (10, 1) and whole.size_bytes > 0
    part = lag_of(image, topic, TableProgress(table="", table_format="", offsets={0: 5}))
    assert part.offsets == 5 and part.size_bytes == pytest.approx(whole.size_bytes / 2, abs=1)


def test_a_round_takes_at_least_an_offset_and_no_more_than_its_share(plain: TableWorld) -> None:
    from siltstone.tables.ledger import Ledger, TableIdentity

    streams = plain.kept(partitions=3)
    for stream_id in streams[:2]:
        for _ in range(4):
            plain.append_pairs(stream_id, [("a", "x" * 50)] * 5)
    export, nothing = exports(plain.image)["t"], Ledger(identity=TableIdentity("", ""))
    size = plain.stream(streams[0]).ranges[0].size_bytes
    for bytes_max, end in ((1, 1), (2 * size, 5), (4 * size, 10), (1_000_000, 20)):
        ranges = round_ranges(plain.image, export, nothing, None, bytes_max)
        assert ranges.ends == {0: end, 1: end, 2: 0}, bytes_max
        assert ranges.has_remaining == (end < 20)
    done = round_ranges(plain.image, export, nothing.after({0: 20, 1: 20, 2: 0}, "t", 1), None, 1)
    assert done.is_empty and not done.has_remaining


def test_unplanned_is_what_explain_shows(plain: TableWorld) -> None:
    plain.kept()
    assert isinstance(plan_exports(plain.image, Scope(), 0).unplanned[0], Unplanned)
