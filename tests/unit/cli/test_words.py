import pytest

from siltstone.cli.words import ratio_words, time_words, written_topic_id


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (1_357_034_400_000, "2013-01-01 10:00:00"),
        (0, "1970-01-01 00:00:00"),
        (-1, "-"),
        (2**62, f"{2**62} ms"),
    ],
)
def test_times(timestamp_ms: int, text: str) -> None:
    assert time_words(timestamp_ms) == text


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [(33, 1, "33.0 ×"), (1, 2, "1/2.0"), (0, 0, "="), (5, 5, "="), (0, 3, "-"), (3, 0, "-"), (2, 5, "1/2.5")],
)
def test_ratios(before: int, after: int, text: str) -> None:
    assert ratio_words(before, after) == text


def test_a_topic_id_is_written_as_kafkas_tools_write_it() -> None:
    """Java: ``new Uuid(0x0102030405060708L, 0x090a0b0c0d0e0f10L).toString()``."""
    assert written_topic_id(bytes(range(1, 17))) == "AQIDBAUGBwgJCgsMDQ4PEA"
    assert written_topic_id(b"\xff" * 16) == "_" * 21 + "w"
