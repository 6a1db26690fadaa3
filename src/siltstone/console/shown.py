"""Bytes as a person reads them: JSON with indents, text, or hexadecimal digits. Pure."""

from typing import Any

import msgspec

from siltstone.foundation.quantity_words import size_words
from siltstone.model.console_limits import CONSOLE_VALUE_BYTES_MAX

BRIEF_CHARACTERS = 160
HEX_BYTES_MAX = 1_024
INDENT = 2
INDENT_BYTES_MAX = 4 * CONSOLE_VALUE_BYTES_MAX
"""What indents may add to a value. A list in a thousand lists has as many spaces before each of its numbers, and would
make a page of gigabytes of a few records."""

HEX_BYTES_OF_A_LINE = 16


class ShownBytes(msgspec.Struct, frozen=True):
    """``kind``: json, text or bytes. ``brief`` is one line. ``note`` says what is not shown; empty when all is."""

    kind: str
    brief: str
    full: str
    size_bytes: int
    note: str = ""


def shown_bytes(raw: bytes) -> ShownBytes:
    cut = raw[:CONSOLE_VALUE_BYTES_MAX]
    note = f"the first {size_words(len(cut))} of {size_words(len(raw))}" if len(cut) < len(raw) else ""
    try:
        text = cut.decode("utf-8") if not note else cut.decode("utf-8", "ignore")
    except UnicodeDecodeError:
        return _hexadecimal(raw)
    if "\0" in text:
        return _hexadecimal(raw)
    if not note and text[:1] in '{["' and (pretty := _pretty(raw)) is not None:
        return ShownBytes("json", _one_line(text), pretty, len(raw))
    return ShownBytes("text", _one_line(text), text, len(raw), note)


def shown_value(value: Any) -> ShownBytes:
    """Shows a value that a format has decoded already, or bytes."""
    if isinstance(value, bytes):
        return shown_bytes(value)
    return shown_bytes(msgspec.json.encode(value, enc_hook=str))


def _pretty(raw: bytes) -> str | None:
    """Returns JSON with indents, or as it is if they would be too long; None for what is no JSON."""
    try:
        found = msgspec.json.decode(raw)
        if _has_long_indents(found):
            return raw.decode()
        return msgspec.json.format(msgspec.json.encode(found), indent=INDENT).decode()
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


def _has_long_indents(value: Any) -> bool:
    left, spaces = [(value, 1)], 0
    while left and spaces <= INDENT_BYTES_MAX:
        found, depth = left.pop()
        members = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
        spaces += len(members) * INDENT * depth
        left += [(each, depth + 1) for each in members if isinstance(each, (dict, list))]
    return spaces > INDENT_BYTES_MAX


def _hexadecimal(raw: bytes) -> ShownBytes:
    cut = raw[:HEX_BYTES_MAX]
    lines = []
    for at in range(0, len(cut), HEX_BYTES_OF_A_LINE):
        line = cut[at : at + HEX_BYTES_OF_A_LINE]
        readable = "".join(chr(each) if 32 <= each < 127 else "." for each in line)
        lines.append(f"{at:06x}  {line.hex(' '):<47}  {readable}")
    note = f"the first {len(cut):,} of {len(raw):,} bytes" if len(cut) < len(raw) else ""
    return ShownBytes("bytes", _one_line(cut[:48].hex(" ")), "\n".join(lines), len(raw), note)


def _one_line(text: str) -> str:
    line = " ".join(text[: BRIEF_CHARACTERS * 2].split())
    return line if len(line) <= BRIEF_CHARACTERS else line[: BRIEF_CHARACTERS - 1] + "…"
