import pytest

from siltstone.maintenance.retention.groups import (
    DamagedGroupProgress,
    GroupProgress,
    committed_offset,
    decode_progress,
    encode_progress,
    is_waited_for,
    key_of,
)
from siltstone.model.errors import CorruptData
from support.broker.acked_topics import TOPIC_ID, acked_image, at

PROGRESS = GroupProgress({TOPIC_ID: (5, -1, 2**40)}, ("f" * 32,))
GOLDEN = (
    b'{"offsets":{"0123456789abcdef0123456789abcdef":[5,-1,1099511627776]},'
    b'"let_go":["ffffffffffffffffffffffffffffffff"],"version":1}'
)


def test_its_bytes_stay_what_they_are():
    assert encode_progress(PROGRESS) == GOLDEN
    assert decode_progress(GOLDEN) == PROGRESS
    assert key_of("readers") == "group-progress/readers"


@pytest.mark.parametrize(
    "damaged", [b"", b"[]", b"\xff\xfe", GOLDEN[:-1], GOLDEN + b"x", GOLDEN.replace(b"5,", b'"5",')]
)
def test_damage_has_a_name(damaged):
    with pytest.raises(DamagedGroupProgress, match="cannot be read") as caught:
        decode_progress(damaged)
    assert isinstance(caught.value, CorruptData)


def test_a_newer_version_is_refused():
    with pytest.raises(DamagedGroupProgress, match="version 2; this program reads 1"):
        decode_progress(GOLDEN.replace(b'"version":1', b'"version":2'))


def test_what_a_group_has_committed():
    image = acked_image({}, {"readers": GroupProgress({TOPIC_ID: (7, -1)})})
    assert committed_offset(image, "readers", TOPIC_ID, 0) == 7
    assert committed_offset(image, "readers", TOPIC_ID, 1) is None
    assert committed_offset(image, "readers", TOPIC_ID, 2) is None, "a partition that was added meanwhile"
    assert committed_offset(image, "readers", "another", 0) is None
    assert committed_offset(image, "others", TOPIC_ID, 0) is None


def test_a_group_that_was_let_go_is_not_waited_for_where_it_was():
    image = acked_image({}, {"gone": GroupProgress(let_go=(TOPIC_ID,)), "here": at(1)})
    assert not is_waited_for(image, "gone", TOPIC_ID)
    assert is_waited_for(image, "gone", "a topic that names it since")
    assert is_waited_for(image, "here", TOPIC_ID)
    assert is_waited_for(image, "never seen", TOPIC_ID)
