import pytest

from siltstone.cli.topics.configure import NoAssignment, parse_assignments


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


@pytest.mark.parametrize("text", ["", "retention.ms", "=1", " =1"])
def test_what_is_no_assignment(text: str) -> None:
    with pytest.raises(NoAssignment, match=r"--config .* NAME=VALUE"):
        parse_assignments([text], "--config")
