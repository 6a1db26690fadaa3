from base64 import b64encode

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as run
from hypothesis import strategies as st

from siltstone.cli.json_records import LineRefused, read_record, written_record
from siltstone.kafka_client.producing.delivery import OutgoingRecord
from siltstone.kafka_protocol.records.reading import Record
from support.values.examples import examples

maybe_bytes = st.none() | st.binary(max_size=20) | st.text(max_size=10).map(str.encode)


@run(max_examples=examples(200))
@given(
    key=maybe_bytes,
    value=maybe_bytes,
    headers=st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3).map(tuple),
    timestamp_ms=st.integers(0, 2**63 - 1),
    partition=st.integers(0, 2**31 - 1),
)
def test_what_is_written_is_read(key, value, headers, timestamp_ms, partition) -> None:
    record = Record(offset=5, timestamp_ms=timestamp_ms, key=key, value=value, headers=headers)
    line = written_record("t", partition, record)
    assert b"\n" not in line
    assert read_record(line, 3) == OutgoingRecord(
        line=3, key=key, value=value, headers=headers, timestamp_ms=timestamp_ms, partition=partition
    )


def test_what_scripts_find_in_a_line() -> None:
    record = Record(
        offset=7, timestamp_ms=5, key=b"k", value=b"\xff", headers=(("h", b"1"), ("n\udcff", None))
    )
    assert msgspec.json.decode(written_record("t", 2, record)) == {
        "topic": "t",
        "partition": 2,
        "offset": 7,
        "timestamp": 5,
        "key": "k",
        "value_base64": b64encode(b"\xff").decode(),
        "headers": [{"name": "h", "value": "1"}, {"name": "n�", "value": None}],
    }


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"{}", None),
        (b'{"value": null}', None),
        (b'{"value": "text"}', b"text"),
        (b'{"value": {"a": [1, 2.5]}}', b'{"a":[1,2.5]}'),
        (b'{"value": 0}', b"0"),
        (b'{"value": false}', b"false"),
        (b'{"value_base64": "AAE="}', b"\x00\x01"),
    ],
)
def test_a_value_of_json_stands_for_its_text(line: bytes, value: bytes | None) -> None:
    assert read_record(line, 1).value == value


def test_headers_may_be_an_object() -> None:
    assert read_record(b'{"headers": {"a": "1", "b": null, "c": 3}}', 1).headers == (
        ("a", b"1"),
        ("b", None),
        ("c", b"3"),
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"not json", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'["a"]', "write a JSON object"),
        (b'{"val": 1}', "'val' is not a known member; known are headers, key"),
        (b'{"value": "a", "value_base64": "AA=="}', "give either value, or value_base64"),
        (b'{"key_base64": "!"}', "key_base64 is not valid base64"),
        (b'{"key_base64": 1}', "as a string"),
        (b'{"partition": -1}', "partition is -1"),
        (b'{"partition": 4294967296}', "from 0 to 2147483647"),
        (b'{"partition": 2147483648}', "from 0 to 2147483647"),
        (b'{"timestamp": 9223372036854775808}', "from 0 to 9223372036854775807"),
        (b'{"timestamp": "now"}', "timestamp is 'now'"),
        (b'{"timestamp": true}', "timestamp is True"),
        (b'{"headers": "a=1"}', "headers must be"),
        (b'{"headers": [["a", "1"]]}', "a header must be an object"),
        (b'{"headers": [{"value": "1"}]}', "a header must be an object"),
    ],
)
def test_a_line_that_is_no_record(line: bytes, told: str) -> None:
    with pytest.raises(LineRefused, match="line 9") as raised:
        read_record(line, 9)
    assert told in str(raised.value)


@pytest.mark.parametrize("number", [0, 2**31 - 1])
def test_the_smallest_and_the_largest_numbers_are_read(number: int) -> None:
    record = read_record(b'{"partition": %d, "timestamp": %d}' % (number, number), 1)
    assert (record.partition, record.timestamp_ms) == (number, number)
    assert read_record(b'{"timestamp": 9223372036854775807}', 1).timestamp_ms == 2**63 - 1


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b'{"a": 1,\n "b": "\\n"}\r\n', b'{"a": 1,  "b": "\\n"}  '),
        (b"17", b"17"),
        (b"not JSON", b'"not JSON"'),
        (b"[" * 100_000 + b"]" * 100_000, b'"' + b"[" * 100_000 + b"]" * 100_000 + b'"'),
        (b"\xff", None),
        (None, b"null"),
    ],
)
def test_a_value_that_is_json_is_shown_as_it_is_where_that_is_asked_for(
    value: bytes | None, shown: bytes | None
) -> None:
    line = written_record("t", 0, Record(value=value), json_values=True)
    assert b"\n" not in line and b"\r" not in line
    if shown is None:
        assert b'"value_base64":"/w=="' in line
    else:
        assert b'"value":' + shown in line
    msgspec.json.decode(line)
