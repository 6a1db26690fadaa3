"""The announced ranges, held against Kafka's as two libraries know them."""

from kio.index import load_request_schema

from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.messages.catalogue import CATALOGUE


def test_all_that_is_described_is_announced() -> None:
    assert CATALOGUE.keys() == ANNOUNCED.keys()


def test_the_ranges_are_those_described_but_for_two() -> None:
    described = {key: request.versions for key, (request, _) in CATALOGUE.items()}
    different = {
        key: (ANNOUNCED[key], described[key]) for key in ANNOUNCED if ANNOUNCED[key] != described[key]
    }
    assert different == {
        ApiKey.PRODUCE: ((0, 13), (3, 13)),
        ApiKey.INIT_PRODUCER_ID: ((0, 5), (0, 6)),
    }


def test_requests_and_responses_have_the_same_versions() -> None:
    assert [
        key for key, (request, response) in CATALOGUE.items() if request.versions != response.versions
    ] == []
    assert [
        key for key, pair in CATALOGUE.items() if any(message.api_key is not key for message in pair)
    ] == []


def test_kafka_has_no_later_version() -> None:
    later = []
    for key, (request, _) in CATALOGUE.items():
        try:
            load_request_schema(int(key), request.versions[1] + 1)
        except Exception:
            continue
        later.append(key)
    assert later == []


def test_what_old_librdkafka_looks_for_is_there() -> None:
    """Before 2.11.1 it tests features by these very versions (rdkafka_feature.c)."""
    looked_for = {
        ApiKey.PRODUCE: (0, 3, 7),
        ApiKey.FETCH: (4, 10),
        ApiKey.FIND_COORDINATOR: (0,),
        ApiKey.OFFSET_COMMIT: (2,),
        ApiKey.OFFSET_FETCH: (1,),
        ApiKey.JOIN_GROUP: (0,),
        ApiKey.SYNC_GROUP: (0,),
        ApiKey.HEARTBEAT: (0,),
        ApiKey.LEAVE_GROUP: (0,),
        ApiKey.LIST_OFFSETS: (1,),
        ApiKey.INIT_PRODUCER_ID: (0,),
    }
    missing = {
        (key, version)
        for key, versions in looked_for.items()
        for version in versions
        if not ANNOUNCED[key][0] <= version <= ANNOUNCED[key][1]
    }
    assert missing == set()
