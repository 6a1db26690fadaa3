import pytest

from siltstone.offline.opening.topic_assignments import assignment_hint, forgotten_unit, without_effect


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("retention.ms", "banana", "write retention.ms=7d or 604800000"),
        ("segment.bytes", "1.5x", "write segment.bytes=64MiB or 67108864"),
        ("retention.ms", "-5", None),
        ("cleanup.policy", "banana", None),
    ],
)
def test_a_refused_value_gets_an_example(name: str, value: str, hint: str | None):
    assert assignment_hint(name, value) == hint


def test_a_name_that_is_none_gets_the_most_similar_one():
    assert "retention.ms" in (assignment_hint("retention.mz", "1") or "")


@pytest.mark.parametrize(
    ("name", "value", "is_noted"),
    [
        ("retention.ms", "7", True), ("retention.ms", "0", False), ("retention.ms", "1000", False),
        ("segment.bytes", "64", True), ("no.such.ms", "7", False), ("retention.ms", "7d", False),
    ],
)  # fmt: skip
def test_a_number_without_its_unit_is_noted(name: str, value: str, is_noted: bool):
    assert (forgotten_unit(name, value) is not None) == is_noted


def test_what_has_no_effect_is_noted_unless_it_is_the_default():
    assert "has no effect" in (without_effect("flush.ms", "5") or "")
    assert without_effect("preallocate", "false") is None
    assert without_effect("retention.ms", "5") is None
    assert without_effect("nothing", "5") is None
