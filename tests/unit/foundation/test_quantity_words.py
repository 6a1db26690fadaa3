import pytest

from siltstone.foundation.quantity_words import (
    count_words,
    counted,
    duration_words,
    seconds_words,
    size_words,
    time_words,
)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (1024**2 - 1, "1.0 MiB"),
     (16 * 2**20, "16.0 MiB"), (15 * 2**40, "15.0 TiB"), (2**63, "8192.0 PiB")],
)  # fmt: skip
def test_sizes(size: int, text: str) -> None:
    assert size_words(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0123, "12 ms"),
        (1, "1.0 s"),
        (59.94, "59.9 s"),
        (100.2, "1 min 40 s"),
        (3_725, "1 h 02 min"),
        (99.9, "99.9 s"),
        (0.9, "900 ms"),
        (119.6, "2 min 00 s"),
        (3_599, "59 min 59 s"),
        (3_600, "1 h 00 min"),
        (90_060, "25 h 01 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert seconds_words(seconds) == text


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [(0, "0 ms"), (750, "750 ms"), (1_000, "1 second"), (1_500, "1.5 seconds"), (90_000, "90 seconds"),
     (5_400_001, "1 hour 30 minutes"), (604_800_000, "7 days"), (422_673_200_580, "4,892 days 1 hour")],
)  # fmt: skip
def test_settings_of_time(duration_ms: int, text: str) -> None:
    assert duration_words(duration_ms) == text


def test_counts() -> None:
    assert count_words(336_776) == "336,776"
    assert counted(1, "object") == "1 object"
    assert counted(0, "object") == "0 objects"
    assert counted(2, "entry", "entries") == "2 entries"


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [(1, "1 ms"), (999, "999 ms"), (59_999, "59.999 seconds"), (60_001, "1 minute"), (61_001, "1 minute 1 second"),
     (86_400_001, "1 day"), (90_061_001, "1 day 1 hour"), (120_000, "2 minutes")],
)  # fmt: skip
def test_settings_of_time_at_their_borders(duration_ms: int, text: str) -> None:
    assert duration_words(duration_ms) == text


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (-1, "-"),
        (0, "1970-01-01 00:00:00"),
        (1_372_680_000_999, "2013-07-01 12:00:00"),
        (10**17, f"{10**17} ms"),
    ],
)
def test_times(timestamp_ms: int, text: str) -> None:
    assert time_words(timestamp_ms) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 ms"), (0.9994, "999 ms"), (99.94, "99.9 s"), (100, "1 min 40 s")]
)
def test_durations_at_their_borders(seconds: float, text: str) -> None:
    assert seconds_words(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(1, "1 B"), (1024**2 - 53, "1023.9 KiB"), (1024**2 - 51, "1.0 MiB"), (1024**6, "1024.0 PiB")],
)
def test_sizes_at_their_borders(size: int, text: str) -> None:
    assert size_words(size) == text
