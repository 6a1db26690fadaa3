import pytest

from siltstone.cli.json_records import LineRefused
from siltstone.cli.produce.lines import JSON, LineRules, NoHeader, line_reader, parse_headers, parse_separator
from siltstone.kafka_client.producing.delivery import OutgoingRecord
from support.values.left_out import numbers_left_out


def read(line: bytes, **rules: object) -> OutgoingRecord:
    return line_reader(LineRules(**rules)).read(line, 4)


def test_a_line_is_a_value() -> None:
    assert read(b" a:b ") == OutgoingRecord(line=4, value=b" a:b ")
    assert read(b"") == OutgoingRecord(line=4, value=b"")


def test_a_separator_ends_the_key() -> None:
    assert read(b"k:v:w", separator=b":") == OutgoingRecord(line=4, key=b"k", value=b"v:w")
    assert read(b":v", separator=b":").key == b""
    with pytest.raises(LineRefused, match=r"line 4 has no '=>' between a key and a value"):
        read(b"k:v", separator=b"=>")


def test_what_every_record_has() -> None:
    rules = {"key": b"k", "headers": (("h", b"1"),), "partition": 2}
    assert read(b"v", **rules) == OutgoingRecord(line=4, value=b"v", **rules)


def test_an_empty_value_may_mean_null() -> None:
    assert read(b"k:", separator=b":").value == b""
    assert read(b"k:", separator=b":", empty_is_null=True).value is None
    assert read(b'{"value": ""}', line_format=JSON, empty_is_null=True).value is None
    assert read(b'{"value": "0"}', line_format=JSON, empty_is_null=True).value == b"0"


def test_a_record_in_json_says_more_itself() -> None:
    rules = {"line_format": JSON, "key": b"k", "headers": (("h", b"1"),)}
    own = b'{"key": "own", "headers": {"i": "2"}, "partition": 3, "timestamp": 5}'
    record = read(own, **rules)
    assert (record.key, record.partition, record.timestamp_ms) == (b"own", 3, 5)
    assert record.headers == (("h", b"1"), ("i", b"2"))
    assert read(b"{}", **rules).key == b"k"
    assert read(own, partition=0, **rules).partition == 0


@pytest.mark.parametrize(
    ("text", "separator"), [(":", b":"), (r"\t", b"\t"), ("\t", b"\t"), (r"\0", b"\0"), ("→", "→".encode())]
)
def test_separators_as_shells_hand_them_over(text: str, separator: bytes) -> None:
    assert parse_separator(text) == separator


def test_headers() -> None:
    assert parse_headers(["a=1", "a=2=3", "b="]) == (("a", b"1"), ("a", b"2=3"), ("b", b""))
    with pytest.raises(NoHeader, match="--header 'a'"):
        parse_headers(["a"])


def test_what_is_left_out() -> None:
    assert numbers_left_out(LineRules) == {"empty_is_null": False, "missing_key_is_null": False}
