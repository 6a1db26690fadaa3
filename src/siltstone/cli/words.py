"""Numbers, sizes, durations and times as people read them. Pure.

Text and bytes of strangers, so that a terminal shows them and does not obey them. Pure.

Control characters, invisible ones and bytes that are no UTF-8 become ``\n``, ``\x1b``, ``\u202e``; everything that
can be printed stays as it is, backslashes too. For exact bytes there are other formats.
"""

from datetime import UTC, datetime
from unicodedata import category

from rich.text import Text

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


_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_JOINERS = "\u200c\u200d"
"""Invisible, and part of how some scripts and emoji are written."""


def shown_bytes(data: bytes | bytearray | memoryview) -> str:
    return shown(str(data, "utf-8", "surrogateescape"))


def shown(text: str) -> str:
    """``text`` may carry bytes as surrogate escapes."""
    if text.isprintable():
        return text
    return "".join(character if _is_harmless(character) else _escaped(character) for character in text)


def _is_harmless(character: str) -> bool:
    return character.isprintable() or character in _JOINERS or category(character) == "Zs"


def _escaped(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:
        return f"\\x{number - 0xDC00:02x}"  # a byte that is no UTF-8
    if number <= 0xFF:
        return _SHORT.get(character) or f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def cell(text: str) -> Text:
    """Of a table: what looks like markup is none."""
    return Text(shown(text))
