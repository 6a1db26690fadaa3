import pytest

from siltstone.broker.topics.names import INTERNAL_TOPICS, why_illegal
from siltstone.metadata.decisions.topics import is_topic_name


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "x" * 249, *sorted(INTERNAL_TOPICS)])
def test_legal(name: str) -> None:
    assert why_illegal(name) is None


# The texts are Kafka's, but for the long name, which is not sent back whole.
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "Topic name is invalid: the empty string is not allowed"),
        (".", "Topic name is invalid: '.' is not allowed"),
        ("..", "Topic name is invalid: '..' is not allowed"),
        (
            "a b",
            "Topic name is invalid: 'a b' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'",
        ),
    ],
)
def test_illegal_in_kafkas_words(name: str, why: str) -> None:
    assert why_illegal(name) == why
    assert not is_topic_name(name)


@pytest.mark.parametrize("name", ["x" * 250, "ä", "a/b", "a\n", "a\0"])
def test_illegal(name: str) -> None:
    assert "Topic name is invalid: " in str(why_illegal(name))


def test_a_name_of_a_megabyte_does_not_come_back() -> None:
    why = why_illegal("x" * 1_000_000)
    assert why is not None and "longer than the max allowed length 249" in why and len(why) < 400


def test_the_reason_is_the_length_only_where_the_name_is_too_long() -> None:
    assert "contains one or more characters" in str(why_illegal(" " * 249))
    assert "longer than the max allowed length 249" in str(why_illegal(" " * 250))
    assert f"'{'x' * 249}…'" in str(why_illegal("x" * 250))
