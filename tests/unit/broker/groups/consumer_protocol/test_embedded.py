"""What members of the classic protocol write and read: as clients write it, and in any other form."""

import pytest

from siltstone.broker.groups.consumer_protocol.embedded import (
    EmbeddedSubscription,
    read_assignment,
    read_subscription,
    written_assignment,
)
from support.groups.consumer_bytes import assignment, subscription

RACK = b"\x00\x03" + subscription("t")[2:] + b"\x00\x00\x00\x07" + b"\x00\x01r"


def test_a_subscription_of_each_version() -> None:
    owned = frozenset({("t", 0), ("t", 2), ("u", 1)})
    written = subscription("t", "u", user_data=b"mine", owned={"t": [0, 2], "u": [1]})
    assert read_subscription(written) == EmbeddedSubscription(1, ("t", "u"), owned)
    assert read_subscription(b"\x00\x00" + subscription("t")[2:]) == EmbeddedSubscription(0, ("t",))
    assert read_subscription(RACK) == EmbeddedSubscription(3, ("t",), frozenset(), "r")
    assert read_subscription(b"\x00\x09" + RACK[2:] + b"more") == EmbeddedSubscription(
        9, ("t",), frozenset(), "r"
    )


@pytest.mark.parametrize("written", [subscription("t", "u", owned={"t": [0, 2]}), RACK])
def test_a_subscription_that_ends_early_has_no_form(written: bytes) -> None:
    for length in range(len(written)):
        assert read_subscription(written[:length]) is None
    assert read_subscription(b"\x00\x01\x7f\xff\xff\xff" + written[6:]) is None
    assert read_subscription(b"\x00\x01\x00\x00\x00\x01\x00\x01\xff" + bytes(8)) is None


def test_an_assignment_is_written_as_clients_write_it() -> None:
    partitions = {"t": [0, 2], "u": [1]}
    keys = frozenset({("u", 1), ("t", 2), ("t", 0)})
    assert written_assignment(keys, 1) == assignment(partitions)
    assert read_assignment(assignment(partitions)) == keys
    assert read_assignment(b"") == frozenset()
    assert read_assignment(b"member-1") is None
    assert written_assignment([], 9)[:2] == b"\x00\x03", "the newest version that this program knows"
