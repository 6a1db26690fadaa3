"""Kafka's API keys, held against kio's messages."""

from kio.index import load_request_schema

from siltstone.kafka_protocol.api_key import ApiKey

BETWEEN_BROKERS = {4, 5, 6, 7}


def test_they_are_kafka_s() -> None:
    for key in ApiKey:
        name = load_latest(int(key)).removesuffix("Request")
        assert key.name.replace("_", "").lower() == name.lower()
    assert sorted(ApiKey) == sorted(set(range(93)) - BETWEEN_BROKERS)


def load_latest(key: int) -> str:
    for version in range(20):
        try:
            return load_request_schema(key, version).__name__
        except Exception:
            continue
    raise AssertionError(f"kio knows no API {key}")
