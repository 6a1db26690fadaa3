"""Objects, their ranges and buckets: what is live, what is dead, and whose it is."""

import pytest

from support.metadata.queried_store import queried, queried_world


def test_an_object_has_a_row_in_each_of_its_states() -> None:
    rows = queried().objects.rows(["object_id", "kind", "state", "topic", "ranges"])
    assert rows == [
        {"object_id": 0, "kind": "SSO", "state": "COMMITTED", "topic": None, "ranges": 2},
        {"object_id": 1, "kind": "SO", "state": "COMMITTED", "topic": "flights", "ranges": 1},
        {"object_id": 2, "kind": "SSO", "state": "DESTROYED", "topic": None, "ranges": 0},
        {"object_id": 3, "kind": "SO", "state": "COMMITTED", "topic": "flights", "ranges": 1},
        {"object_id": 4, "kind": None, "state": "PREPARED", "topic": None, "ranges": 0},
    ]


def test_bytes_are_live_while_any_offset_of_their_range_is() -> None:
    """The first ten offsets of stream 0 are trimmed as a whole; the next twenty only in part."""
    rows = queried().objects.rows(["bytes", "live_bytes", "dead_bytes"])
    assert [tuple(row.values()) for row in rows] == [
        (270, 70, 200),
        (300, 200, 100),
        (150, 0, 150),
        (150, 50, 100),
        (0, 0, 0),
    ]


def test_times_are_null_where_nothing_has_happened() -> None:
    world = queried_world()
    rows = queried(world).objects.rows(["committed_at", "deadline_at", "destroyed_at", "destroyed_version"])
    assert [[value is None for value in row.values()] for row in rows] == [
        [False, True, True, False],
        [False, True, True, False],
        [False, True, False, False],
        [False, True, True, False],
        [True, False, True, False],
    ]
    assert rows[0]["committed_at"].timestamp() * 1_000 == world.image.objects[0].committed_ms
    assert rows[2]["destroyed_version"] == world.image.objects[2].destroyed_version > 0


def test_ranges_name_the_partition_and_say_what_is_live() -> None:
    rows = queried().object_ranges.rows(
        ["object_id", "topic", "partition", "role", "offsets", "bytes", "is_live"]
    )
    assert [tuple(row.values()) for row in rows] == [
        (0, "flights", 0, "data", 10, 100, False),
        (0, "planes", 0, "data", 7, 70, True),
        (1, "flights", 0, "data", 20, 200, True),
        (3, "flights", 1, "data", 5, 50, True),
    ]


@pytest.mark.parametrize(("topic", "ids"), [("flights", [0, 1, 3]), ("planes", [0]), ("trains", [])])
def test_one_topic_has_the_objects_that_hold_any_of_it(topic: str, ids: list[int]) -> None:
    tables = queried()
    assert [row["object_id"] for row in tables.objects.rows(["object_id"], topic=topic)] == ids
    ranges = tables.object_ranges.rows(["object_id", "topic"], topic=topic)
    assert {row["object_id"] for row in ranges} == set(ids)
    assert {row["topic"] for row in ranges} <= {topic}


def test_a_page_of_rows_is_the_part_of_all_rows() -> None:
    tables = queried()
    for table in (tables.objects, tables.object_ranges):
        rows = table.rows()
        assert [table.rows(limit=2, offset=first) for first in range(5)] == [
            rows[first : first + 2] for first in range(5)
        ]


def test_a_bucket_has_its_objects_by_state_and_hides_credentials() -> None:
    assert queried().buckets.rows() == [
        {
            "bucket": 0, "url": "s3://key:****@bucket/store", "state": "writable", "weight": 1, "objects": 3,
            "bytes": 720, "destroyed_objects": 1, "destroyed_bytes": 150, "prepared_objects": 1,
        }
    ]  # fmt: skip
