import pytest

from siltstone.metadata.decisions.topics import colliding_name, is_topic_name


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "-", "_", "a" * 249, "__consumer_offsets"])
def test_names_that_topics_may_have(name: str) -> None:
    assert is_topic_name(name)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a" * 250, "a b", "a/b", "größe", "a\n", "a\x00", "a:b", "\ud800", "a,b", "\uff11"],
)
def test_names_that_no_topic_may_have(name: str) -> None:
    assert not is_topic_name(name)


@pytest.mark.parametrize(
    ("name", "standing", "expected"),
    [
        ("a.b", ["a_b"], "a_b"),
        ("a_b", ["x", "a.b"], "a.b"),
        ("a.b_c", ["a_b.c"], "a_b.c"),
        ("a.b", ["a-b", "ab", "a.b.c"], None),
        ("ab", ["a.b", "a_b"], None),
        ("a.b", [], None),
    ],
)
def test_names_that_metrics_could_not_tell_apart(
    name: str, standing: list[str], expected: str | None
) -> None:
    assert colliding_name(name, standing) == expected
