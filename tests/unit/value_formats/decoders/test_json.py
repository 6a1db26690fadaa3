"""JSON and text: what is no JSON of the type is reported by row, and moves no neighbour."""

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.value_formats.columns import is_json_text
from siltstone.value_formats.decoders.json import inferred_type, json_schema_type
from siltstone.value_formats.decoding import DecodedValues
from siltstone.value_formats.failures import FormatRefused, SchemaMalformed
from siltstone.value_formats.opening import open_decoder
from siltstone.value_formats.settling import settle_format
from siltstone.value_formats.value_format import FormatKind

TYPE = pa.struct([("a", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.float64()))])


def decode(values: list[bytes | None], arrow_type: Any = TYPE) -> DecodedValues:
    fmt = settle_format(FormatKind.JSON, schema=arrow_type)
    return open_decoder(fmt).decode(pa.array(values, pa.binary()))


def test_line_breaks_big_numbers_and_two_values_in_one_are_as_msgspec_reads_them() -> None:
    good = [b'{\n"a":1}', b' {"a" : 2,"a":3} ', b'{"zz":[{}],"s":"x"}', b"null", b'{"l":[1,2.5,null]}']
    bad = [
        b'{"a":1}{"a":2}',
        b"",
        b'{"a":NaN}',
        b'{"a":9223372036854775808}',
        b'{"a":"1"}',
        b'{"a":1},"x":2',
        b"\xff",
    ]
    mixed = [each for pair in zip(good, bad, strict=False) for each in pair] + bad[len(good) :]
    decoded = decode(list(mixed))
    wanted = [
        {"a": 1, "s": None, "l": None}, {"a": 3, "s": None, "l": None}, {"a": None, "s": "x", "l": None}, None,
        {"a": None, "s": None, "l": [1.0, 2.5, None]},
    ]  # fmt: skip
    assert [decoded.column[mixed.index(each)].as_py() for each in good] == wanted
    assert [each.row for each in decoded.bad] == sorted(mixed.index(each) for each in bad)
    assert all(decoded.column[each.row].as_py() is None for each in decoded.bad)


def test_the_prefix_of_a_registry_is_passed_over() -> None:
    decoded = decode([b'\0\0\0\0\7{"a":1}', b"\0\0\0\0\7nonsense"])
    assert decoded.column[0].as_py()["a"] == 1
    assert [(each.row, each.schema) for each in decoded.bad] == [(1, 7)]


def test_a_number_too_wide_for_the_column_is_one_bad_value() -> None:
    narrow = pa.struct([("a", pa.int32())])
    decoded = decode([b'{"a":1}', b'{"a":2147483648}', b'{"a":3}'], narrow)
    assert decoded.column.to_pylist() == [{"a": 1}, None, {"a": 3}]
    assert [each.row for each in decoded.bad] == [1]


ZONED = pa.struct([("t", pa.timestamp("us", tz="UTC"))])
UNZONED = pa.struct([("t", pa.timestamp("us"))])
UNSIGNED = pa.struct([("a", pa.uint64()), ("b", pa.uint8())])
TIME = b'{"t":"2026-02-28T01:00:00"}'


@pytest.mark.parametrize(
    ("value", "arrow_type", "is_bad"),
    [
        (TIME, ZONED, True),
        (TIME.replace(b':00"', b':00Z"'), ZONED, False),
        (TIME, UNZONED, False),
        (b'{"other":"\xff"}', TYPE, True),
        (b'{"other":["\xff"]}', TYPE, True),
        (b"\0\0\0\0\xff{}", TYPE, False),  # the id of a schema is no text
        (b'{"a":18446744073709551615,"b":255}', UNSIGNED, False),
        (b'{"a":-1}', UNSIGNED, True),
        (b'{"b":256}', UNSIGNED, True),
        (b'{"a":-9223372036854775808}', TYPE, False),
        (b'{"a":-9223372036854775809}', TYPE, True),
    ],
)
def test_a_scan_and_a_table_find_the_same_values_bad(value: bytes, arrow_type: Any, is_bad: bool) -> None:
    decoded = decode([b"{}", value, b"{}"], arrow_type)
    assert [each.row for each in decoded.bad] == ([1] if is_bad else [])
    assert decoded.column[0].is_valid and decoded.column[2].is_valid


