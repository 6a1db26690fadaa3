"""The one table from our errors to Kafka's codes."""

import importlib
import pkgutil

import pytest

import siltstone
from siltstone.broker.error_codes import CODES, error_code, error_message
from siltstone.broker.partitions.partitions import PartitionGone
from siltstone.broker.partitions.producer_state import OutOfOrderSequence, StaleProducerEpoch
from siltstone.kafka_protocol import batch_errors
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.metadata.client import CommitUnknown
from siltstone.metadata.refusals import StreamFenced, StreamNotClosed, TopicNameCollides
from siltstone.model import errors
from siltstone.stream_engine.errors import EngineNotRunning, EngineOverloaded, ReadRangeNotCovered

PACKAGES = (
    "metadata",
    "stream_engine",
    "object_store",
    "object_formats",
    "kafka_protocol",
    "broker",
    "model",
)


def all_errors() -> list[type[errors.SiltstoneError]]:
    """Of everything a handler may meet."""
    for package in PACKAGES:
        root = importlib.import_module(f"siltstone.{package}")
        for module in pkgutil.walk_packages(root.__path__, f"siltstone.{package}."):
            if "postgres" not in module.name and ".s3" not in module.name:
                importlib.import_module(module.name)
    found, left = [], list(errors.SiltstoneError.__subclasses__())
    while left:
        kind = left.pop()
        found.append(kind)
        left += kind.__subclasses__()
    driver = f"{siltstone.__name__}.carrying.pipeline."  # loaded by other tests, met by no handler
    return [
        kind
        for kind in found
        if kind.__module__.startswith(siltstone.__name__) and not kind.__module__.startswith(driver)
    ]


def code_of(kind: type[BaseException]) -> ErrorCode:
    return error_code(kind.__new__(kind))


def test_every_error_we_raise_on_purpose_has_a_code_of_its_own(caplog):
    """Item 13: UNKNOWN_SERVER_ERROR is for faults of ours."""
    kinds = all_errors()
    assert len(kinds) > 60
    assert ErrorCode.UNKNOWN_SERVER_ERROR not in {code_of(kind) for kind in kinds}
    assert caplog.records == []


RETRIED = {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
}


@pytest.mark.parametrize("group", [errors.Unavailable, errors.Stale])
def test_item_13_what_is_to_be_tried_again_has_a_code_that_clients_try_again_for(group):
    kinds = [kind for kind in all_errors() if issubclass(kind, group)]
    assert {code_of(kind) for kind in kinds} <= RETRIED


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (batch_errors.BatchChecksumWrong, ErrorCode.CORRUPT_MESSAGE),
        (batch_errors.BatchTooLarge, ErrorCode.MESSAGE_TOO_LARGE),
        (batch_errors.DecompressionFailed, ErrorCode.INVALID_RECORD),
        (OutOfOrderSequence, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (StaleProducerEpoch, ErrorCode.INVALID_PRODUCER_EPOCH),
        (EngineOverloaded, ErrorCode.REQUEST_TIMED_OUT),
        (EngineNotRunning, ErrorCode.KAFKA_STORAGE_ERROR),
        (ReadRangeNotCovered, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (StreamFenced, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (StreamNotClosed, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (PartitionGone, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (CommitUnknown, ErrorCode.KAFKA_STORAGE_ERROR),
        (TopicNameCollides, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (errors.CorruptData, ErrorCode.KAFKA_STORAGE_ERROR),
        (errors.InvalidRequest, ErrorCode.INVALID_REQUEST),
    ],
)
def test_codes(kind, code):
    assert code_of(kind) is code


def test_the_most_special_class_counts():
    class Special(batch_errors.BatchTooLarge):
        """Not in the table."""

    assert error_code(Special("text")) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("failure", [ZeroDivisionError("oh"), AssertionError(), OSError("disk")])
def test_a_fault_of_ours_is_logged(failure, caplog):
    assert error_code(failure) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert repr(failure) in caplog.text


def test_texts():
    assert error_message(EngineOverloaded("ask again")) == "ask again"
    assert error_message(EngineOverloaded()) == "EngineOverloaded"
    assert error_message(EngineOverloaded("x" * 1_000)) == "x" * 1_000
    assert error_message(EngineOverloaded("x" * 40_000)) == "x" * 1_000 + "…"


def test_only_errors_of_ours_are_in_the_table():
    assert all(issubclass(kind, errors.SiltstoneError) for kind in CODES)
