import pytest

from siltstone.cli.topics.configure import NoAssignment, parse_assignments, refusals_explained
from siltstone.kafka_client.failures import KafkaRefusal
from siltstone.kafka_protocol.error_code import ErrorCode


def test_names_and_values() -> None:
    texts = ["retention.ms=1", "a = b=c ", "empty="]
    assert parse_assignments(texts, "--config") == {"retention.ms": "1", "a": "b=c", "empty": ""}


@pytest.mark.parametrize(
    ("text", "value"),
    [("retention.ms=7d", "604800000"), ("segment.bytes=16MiB", "16777216"), ("retention.ms=-1", "-1"),
     ("min.cleanable.dirty.ratio=0.5", "0.5"), ("retention.ms=7x", "7x"), ("cleanup.policy=compact", "compact")],
)  # fmt: skip
def test_quantities_with_units(text: str, value: str) -> None:
    assert list(parse_assignments([text], "--config").values()) == [value]


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("retention.mss", "1", "Unknown: did you mean retention.ms?"),
        ("zzz", "1", "Unknown: siltstone topics describe TOPIC --all lists all names"),
        ("retention.ms", "banana", "Unknown: write retention.ms=7d or 604800000"),
        ("segment.bytes", "1x", "Unknown: write segment.bytes=64MiB or 67108864"),
        ("retention.ms", "-5", "Unknown."),
        ("cleanup.policy", "banana", "Unknown."),
    ],
)
def test_a_refused_configuration_gets_a_hint(name: str, value: str, hint: str) -> None:
    with pytest.raises(KafkaRefusal) as refused, refusals_explained({name: value}):
        raise KafkaRefusal(ErrorCode.INVALID_CONFIG, "Unknown.")
    assert (str(refused.value), refused.value.code) == (hint, ErrorCode.INVALID_CONFIG)


def test_other_refusals_are_as_they_were() -> None:
    with pytest.raises(KafkaRefusal, match="There already"), refusals_explained({"zzz": "1"}):
        raise KafkaRefusal(ErrorCode.TOPIC_ALREADY_EXISTS, "There already")


@pytest.mark.parametrize("text", ["", "retention.ms", "=1", " =1"])
def test_what_is_no_assignment(text: str) -> None:
    with pytest.raises(NoAssignment, match=r"--config .* NAME=VALUE"):
        parse_assignments([text], "--config")
