"""Numbers, sizes, durations and times as people read them. Pure."""

from datetime import UTC, datetime

_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size_words(size_bytes: int) -> str:
    """1536 → ``1.5 KiB``: three digits or so, never rounded up to 1024 of a unit."""
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


def time_words(timestamp_ms: int) -> str:
    """UTC to the second; ``-`` for none, the number itself where no calendar reaches."""
    if timestamp_ms < 0:
        return "-"
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"


def ratio_words(before: float, after: float) -> str:
    """How many times less: ``13.2 ×``; ``=`` when nothing changed, ``-`` when there is nothing to compare."""
    if before == after:
        return "="
    if before <= 0 or after <= 0:
        return "-"
    return f"{before / after:.1f} ×" if before > after else f"1/{after / before:.1f}"
