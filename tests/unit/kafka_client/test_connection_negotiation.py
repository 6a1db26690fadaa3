import pytest

from siltstone.kafka_client.connection import SpokenVersions
from siltstone.kafka_client.failures import RequestNotSpoken
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.messages.catalogue import CATALOGUE
from siltstone.kafka_protocol.messages.fetch import FetchRequest
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest
from siltstone.kafka_protocol.messages.metadata import MetadataRequest
from siltstone.kafka_protocol.messages.produce import ProduceRequest
from support.kafka.scripted_broker import EVERYTHING, spoken


def version_for(request: type, **ranges: tuple[int, int]) -> int:
    return SpokenVersions("here:9092", spoken(**ranges).api_keys).version_for(request)


def test_the_highest_that_both_speak() -> None:
    assert version_for(MetadataRequest, METADATA=(0, 12)) == 12
    assert version_for(MetadataRequest, METADATA=(0, 99)) == 13


def test_versions_that_name_topics_by_id_are_not_used() -> None:
    assert version_for(ProduceRequest, PRODUCE=(0, 13)) == 12
    assert version_for(FetchRequest, FETCH=(4, 18)) == 12


def test_a_version_that_kafka_has_not_settled_is_not_used() -> None:
    assert version_for(InitProducerIdRequest, INIT_PRODUCER_ID=(0, 6)) == 5


@pytest.mark.parametrize(
    ("ranges", "told"),
    [
        ({}, "does not support METADATA"),
        ({"METADATA": (0, 9)}, "supports versions 0 to 9 of METADATA"),
        ({"METADATA": (14, 20)}, "supports versions 14 to 20 of METADATA"),
    ],
)
def test_nothing_in_common(ranges: dict[str, tuple[int, int]], told: str) -> None:
    with pytest.raises(RequestNotSpoken, match=f"here:9092 {told}"):
        version_for(MetadataRequest, **ranges)


def test_everything_we_describe_can_be_asked_of_a_broker_that_knows_it() -> None:
    versions = SpokenVersions("here:9092", EVERYTHING.api_keys)
    assert versions.version_for(MetadataRequest) == 13


def test_no_version_from_before_kafka_3_0_is_written() -> None:
    """Above a broker's own highest version nothing is spoken; each is the lowest that has what the client relies on."""
    lowest = {
        "METADATA": 10,
        "LIST_OFFSETS": 7,
        "OFFSET_FETCH": 8,
        "FIND_COORDINATOR": 4,
        "DELETE_TOPICS": 6,
        "LIST_GROUPS": 4,
        "PRODUCE": 7,
        "FETCH": 10,
    }
    for name, version in lowest.items():
        request, _ = CATALOGUE[ApiKey[name]]
        assert version_for(request, **{name: (0, version)}) == version
        with pytest.raises(RequestNotSpoken, match=f"versions 0 to {version - 1} of {name}"):
            version_for(request, **{name: (0, version - 1)})


def test_offsets_of_groups_are_asked_in_versions_that_name_topics() -> None:
    """From version 10 on, OffsetCommit and OffsetFetch have topic ids."""
    assert version_for(CATALOGUE[ApiKey.OFFSET_COMMIT][0], OFFSET_COMMIT=(2, 10)) == 9
    assert version_for(CATALOGUE[ApiKey.OFFSET_FETCH][0], OFFSET_FETCH=(1, 10)) == 9
