import pytest

from siltstone.cli.json_records import LineRefused
from siltstone.cli.produce.lines import CSV, JSON_LINES, LineRules, line_reader
from siltstone.cli.produce.plain_data import RowReader
from siltstone.kafka_client.producing.delivery import OutgoingRecord
from siltstone.model.limits import MIB


def read_all(lines: list[bytes], **rules: object) -> list[OutgoingRecord]:
    reader = line_reader(LineRules(**rules))
    found = [reader.read(line, number) for number, line in enumerate(lines, 1)]
    reader.finish()
    return [record for record in found if record is not None]


def json_line(line: bytes, **rules: object) -> OutgoingRecord:
    (record,) = read_all([line], line_format=JSON_LINES, **rules)
    return record


def csv_pairs(*lines: bytes, **rules: object) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in read_all([*lines], line_format=CSV, **rules)]


# -- JSON lines


def test_the_value_is_the_object_as_it_stands() -> None:
    line = b' {"b": 1.0,   "a": "\xc3\xa4"}\r'
    assert json_line(line) == OutgoingRecord(line=1, key=None, value=line.strip())
    assert json_line(line, key=b"k", partition=2, headers=(("h", b"1"),)) == OutgoingRecord(
        line=1, key=b"k", value=line.strip(), partition=2, headers=(("h", b"1"),)
    )


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ("name", b"J\xc3\xb6rg"), ("id", b"7"), ("none", None), ("user.id", b"9"), ("user", b'{"id":9,"a.b":true}'),
        ("user.a.b", b"true"), ("whole.name", b"w"), ("empty", b""),
    ],
)  # fmt: skip
def test_the_key_is_a_field(field: str, key: bytes | None) -> None:
    line = (
        '{"name": "J\u00f6rg", "id": 7, "none": null, "user": {"id": 9, "a.b": true}, "whole.name": "w", '
        '"whole": {"name": "x"}, "empty": ""}'
    ).encode()
    assert json_line(line, key_field=field).key == key


@pytest.mark.parametrize(("line", "field"), [(b'{"a": 1}', "b"), (b'{"a": 1}', "a.b"), (b"{}", "a")])
def test_a_missing_field_is_told_with_its_line_and_what_is_there(line: bytes, field: str) -> None:
    with pytest.raises(LineRefused, match=rf"line 1 has no field '{field}': it has .*--missing-key-as-null"):
        json_line(line, key_field=field)
    assert json_line(line, key_field=field, missing_key_is_null=True).key is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"", "line 1 is empty"), (b"[1]", "not an object"), (b"{", "line 1 is not JSON"),
        (b'{"a": "\xff"}', "line 1 is not JSON"), (b"[" * 10**5, "line 1 is not JSON"), (b"7", "not an object"),
    ],
)  # fmt: skip
def test_what_is_no_object_is_refused(line: bytes, said: str) -> None:
    with pytest.raises(LineRefused, match=said):
        json_line(line)


# -- CSV


def test_a_row_is_an_object_of_the_names_in_the_header() -> None:
    rows = csv_pairs(
        b"\xef\xbb\xbfcountry,pop\r", b"Chad,8\r", b'"Korea, Dem. Rep.",23\r', key_field="country"
    )
    assert rows == [
        (b"Chad", b'{"country":"Chad","pop":"8"}'),
        (b"Korea, Dem. Rep.", b'{"country":"Korea, Dem. Rep.","pop":"23"}'),
    ]


def test_a_quoted_cell_may_have_line_ends_and_quotes() -> None:
    rows = csv_pairs(b"a,b", b'1,"one', b'two ""2""', b"", b'three"', b"2,5' pipe", key_field="a")
    assert rows == [
        (b"1", b'{"a":"1","b":"one\\ntwo \\"2\\"\\n\\nthree"}'),
        (b"2", b'{"a":"2","b":"5\' pipe"}'),
    ]


def test_a_record_has_the_number_of_the_line_on_which_its_row_begins() -> None:
    lines = [b"a,b", b'1,"x', b'y"', b"2,z"]
    assert [record.line for record in read_all(lines, line_format=CSV)] == [2, 4]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([b"a,b", b"1"], "line 2 has 1 cells, but the header has 2 names"),
        ([b"a,b", b"1,2,3"], "line 2 has 3 cells"),
        ([b"a,a"], "has the name 'a' twice"),
        ([b"a", b'"x', b"y"], "the row that begins at line 2 has a quote that no other closes"),
        ([b"a", b'"x"y'], "line 2 is not CSV"),
        ([b"a", b"\xff"], "line 2 is not UTF-8"),
        ([b"a", b""], "line 2 is empty"),
        ([b"a", b'"x', b"y" * (40 * MIB), b"y" * (40 * MIB)], "does not end"),
    ],
)
def test_what_is_no_row_is_refused(lines: list[bytes], said: str) -> None:
    with pytest.raises(LineRefused, match=said):
        csv_pairs(*lines)


def test_a_column_that_is_missing_is_told() -> None:
    with pytest.raises(LineRefused, match="line 2 has no field 'c': it has a, b"):
        csv_pairs(b"a,b", b"1,2", key_field="c")


def test_a_cell_may_be_larger_than_the_limit_of_the_csv_module() -> None:
    ((_, value),) = csv_pairs(b"a", b"x" * 200_000)
    assert len(value) > 200_000


@pytest.mark.parametrize(
    "further", [b"y", b'""'], ids=["lines without a quote", "lines with quotes that close nothing"]
)
@pytest.mark.parametrize(("lines_max", "bytes_max"), [(3, MIB), (10_000, 20)])
def test_a_quote_that_nothing_closes_does_not_gather_the_whole_input(
    further: bytes, lines_max: int, bytes_max: int
) -> None:
    rows = RowReader(lines_max, bytes_max)
    if bytes_max == MIB:
        closed = [rows.row(line, at) for at, line in enumerate((b"a", b'"x', b"y", b'z"'), start=1)]
        assert closed == [None, None, None, {"a": "x\ny\nz"}]
    rows = RowReader(lines_max, bytes_max)
    with pytest.raises(
        LineRefused, match="the row that begins at line 2 does not end: a quote in it is not closed"
    ):
        for number, line in enumerate((b"a", b'"x', *[further * 5] * 4), start=1):
            rows.row(line, number)
