"""Functions are made once, when first asked for."""

import traceback

import pytest

from siltstone.kafka_protocol.compiling.compiled import decoder_of, encoder_of, is_flexible
from siltstone.kafka_protocol.malformed import UnknownVersion
from siltstone.kafka_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from siltstone.kafka_protocol.messages.offset_delete import OffsetDeleteRequest


def test_made_once() -> None:
    assert decoder_of(HeartbeatRequest, 3, False) is decoder_of(HeartbeatRequest, 3, False)
    assert encoder_of(HeartbeatRequest, 3) is encoder_of(HeartbeatRequest, 3)
    made = [
        decoder_of(HeartbeatRequest, 3, False),
        decoder_of(HeartbeatRequest, 3, True),
        decoder_of(HeartbeatRequest, 4, False),
        decoder_of(HeartbeatResponse, 3, False),
    ]
    assert len({*made}) == 4


def test_flexible_from_a_version_on_or_never() -> None:
    assert [is_flexible(HeartbeatRequest, version) for version in (3, 4)] == [False, True]
    assert not is_flexible(OffsetDeleteRequest, 0)


@pytest.mark.parametrize("version", [-1, 5])
def test_versions_that_there_are_not(version: int) -> None:
    with pytest.raises(UnknownVersion, match=f"HeartbeatRequest has versions 0 to 4, not {version}"):
        decoder_of(HeartbeatRequest, version, False)
    with pytest.raises(UnknownVersion):
        encoder_of(HeartbeatRequest, version)


def test_a_traceback_names_the_message() -> None:
    with pytest.raises(IndexError) as caught:
        decoder_of(HeartbeatRequest, 4, False)(b"")
    assert "<HeartbeatRequest v4 decoder>" in "".join(traceback.format_tb(caught.value.__traceback__))
