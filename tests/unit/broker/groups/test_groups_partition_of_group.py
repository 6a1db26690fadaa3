"""Java's hash of a String, and the partition it gives."""

import pytest

from siltstone.broker.groups.groups import java_string_hash, partition_of_group

HASHES = {  # as jshell of OpenJDK 17 says
    "": 0,
    "a": 97,
    "abc": 96354,
    "hello world": 1794106052,
    "connect-cluster": 1440343063,
    "polygenelubricants": -2147483648,
    "né": 3643,
    "𝒳": 1772318,
}


@pytest.mark.parametrize(("text", "expected"), HASHES.items())
def test_hash_is_that_of_java(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


@pytest.mark.parametrize(
    ("text", "partition"), [("", 0), ("abc", 4), ("connect-cluster", 13), ("polygenelubricants", 0)]
)
def test_partition_of_fifty(text: str, partition: int) -> None:
    assert partition_of_group(text, 50) == partition