def test_json_in_text_stands_in_lists_and_maps_too() -> None:
    text = {b"siltstone": b"json"}
    kind = pa.struct(
        [
            ("l", pa.list_(pa.field("item", pa.string(), metadata=text))),
            ("m", pa.map_(pa.string(), pa.field("value", pa.string(), metadata=text))),
        ]
    )
    decoded = decode([b'{"l":[1,null,{"a":2}],"m":{"k":[3],"n":null}}', b'{"l":null}', b'{"l":[tru]}'], kind)
    assert decoded.column.to_pylist() == [
        {"l": ["1", None, '{"a":2}'], "m": [("k", "[3]"), ("n", None)]}, {"l": None, "m": None}, None,
    ]  # fmt: skip
    assert [each.row for each in decoded.bad] == [2]


def test_times_dates_decimals_and_bytes() -> None:
    wide = pa.struct(
        [
            ("t", pa.timestamp("us", tz="UTC")),
            ("d", pa.date32()),
            ("n", pa.decimal128(9, 2)),
            ("b", pa.binary()),
        ]
    )
    decoded = decode([b'{"t":"2013-01-01T05:15:00Z","d":"2013-01-01","n":"12.50","b":"AQI="}'], wide)
    row = decoded.column[0].as_py()
    assert (row["t"].isoformat(), str(row["d"]), str(row["n"]), row["b"]) == (
        "2013-01-01T05:15:00+00:00", "2013-01-01", "12.50", b"\1\2",
    )  # fmt: skip
    assert decoded.bad == ()


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), json_values, max_size=3), min_size=1, max_size=6))
def test_every_value_of_the_sample_fits_the_inferred_type(rows: list[dict[str, Any]]) -> None:
    values = [msgspec.json.encode(row) for row in rows]
    arrow_type = inferred_type(values)
    decoded = decode(list(values), arrow_type)
    assert decoded.bad == ()
    assert all(same(row, found) for row, found in zip(rows, decoded.column.to_pylist(), strict=True))


def same(given_value: Any, found: Any) -> bool:
    """Whether the column has what the JSON said; null and missing are one, and text may stand for any value."""
    if given_value is None:
        return found is None
    if isinstance(given_value, dict) and isinstance(found, dict):
        return all(same(each, found[name]) for name, each in given_value.items())
    if isinstance(given_value, list) and isinstance(found, list):
        return len(given_value) == len(found) and all(map(same, given_value, found))
    if isinstance(found, str) and not isinstance(given_value, str):
        return bool(msgspec.json.decode(found) == given_value)
    if isinstance(found, str):
        return found == given_value or bool(msgspec.json.decode(found) == given_value)
    return bool(found == given_value)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, -2], pa.int64()), ([1, 2.5], pa.float64()), ([2.5, 1], pa.float64()), ([True, False], pa.bool_()),
        ([True, 1], pa.string()), (["x", 1], pa.string()), ([None, None], pa.string()), ([None, 1], pa.int64()),
        ([1, None], pa.int64()), ([2**63 - 1], pa.int64()), ([2**63], pa.string()), ([-(2**63) + 1], pa.int64()),
        ([[1], [2.5]], pa.list_(pa.float64())), ([[], [True]], pa.list_(pa.bool_())), ([[]], pa.string()),
        ([[1, "x"]], pa.string()), ([[[1]], [[2, None]]], pa.list_(pa.list_(pa.int64()))),
        ([[1], {"x": 1}], pa.string()),
        ([{"x": 1}, {"y": "s"}], pa.struct([("x", pa.int64()), ("y", pa.string())])), ([{"a\"b": 1}], pa.string()),
        ([{"x": {"a\nb": 1}}], pa.struct([("x", pa.string())])),
        ([[{"x": 1}]], pa.list_(pa.struct([("x", pa.int64())]))),
    ],
)  # fmt: skip
def test_the_type_of_a_field_is_that_of_all_its_values(values: list[Any], kind: Any) -> None:
    found = inferred_type([msgspec.json.encode({"f": value}) for value in values])
    assert found == pa.struct([("f", kind)])
    is_text = kind == pa.string() and values != ["x"]
    assert is_json_text(found.field("f")) == is_text


def test_an_object_whose_names_are_data_is_json_in_text() -> None:
    values = [msgspec.json.encode({"o": {f"k{number}": 1}}) for number in range(4)]
    assert inferred_type(values[:3], 3).field("o").type.num_fields == 3
    assert inferred_type(values, 3) == pa.struct([("o", pa.string())])


