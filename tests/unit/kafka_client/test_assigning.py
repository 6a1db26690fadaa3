import pytest

from siltstone.kafka_client.assigning import (
    assigned_by_range,
    subscribed_topics,
    written_assignment,
    written_subscription,
)
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.groups import assigned_partitions
from support.groups.consumer_bytes import subscription


def test_what_is_written_is_read_again() -> None:
    assert subscribed_topics(written_subscription(["a", "\u00e4"])) == ("a", "\u00e4")
    partitions = (TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1))
    assert assigned_partitions(written_assignment(partitions)) == partitions
    assert assigned_partitions(written_assignment([])) == ()


def test_the_bytes_are_those_of_the_protocol() -> None:
    assert written_subscription(["ab"]).hex(" ") == "00 00 00 00 00 01 00 02 61 62 ff ff ff ff"
    assert (
        written_assignment([TopicPartition("a", 7)]).hex(" ")
        == "00 00 00 00 00 01 00 01 61 00 00 00 01 00 00 00 07 ff ff ff ff"
    )


def test_later_versions_have_more_at_the_end() -> None:
    later = subscription("a", "b", user_data=b"x", owned={"a": [1]})
    assert subscribed_topics(later) == ("a", "b")


@pytest.mark.parametrize("data", [b"", b"\0\0\0\0\0\1", b"\0\0\0\0\0\1\0\5a", b"\0\0\0\0\0\1\0\1\xff"])
def test_bytes_of_another_format_are_no_topics(data: bytes) -> None:
    assert subscribed_topics(data) == ()


def numbers(assigned: dict[str, list[TopicPartition]]) -> dict[str, list[str]]:
    return {member: list(map(str, partitions)) for member, partitions in assigned.items()}


def test_each_topic_is_cut_into_ranges_and_the_first_members_get_one_more() -> None:
    everybody = {"m2": ("a", "b"), "m1": ("a", "b")}
    assert numbers(assigned_by_range(everybody, {"a": [2, 0, 1], "b": [0]})) == {
        "m2": ["a-2"],
        "m1": ["a-0", "a-1", "b-0"],
    }


def test_who_has_not_subscribed_gets_nothing_and_no_partition_is_lost_or_doubled() -> None:
    assigned = assigned_by_range(
        {"m1": ("a",), "m2": ("b",), "m3": ("a",), "m4": ()}, {"a": range(5), "b": [0]}
    )
    assert numbers(assigned) == {
        "m1": ["a-0", "a-1", "a-2"],
        "m2": ["b-0"],
        "m3": ["a-3", "a-4"],
        "m4": [],
    }
    assert assigned_by_range({"m": ("a",)}, {"gone": [0]}) == {"m": []}
