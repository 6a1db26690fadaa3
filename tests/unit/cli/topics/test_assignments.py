import pytest

from siltstone.cli.topics.assignments import NoAssignment, parse_assignments


def test_names_and_values() -> None:
    texts = ["retention.ms=1", "a = b=c ", "empty="]
    assert parse_assignments(texts, "--config") == {"retention.ms": "1", "a": "b=c", "empty": ""}


@pytest.mark.parametrize("text", ["", "retention.ms", "=1", " =1"])
def test_what_is_no_assignment(text: str) -> None:
    with pytest.raises(NoAssignment, match=r"--config .* NAME=VALUE"):
        parse_assignments([text], "--config")