def test_text_stays_text_and_is_not_json_in_text() -> None:
    found = inferred_type([b'\0\0\0\0\7{"f": "x"}'])
    assert found == pa.struct([("f", pa.string())]) and not is_json_text(found.field("f"))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"type": ["integer", "string"]}', pa.string()), ('{"type": "object"}', pa.string()), ("{}", pa.string()),
        ('{"type": "array"}', pa.string()), ('{"type": ["integer", "null"]}', pa.int64()),
        ('{"type": "null"}', pa.string()),
        ('{"type": "array", "items": {"type": "string", "format": "date"}}', pa.list_(pa.date32())),
        ('{"type": "string", "format": "uuid"}', pa.string()), ('{"type": "thing"}', pa.string()),
    ],
)  # fmt: skip
def test_what_a_json_schema_says_otherwise_is_json_in_text(text: str, kind: Any) -> None:
    assert json_schema_type(text) == kind


def test_types_that_json_has_no_values_of_and_names_that_it_cannot_have_are_refused() -> None:
    with pytest.raises(FormatRefused, match="JSON has no values of type duration"):
        decode([b"1"], pa.duration("us"))
    with pytest.raises(FormatRefused, match="has a name that JSON values cannot be decoded with"):
        decode([b"1"], pa.struct([('a"b', pa.int64())]))


def test_maps_lists_and_nested_objects_may_lack_anything() -> None:
    kind = pa.struct(
        [("m", pa.map_(pa.string(), pa.int64())), ("l", pa.list_(pa.struct([("x", pa.int64())])))]
    )
    decoded = decode([b'{"m": {"a": 1, "b": null}, "l": [{"x": 1}, {}, null]}', b"{}"], kind)
    assert decoded.bad == ()
    assert decoded.column.to_pylist() == [
        {"m": [("a", 1), ("b", None)], "l": [{"x": 1}, {"x": None}, None]},
        {"m": None, "l": None},
    ]


def test_bad_values_are_told_in_the_order_of_rows_whenever_they_are_found() -> None:
    narrow = pa.struct([("a", pa.int32())])
    decoded = decode([b"{}", b'{"a":2147483648}', b"x", b'\0\0\0\0\7{"a":2147483648}'], narrow)
    assert [(each.row, each.schema) for each in decoded.bad] == [(1, -1), (2, -1), (3, 7)]


def test_a_sample_without_json_is_refused() -> None:
    with pytest.raises(FormatRefused, match="give a schema"):
        inferred_type([None, b"x", b"\xff"])


def test_a_json_schema_gives_the_type() -> None:
    text = """{"type": "object", "properties": {
      "a": {"type": "integer"}, "t": {"type": "string", "format": "date-time"}, "n": {"type": ["null", "number"]},
      "l": {"type": "array", "items": {"type": "boolean"}}, "any": {"oneOf": [{"type": "string"}]},
      "o": {"type": "object", "properties": {"x": {"type": "string"}}}}}"""
    assert json_schema_type(text).equals(
        pa.struct(
            [
                ("a", pa.int64()), ("t", pa.timestamp("us", tz="UTC")), ("n", pa.float64()),
                ("l", pa.list_(pa.bool_())), ("any", pa.string()), ("o", pa.struct([("x", pa.string())])),
            ]
        )
    )  # fmt: skip
    decoded = decode([b'{"any":{"deep":[1]},"o":{"x":"y"}}'], json_schema_type(text))
    assert decoded.column[0].as_py()["any"] == '{"deep":[1]}'
    with pytest.raises(SchemaMalformed):
        json_schema_type("{")


def test_a_value_that_is_no_object() -> None:
    assert decode([b"1", b"[2]", b"null"], pa.int64()).column.to_pylist() == [1, None, None]
    assert decode([b"1", b"[2]", b"null"], pa.string()).column.to_pylist() == ["1", "[2]", None]


def test_text_that_is_no_utf_8_is_bad() -> None:
    decoder = open_decoder(settle_format(FormatKind.STRING))
    assert decoder.decode(pa.array([b"x", None, "é".encode()])).column.to_pylist() == ["x", None, "é"]
    decoded = decoder.decode(pa.array([b"x", b"\xff", None]))
    assert decoded.column.to_pylist() == ["x", None, None]
    assert [each.row for each in decoded.bad] == [1]
