"""The copy of the ledger in the metadata, and the kinds of maintenance that wait for it."""

import pytest

from siltstone.maintenance.kinds import _bounds
from siltstone.metadata.commands import PutKey
from siltstone.model.limits import DAY_MS
from siltstone.offline.topic_streams import topic_streams
from siltstone.tables.progress import (
    DamagedTableProgress,
    TableProgress,
    bound_of,
    key_of,
    progress_of,
    put_progress,
    remove_progress,
    topics_gone,
)
from support.maintenance.table_world import TableWorld

PROGRESS = TableProgress(
    table="kafka.t",
    table_format="iceberg",
    offsets={0: 12, 3: 7},
    exported_ms=5,
    rows=4,
    dead_letters=2,
    lost=1,
    swept_ms=3,
)


def test_its_bytes_are_these() -> None:
    put = put_progress("00ff", PROGRESS)
    assert put.key == "table-progress/00ff"
    assert put.value == (
        b'{"table":"kafka.t","table_format":"iceberg","offsets":{"0":12,"3":7},"exported_ms":5,"rows":4,'
        b'"dead_letters":2,"lost":1,"swept_ms":3,"version":1}'
    )


def test_it_is_read_and_removed(plain: TableWorld) -> None:
    assert progress_of(plain.image, "00ff") is None
    plain.metadata.execute(put_progress("00ff", PROGRESS))
    assert progress_of(plain.image, "00ff") == PROGRESS
    plain.metadata.execute(remove_progress("00ff"))
    assert progress_of(plain.image, "00ff") is None


def test_counts_that_a_value_lacks_are_0(plain: TableWorld) -> None:
    value = b'{"table": "kafka.t", "table_format": "iceberg", "version": 1}'
    plain.metadata.execute(PutKey(key_of("00ff"), value, overwrite=True))
    found = progress_of(plain.image, "00ff")
    assert found is not None and found.offsets == {}
    counts = (found.exported_ms, found.rows, found.dead_letters, found.lost, found.swept_ms)
    assert counts == (0, 0, 0, 0, 0)


def test_topics_that_were_deleted_are_found_by_what_is_left_of_them(plain: TableWorld) -> None:
    plain.kept()
    there = plain.topic_named().topic_id
    for topic_id in ("f" * 32, there, "e" * 32):
        plain.metadata.execute(put_progress(topic_id, PROGRESS))
    plain.metadata.execute(PutKey("group-progress/g", b"{}", overwrite=True))
    assert topics_gone(plain.image) == ["e" * 32, "f" * 32]


@pytest.mark.parametrize(
    "value", [b"{", b"\xff", b"[]", b'{"table": "t", "table_format": "x", "version": 2}']
)
def test_damage_and_a_newer_version_have_a_name(plain: TableWorld, value: bytes) -> None:
    plain.metadata.execute(PutKey(key_of("00ff"), value, overwrite=True))
    with pytest.raises(DamagedTableProgress, match="the progress of a table"):
        progress_of(plain.image, "00ff")


def bound(world: TableWorld) -> tuple[int, str] | None:
    (held,) = [each for each in topic_streams(world.image).values() if each.role.name == "BATCHES"]
    return bound_of(world.image)(held)


def test_a_table_limits_retention_only_where_that_is_asked_for(plain: TableWorld) -> None:
    (stream,) = plain.kept()
    plain.append_pairs(stream, [("a", "1")] * 3)
    assert bound(plain) is None
    plain.set_table(retention="true")
    why = "the records from offset {} on are not in table kafka.t yet"
    assert bound(plain) == (0, why.format(0))
    plain.export_now()
    assert bound(plain) == (3, why.format(3))
    topic_id = plain.topic_named().topic_id
    plain.metadata.execute(PutKey(key_of(topic_id), b"{", overwrite=True))
    assert bound(plain) == (0, why.format(0)), "one that cannot be read counts as nothing exported"
    plain.set_table(format="")
    assert bound(plain) is None


def test_of_groups_and_tables_the_slowest_limits_retention(plain: TableWorld) -> None:
    (stream,) = plain.kept(retention="true")
    plain.configure("t", **{"siltstone.retention.ack": "true", "siltstone.retention.groups": "readers"})
    plain.append_pairs(stream, [("a", "1")] * 3)
    plain.export_now()
    (held,) = [each for each in topic_streams(plain.image).values() if each.role.name == "BATCHES"]
    found = _bounds(plain.image)(held)
    assert found is not None and found[0] == 0 and "group readers" in found[1]


def test_retention_and_key_compaction_wait_for_the_table(plain: TableWorld) -> None:
    configs = {"siltstone.table.format": "parquet", "siltstone.table.retention": "true", "retention.ms": "1"}
    (stream,) = plain.topic("t", **configs, **{"cleanup.policy": "compact,delete"})
    plain.append_pairs(stream, [("a", "1"), ("a", "2"), ("a", "3")])
    plain.roll(stream)
    plain.clock.advance_ms(DAY_MS)
    assert not plain.compact(is_forced=True).done
    assert retained(plain) == "t-0: the records from offset 0 on are not in table kafka.t yet"
    plain.export_now()
    assert plain.places() == [(0, 0), (0, 1), (0, 2)]
    assert plain.compact(is_forced=True).done
    assert retained(plain) == ""


def retained(world: TableWorld) -> str:
    """Why retention trims nothing; empty when it would trim."""
    from siltstone.carrying.pipeline.kind import Scope
    from siltstone.maintenance.retention.planning import plan_retention

    planned = plan_retention(world.image, Scope(), world.clock.now_ms(), _bounds(world.image))
    return planned.unplanned[0].reason if planned.unplanned else ""
