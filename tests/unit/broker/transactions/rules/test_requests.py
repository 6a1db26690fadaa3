import pytest

from siltstone.broker.transactions.rules.requests import StartProducer, refusal_of
from siltstone.kafka_protocol.error_code import ErrorCode

LIMIT_MS = 900_000


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_tx13_a_timeout_beyond_the_limits_is_refused(timeout_ms: int) -> None:
    refusal = refusal_of("pay", StartProducer(timeout_ms), LIMIT_MS)
    assert refusal is ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("timeout_ms", [1, 900_000])
def test_tx13_a_timeout_within_them_is_not(timeout_ms: int) -> None:
    assert refusal_of("pay", StartProducer(timeout_ms), LIMIT_MS) is None


@pytest.mark.parametrize(
    ("transactional_id", "request_of_client"),
    [
        ("", StartProducer(1)),
        ("pay", StartProducer(1, 7, -1)),
        ("pay", StartProducer(1, -1, 3)),
        ("", StartProducer(0)),
    ],
)
def test_tx14_an_empty_id_and_half_of_a_producer_are_refused(
    transactional_id: str, request_of_client: StartProducer
) -> None:
    assert refusal_of(transactional_id, request_of_client, LIMIT_MS) is ErrorCode.INVALID_REQUEST


def test_a_whole_producer_is_taken() -> None:
    assert refusal_of("pay", StartProducer(1, 7, 3), LIMIT_MS) is None
