"""Kafka's error codes, held against kio's list of them."""

from kio.schema.errors import ErrorCode as KioErrorCode

from siltstone.kafka_protocol.error_code import ErrorCode


def test_they_are_kafka_s() -> None:
    assert {code.name.lower(): int(code) for code in ErrorCode} == {
        code.name: int(code) for code in KioErrorCode
    }
    assert len(ErrorCode) == 135
