"""Values as text for people: numbers, sizes, times, topic ids, and foreign text that is safe to print. Pure.

Text and bytes of records come from other programs and could hold commands for the terminal. ``shown`` and
``shown_bytes`` escape control characters, invisible characters and bytes that are not UTF-8 (``\n``, ``\x1b``,
``\u202e``); all printable characters stay as they are, backslashes too, so the escaping cannot be reversed.
"""

from base64 import urlsafe_b64encode
from unicodedata import category

from rich.text import Text

from siltstone.foundation.quantity_words import count_words, counted, seconds_words, size_words, time_words

__all__ = [
    "cell",
    "count_words",
    "counted",
    "ratio_words",
    "seconds_words",
    "shown",
    "shown_bytes",
    "size_words",
    "time_words",
    "written_topic_id",
]

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_JOINERS = "\u200c\u200d"
"""Zero-width non-joiner and joiner: invisible, but part of how some scripts and emoji are written."""


def ratio_words(before: float, after: float) -> str:
    """Returns the factor by which ``after`` is smaller: ``13.2 ×``, or ``1/2.5`` if it is larger; ``=`` if both are
    equal, ``-`` if one is 0."""
    if before == after:
        return "="
    if before <= 0 or after <= 0:
        return "-"
    return f"{before / after:.1f} ×" if before > after else f"1/{after / before:.1f}"


def written_topic_id(topic_id: bytes) -> str:
    """Returns the id as Kafka's own tools write it: 22 characters of URL-safe base64."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def shown_bytes(data: bytes | bytearray | memoryview) -> str:
    """Returns the bytes as UTF-8 text that is safe to print."""
    return shown(str(data, "utf-8", "surrogateescape"))


def shown(text: str) -> str:
    """Returns the text, escaped where it is not safe to print. It may hold bytes as surrogate escapes."""
    if text.isprintable():
        return text
    return "".join(character if _is_harmless(character) else _escaped(character) for character in text)


def _is_harmless(character: str) -> bool:
    return character.isprintable() or character in _JOINERS or category(character) == "Zs"


def _escaped(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:
        return f"\\x{number - 0xDC00:02x}"  # a byte that is not UTF-8
    if number <= 0xFF:
        return _SHORT.get(character) or f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def cell(text: str) -> Text:
    """Returns a cell of a table: safe to print, and not parsed as markup of ``rich``."""
    return Text(shown(text))
