import re

import pytest

from siltstone.cli.tail.json_lines import json_lines

VALUE = b'{"a": "x, {y}: \\"z\\"", "n": [1, -2.5e3], "o": {"t": true, "u": null}, "empty": {}, "l": []}'
LINES = [
    "{", '  "a": "x, {y}: \\"z\\"",', '  "n": [', "    1,", "    -2.5e3", "  ],", '  "o": {', '    "t": true,',
    '    "u": null', "  },", '  "empty": {},', '  "l": []', "}",
]  # fmt: skip


def plain(text: str, _: str) -> str:
    return text


def tagged(text: str, colour: str) -> str:
    return f"{colour}{text}\x1b[0m" if text else text


def test_an_object_is_indented_and_colours_change_no_character() -> None:
    assert json_lines(VALUE, plain) == LINES
    coloured = json_lines(VALUE, tagged)
    assert coloured is not None and coloured != LINES
    assert [re.sub(r"\x1b\[\d+m", "", line) for line in coloured] == LINES
    assert coloured[1] == '  \x1b[36m"a"\x1b[0m: \x1b[32m"x, {y}: \\"z\\""\x1b[0m,'
    assert coloured[3] == "    \x1b[33m1\x1b[0m,"


def test_commands_for_the_terminal_are_escaped() -> None:
    assert json_lines('{"a": "\u202e\x9b2J"}'.encode(), plain) == ["{", '  "a": "\\u202e\\x9b2J"', "}"]


@pytest.mark.parametrize(
    "value",
    [None, b"", b"text", b"[1]", b'"s"', b"{", b'{"a": "\x1b"}', b'{"a": "\xff"}', b"{}x", b"[" * 9999],
)
def test_what_is_no_object_has_no_lines(value: bytes | None) -> None:
    assert json_lines(value, plain) is None
    assert json_lines(b'{"a":' * 9999, plain) is None
