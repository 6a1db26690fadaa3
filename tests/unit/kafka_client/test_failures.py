import pytest

from siltstone.kafka_client.failures import KafkaNotReady, KafkaRefusal, refusal, refuse_error, words_of
from siltstone.kafka_protocol.error_code import ErrorCode


def test_no_error_is_no_failure() -> None:
    refuse_error(0, "topic t")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, KafkaNotReady),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, KafkaNotReady),
        (ErrorCode.INVALID_CONFIG, KafkaRefusal),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, KafkaRefusal),
    ],
)
def test_what_passes_is_told_from_what_does_not(code: ErrorCode, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=f"topic t: .*{code.name}") as raised:
        refuse_error(code, "topic t")
    assert raised.value.code is code


def test_what_the_broker_says_comes_first() -> None:
    assert words_of(ErrorCode.INVALID_CONFIG, "Unknown name: x.") == "Unknown name: x (INVALID_CONFIG)"
    assert words_of(ErrorCode.NON_EMPTY_GROUP) == "the group has members: stop them first (NON_EMPTY_GROUP)"
    assert words_of(ErrorCode.STALE_BROKER_EPOCH) == "refused (STALE_BROKER_EPOCH)"


def test_a_code_of_the_future_is_a_failure_all_the_same() -> None:
    assert isinstance(refusal(9999, "topic t"), KafkaRefusal)
