import pytest

from siltstone.console.shown import shown_bytes, shown_value
from siltstone.model.console_limits import CONSOLE_VALUE_BYTES_MAX


@pytest.mark.parametrize(
    ("raw", "kind", "brief"),
    [
        (b"", "text", ""),
        (b"plain words", "text", "plain words"),
        (b'{"a": [1, 2]}', "json", '{"a": [1, 2]}'),
        (b'{"a": ', "text", '{"a":'),
        (b"[" * 5_000, "text", "[" * 159 + "…"),
        (b"\xff\x00\x01", "bytes", "ff 00 01"),
        (b"with\0zero", "bytes", "77 69 74 68 00 7a 65 72 6f"),
        ("Grüße\nan alle".encode(), "text", "Grüße an alle"),
    ],
)
def test_bytes_are_shown_by_what_they_are(raw: bytes, kind: str, brief: str):
    shown = shown_bytes(raw)
    assert (shown.kind, shown.brief, shown.size_bytes) == (kind, brief, len(raw))


def test_json_is_indented_and_numbers_keep_their_digits():
    assert shown_bytes(b'{"n":12345678901234567890,"s":"\\u003c"}').full == (
        '{\n  "n": 12345678901234567890,\n  "s": "<"\n}'
    )


def test_wc05_what_is_too_large_is_cut_and_said_so():
    large = shown_bytes(b"x" * 10 * 1024 * 1024)
    assert len(large.full) == CONSOLE_VALUE_BYTES_MAX and large.note == "the first 64.0 KiB of 10.0 MiB"
    in_two = shown_bytes("é".encode() * CONSOLE_VALUE_BYTES_MAX)
    assert set(in_two.full) == {"é"}, "a character that the cut divides is left out"
    assert "the first 1,024 of 4,096 bytes" in shown_bytes(b"\xff" * 4_096).note


def test_bytes_without_text_are_shown_with_their_positions():
    assert (
        shown_bytes(bytes(range(250, 256)) + b"Az").full
        == "000000  fa fb fc fd fe ff 41 7a" + " " * 24 + "  ......Az"
    )


def test_a_decoded_value_is_shown_as_json():
    assert shown_value({"a": 1}).full == '{\n  "a": 1\n}'
    assert shown_value(b"raw").full == "raw"


def test_wc17_deep_json_is_not_indented_into_a_page_of_megabytes() -> None:
    deep = b"[" * 900 + b"1," * 20_000 + b"1" + b"]" * 900
    shown = shown_bytes(deep)
    assert (shown.kind, shown.full) == ("json", deep.decode())
    wide = b"[" + b"[1,2]," * 9_000 + b"0]"
    assert len(shown_bytes(wide).full) > 2 * len(wide), "many lists of few members are shown with indents"
