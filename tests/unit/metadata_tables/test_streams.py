"""Topics, partitions and streams: their offsets and bytes, and what a topic is configured to keep."""

from datetime import UTC, datetime

from siltstone.metadata.commands import DeleteTopic
from support.metadata.queried_store import FLIGHTS, queried, queried_world


def test_a_topic_has_the_sums_over_its_partitions() -> None:
    flights, planes = queried().topics.rows()
    assert flights == {
        "topic": "flights", "topic_id": FLIGHTS, "partitions": 2, "is_internal": False,
        "created_at": datetime.fromtimestamp(1_000_000, UTC), "offsets": 23, "bytes": 350, "meta_bytes": 0,
        "objects": 3, "newest_at": datetime.fromtimestamp(0.030, UTC), "cleanup_policy": "delete",
        "retention_ms": 3_600_000, "retention_bytes": None, "configs": '{"retention.ms":"3600000"}',
    }  # fmt: skip
    assert (planes["topic"], planes["bytes"], planes["configs"]) == ("planes", 70, "{}")


def test_a_partition_has_its_offsets_and_its_leader() -> None:
    rows = queried().partitions.rows()
    assert [(row["topic"], row["partition"], row["leader"], row["target"]) for row in rows] == [
        ("flights", 0, 0, None),
        ("flights", 1, 0, None),
        ("planes", 0, 0, None),
    ]
    assert [(row["start_offset"], row["end_offset"], row["offsets"]) for row in rows] == [
        (12, 30, 18),
        (0, 5, 5),
        (0, 7, 7),
    ]
    assert [(row["bytes"], row["objects"], row["state"]) for row in rows] == [
        (300, 2, "OPENED"), (50, 1, "OPENED"), (70, 1, "OPENED"),
    ]  # fmt: skip


def test_a_caller_may_know_a_later_end() -> None:
    tables = queried(ends={0: 100, 2: 3})
    assert [row["end_offset"] for row in tables.partitions.rows(["end_offset"])] == [100, 5, 7]


def test_streams_of_a_deleted_topic_keep_its_name_while_objects_hold_them() -> None:
    world = queried_world()
    world.do(DeleteTopic(0, 1, FLIGHTS))
    tables = queried(world)
    rows = [row for row in tables.streams.rows() if row["topic"] == "flights"]
    assert [(row["stream_id"], row["state"], row["role"], row["is_deleted"]) for row in rows] == [
        (0, "DELETED", "data", True)
    ]
    assert [row["live_bytes"] for row in tables.objects.rows()][:2] == [70, 0]
    assert [row["topic"] for row in tables.topics.rows()] == ["planes"]


def test_one_topic_has_its_rows_alone() -> None:
    tables = queried()
    for table in (tables.topics, tables.partitions, tables.streams):
        rows = table.rows()
        assert table.rows(topic="planes") == [row for row in rows if row["topic"] == "planes"] != []
        assert table.rows(topic="trains") == []
