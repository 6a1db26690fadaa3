from struct import pack

import pytest

from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.groups import assigned_partitions
from support.groups.consumer_bytes import assignment


def test_partitions_of_several_topics() -> None:
    data = assignment({"a": [0, 2], "größe": [1]})
    expected = (TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("größe", 1))
    assert assigned_partitions(data) == expected
    assert assigned_partitions(memoryview(data)) == expected


def test_a_member_that_waits_has_none() -> None:
    assert assigned_partitions(b"") == ()
    assert assigned_partitions(assignment({})) == ()


def test_no_prefix_is_taken_for_an_assignment_of_partitions_it_does_not_have() -> None:
    data = assignment({"topic": [1, 2, 3]})
    whole = len(data) - 4  # what follows is user data
    assert assigned_partitions(data[:whole]) != ()
    assert {assigned_partitions(data[:end]) for end in range(whole)} == {()}


@pytest.mark.parametrize(
    "data",
    [
        pack(">hi", 0, 2**31 - 1),
        pack(">hihi", 0, 1, -1, 0),
        pack(">hihi", 0, 1, 0, 2**30),
        b"\xff" * 40,
        pack(">hihi", 0, 1, -1, 0) + bytes(8),
        pack(">hihi", 0, 1, -4, 1) + bytes(20),
    ],
)
def test_bytes_that_are_something_else(data: bytes) -> None:
    assert assigned_partitions(data) == ()
