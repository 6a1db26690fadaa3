import pytest

from siltstone.foundation.quantity_words import count_words, counted, seconds_words, size_words


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (1024**2 - 1, "1.0 MiB"),
     (16 * 2**20, "16.0 MiB"), (15 * 2**40, "15.0 TiB"), (2**63, "8192.0 PiB")],
)  # fmt: skip
def test_sizes(size: int, text: str) -> None:
    assert size_words(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0123, "12 ms"), (1, "1.0 s"), (59.94, "59.9 s"), (100.2, "1 min 40 s"), (3_725, "1 h 02 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert seconds_words(seconds) == text


def test_counts() -> None:
    assert count_words(336_776) == "336,776"
    assert counted(1, "object") == "1 object"
    assert counted(0, "object") == "0 objects"
    assert counted(2, "entry", "entries") == "2 entries"
