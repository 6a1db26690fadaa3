"""Topics in a subscription, and bytes that are none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.broker.groups.rules.group import topics_of
from support.groups.consumer_bytes import subscription
from support.values.examples import examples

WHOLE = subscription("flights", "plänes", user_data=b"sticky", owned={"flights": [1, 2]})


def test_topics_are_read_whatever_comes_after_them() -> None:
    assert topics_of(WHOLE) == {"flights", "plänes"}
    assert topics_of(b"\x00\x03" + WHOLE[2:] + b"rack") == {"flights", "plänes"}
    assert topics_of(subscription()) == frozenset()
    assert topics_of(subscription("", "flights")) == {"", "flights"}


@pytest.mark.parametrize("end", range(6 + 9 + 9))
def test_truncated_it_is_none(end: int) -> None:
    assert topics_of(WHOLE[:end]) is None


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        bytes.fromhex("0000 ffffffff"),
        bytes.fromhex("0000 7fffffff 0001 61"),
        bytes.fromhex("0000 00000001 ffff"),
        bytes.fromhex("0000 00000001 0001 ff"),
    ],
    ids=bytes.hex,
)
def test_other_bytes_are_none(metadata: bytes) -> None:
    assert topics_of(metadata) is None


@settings(max_examples=examples(200))
@given(st.binary(max_size=40))
def test_anything_is_read_without_an_error(metadata: bytes) -> None:
    topics = topics_of(metadata)
    assert topics is None or sum(len(topic.encode()) for topic in topics) <= len(metadata)
