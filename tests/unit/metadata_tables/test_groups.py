"""The lag of groups in records and in seconds, from what they have committed and from what objects hold."""

from siltstone.metadata_tables.moment import GroupCommit
from support.metadata.queried_store import queried, queried_world


def test_the_lag_is_what_is_left_and_how_long_it_has_been_there() -> None:
    """flights-0 goes on at offset 15, in the object that was uploaded three seconds ago."""
    rows = queried().group_lags.rows(["group", "partition", "lag_records", "lag_seconds", "metadata"])
    assert [tuple(row.values()) for row in rows] == [
        ("done", 0, 0, 0.0, ""),
        ("late", 0, 15, 3.0, "note"),
        ("late", 1, 0, 0.0, ""),
    ]


def test_a_group_has_the_sum_of_its_records_and_the_longest_of_its_seconds() -> None:
    rows = queried().groups.rows()
    assert [(row["group"], row["topics"], row["partitions"], row["lag_records"]) for row in rows] == [
        ("done", 1, 1, 0),
        ("late", 1, 2, 15),
    ]
    assert [(row["lag_seconds"], row["committed_at"] is None) for row in rows] == [(0.0, True), (3.0, False)]


def test_records_below_the_start_are_not_waited_for() -> None:
    commits = [GroupCommit("early", "flights", 0, 3)]
    (row,) = queried(commits=lambda: commits).group_lags.rows()
    assert (row["committed_offset"], row["start_offset"], row["lag_records"]) == (3, 12, 18)


def test_the_age_of_what_is_in_no_object_is_not_known() -> None:
    commits = [GroupCommit("quick", "flights", 0, 30)]
    (row,) = queried(commits=lambda: commits, ends={0: 40}).group_lags.rows()
    assert (row["lag_records"], row["lag_seconds"]) == (10, None)


def test_an_offset_of_an_earlier_topic_of_the_name_is_left_out() -> None:
    world = queried_world()
    created_ms = world.image.topics["f" * 32].created_ms
    commits = [
        GroupCommit("before", "flights", 0, 3, created_ms - 1),
        GroupCommit("since", "flights", 0, 3, created_ms),
        GroupCommit("beyond", "flights", 2, 3, created_ms),
    ]
    rows = queried(world, commits=lambda: commits).group_lags.rows()
    assert [row["group"] for row in rows] == ["since"]


def test_one_topic_has_the_groups_that_read_it() -> None:
    assert queried().groups.rows(topic="planes") == []
    assert len(queried().groups.rows(topic="flights")) == 2
