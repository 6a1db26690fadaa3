"""Counts, sizes, times and durations as texts for people."""

from datetime import UTC, datetime

_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_TIME_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second"))


def size_words(size_bytes: int) -> str:
    """1536 → ``1.5 KiB``: one decimal of the largest unit that fits; never rounded up to 1024 of a unit."""
    size = float(size_bytes)
    unit = 0
    while size >= 1023.95 and unit + 1 < len(_BINARY_UNITS):
        size /= 1024
        unit += 1
    return f"{size_bytes} B" if unit == 0 else f"{size:.1f} {_BINARY_UNITS[unit]}"


def count_words(count: int) -> str:
    return f"{count:,}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """``1 object``, ``2 objects``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def seconds_words(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def duration_words(duration_ms: int) -> str:
    """Returns a duration as a person would set it: in the largest unit that divides it, such as ``7 days`` or ``90
    seconds``.

    A duration that is no whole number of seconds is exact below a minute, such as ``1.5 seconds``, and otherwise is
    cut to its two largest units, such as ``4,892 days 1 hour``."""
    for unit_ms, noun in _TIME_UNITS:
        if duration_ms and duration_ms % unit_ms == 0:
            return counted(duration_ms // unit_ms, noun)
    if duration_ms < 1_000:
        return f"{duration_ms} ms"
    if duration_ms < 60_000:
        return f"{duration_ms / 1000:g} seconds"
    words, left_ms = [], duration_ms
    for unit_ms, noun in _TIME_UNITS:
        count, left_ms = divmod(left_ms, unit_ms)
        if count:
            words.append(counted(count, noun))
    return " ".join(words[:2])


def time_words(timestamp_ms: int) -> str:
    """Returns the time in UTC to the second; ``-`` for no timestamp, the number itself for a time that no calendar
    has."""
    if timestamp_ms < 0:
        return "-"
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
