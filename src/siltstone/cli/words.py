"""Numbers, sizes, durations and times as people read them. Pure."""

from datetime import UTC, datetime

from siltstone.foundation.quantity_words import count_words, counted, seconds_words, size_words

__all__ = ["count_words", "counted", "ratio_words", "seconds_words", "size_words", "time_words"]


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
