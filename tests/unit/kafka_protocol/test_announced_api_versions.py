"""A connection's first question, in every version and in one that is not spoken."""

import pytest

from siltstone.kafka_protocol.announced import ANNOUNCED, api_versions_body, unsupported_version_body
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.codec import decode
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.malformed import UnknownVersion
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsResponse


@pytest.mark.parametrize("version", range(5))
def test_every_api_has_its_row(version: int) -> None:
    response = decode(ApiVersionsResponse, version, api_versions_body(version))
    rows = {ApiKey(row.api_key): (row.min_version, row.max_version) for row in response.api_keys}
    assert rows == dict(ANNOUNCED)
    assert (response.error_code, response.throttle_time_ms) == (ErrorCode.NONE, 0)
    names = {each.name for each in (*response.supported_features, *response.finalized_features)}
    assert names == ({"transaction.version", "group.version", "share.version"} if version >= 3 else set())


def test_groups_of_kip_848_are_there_when_all_nodes_have_them() -> None:
    response = decode(ApiVersionsResponse, 4, api_versions_body(4, (2, 0, 1)))
    missing = ANNOUNCED.keys() - {row.api_key for row in response.api_keys}
    assert missing == {ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE}
    assert {each.name for each in response.finalized_features} == {"transaction.version", "share.version"}


def test_share_groups_are_there_when_all_nodes_have_them() -> None:
    response = decode(ApiVersionsResponse, 4, api_versions_body(4, (2, 1, 0)))
    missing = {key.name for key in ANNOUNCED.keys() - {row.api_key for row in response.api_keys}}
    assert missing == {name for name in ApiKey.__members__ if "SHARE" in name} - {
        "INITIALIZE_SHARE_GROUP_STATE", "READ_SHARE_GROUP_STATE", "WRITE_SHARE_GROUP_STATE",
        "DELETE_SHARE_GROUP_STATE", "READ_SHARE_GROUP_STATE_SUMMARY",
    }  # fmt: skip


def test_the_bytes_are_made_once() -> None:
    assert api_versions_body(3) is api_versions_body(3)
    assert unsupported_version_body() is unsupported_version_body()


def test_a_later_version_is_answered_in_version_0_with_the_versions_to_ask_in() -> None:
    assert unsupported_version_body() == b"\x00\x23" + b"\x00\x00\x00\x01" + b"\x00\x12\x00\x00\x00\x04"
    assert (
        decode(ApiVersionsResponse, 0, unsupported_version_body()).error_code == ErrorCode.UNSUPPORTED_VERSION
    )
    with pytest.raises(UnknownVersion):
        api_versions_body(5)
