import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.list_transactions import ListTransactionsRequest
from support.broker.broker_world import in_broker_world


def answered(request: ListTransactionsRequest, version: int) -> tuple[int, list[str]]:
    found = []

    async def scenario(world):
        answer = await world.client().ask(request, version)
        assert answer.transaction_states == []
        found.append((answer.error_code, answer.unknown_state_filters))

    in_broker_world(scenario)
    return found[0]


@pytest.mark.parametrize("version", range(3))
def test_there_are_none(version):
    assert answered(ListTransactionsRequest(), version) == (0, [])


def test_states_that_kafka_does_not_know_are_named_once():
    asked = ListTransactionsRequest(state_filters=["Ongoing", "Odd", "PrepareEpochFence", "Odd", "ongoing"])
    assert answered(asked, 2) == (0, ["Odd", "ongoing"])


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        (None, 0),
        ("", 0),
        ("orders-.*", 0),
        ("(", ErrorCode.INVALID_REGULAR_EXPRESSION),
        ("x" * 1_001, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ("(" * 900 + ")" * 100, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_a_pattern_has_to_be_one(pattern, code):
    assert answered(ListTransactionsRequest(transactional_id_pattern=pattern), 2) == (code, [])
