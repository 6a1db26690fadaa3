"""Decoded values in a scan: the subject that is asked for, and the report of values that cannot be decoded."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from google.protobuf import message_factory

from siltstone.kafka_protocol.records.reading import Record
from siltstone.record_columns.arrow import TimestampNotInRange, arrow_schema
from siltstone.scanning import reading
from siltstone.scanning.failures import ScanRefused
from siltstone.scanning.planning import cut, plan_pieces, wanted_partitions
from siltstone.scanning.request import ScanRequest, ValueWish
from siltstone.scanning.rows import unit_rows
from siltstone.scanning.unit import ScanUnit
from siltstone.scanning.values import BadValueCount, ValueColumn, rows_schema, settled
from siltstone.value_formats.descriptors import message_of
from siltstone.value_formats.failures import BadValueFound, SchemaUnknown
from siltstone.value_formats.schemas.folder import read_schema_file
from siltstone.value_formats.settling import settle_format
from siltstone.value_formats.value_format import BadValues, FormatKind, ValueFormat
from support.maintenance.keyed_world import keyed_world
from support.maintenance.odd_values import put_schemas

ROW = pa.struct([("a", pa.int64())])


def json_format(on_bad: BadValues = BadValues.FAIL) -> ValueFormat:
    return settle_format(FormatKind.JSON, schema=ROW, on_bad=on_bad)


def batch(columns: tuple[str, ...], *values: bytes | None, first: int = 10) -> Any:
    offsets = list(range(first, first + len(values)))
    arrays = {"value": pa.array(values, pa.binary()), "offset": pa.array(offsets, pa.int64())}
    schema = arrow_schema(columns)
    return pa.RecordBatch.from_arrays([arrays[name] for name in columns], schema=schema)


# -- what is wished


@pytest.fixture
def registry(tmp_path: Path) -> str:
    """Has a schema for the values of topic a, and one of another name."""
    (tmp_path / "1.avsc").write_text('"int"')
    (tmp_path / "2.avsc").write_text('"string"')
    (tmp_path / "subjects.json").write_text('{"a-value": [1], "other": [2]}')
    return str(tmp_path)


def test_the_subject_is_that_of_the_one_topic_unless_another_is_named(registry: str) -> None:
    wish = ValueWish(FormatKind.AVRO, registry=registry)
    assert settled(wish, ["a", "a"], list).arrow_type == pa.int32()
    named = ValueWish(FormatKind.AVRO, registry=registry, subject="other")
    for topics in (["a", "b"], ["a"]):
        assert settled(named, topics, list).arrow_type == pa.string()
    with pytest.raises(SchemaUnknown, match="no subject 'b-value'"):
        settled(wish, ["b"], list)


def test_several_topics_need_a_subject_or_a_schema(registry: str) -> None:
    with pytest.raises(ScanRefused, match="2 topics have several subjects: name one, or give a schema"):
        settled(ValueWish(FormatKind.AVRO, registry=registry), ["b", "a", "b"], list)
    given = settle_format(FormatKind.AVRO, schema='"long"').reader
    wish = ValueWish(FormatKind.AVRO, given, registry=registry, on_bad=BadValues.NULL)
    found = settled(wish, ["a", "b"], list)
    assert (found.arrow_type, found.on_bad) == (pa.int64(), BadValues.NULL)
    typed = ValueWish(FormatKind.JSON, None, json_format().type_ipc, registry)
    assert settled(typed, ["a", "b"], list).arrow_type == ROW
    assert settled(ValueWish(FormatKind.JSON), ["a", "b"], lambda: [b"1"]).arrow_type == pa.int64()


# -- the column


def test_the_column_value_has_the_decoded_type_and_the_others_stay() -> None:
    columns = ("offset", "value")
    assert rows_schema(columns, json_format()) == pa.schema([("offset", pa.int64()), ("value", ROW)])
    assert rows_schema(columns, None) == arrow_schema(columns)
    assert rows_schema(("offset",), json_format()) == arrow_schema(["offset"])


@pytest.mark.parametrize("columns", [("value", "offset"), ("offset", "value"), ("value",)])
def test_values_are_replaced_in_their_place(columns: tuple[str, ...]) -> None:
    decoding = ValueColumn(columns, json_format(), BadValueCount())
    assert set(decoding.read_columns) == {"value", "offset"}
    found = decoding.decoded(batch(decoding.read_columns, b'{"a": 1}', None), "t-0")
    assert tuple(found.schema.names) == columns
    assert found.column("value").to_pylist() == [{"a": 1}, None]


@pytest.mark.parametrize("columns", [("value",), ("headers", "value"), ("offset", "value", "headers")])
def test_the_schema_of_a_value_may_be_named_in_a_header(columns: tuple[str, ...], registry: str) -> None:
    """A scan that is given no headers reads them all the same, and does not give them."""
    (Path(registry) / f"{UUID(int=1)}.avsc").write_text('"int"')
    wish = ValueWish(FormatKind.AVRO, registry=registry)
    decoding = ValueColumn(columns, settled(wish, ["a"], list), BadValueCount())
    assert set(decoding.read_columns) == {"value", "headers", "offset"}
    header = {"key": "__value_schema_id", "value": b"\1" + UUID(int=1).bytes}
    arrays = {
        "value": pa.array([b"\x06", b"\0\0\0\0\1\x08", None], pa.binary()),
        "headers": pa.array([[header], None, [header]], arrow_schema(["headers"]).field(0).type),
        "offset": pa.array([1, 2, 3], pa.int64()),
    }
    given = pa.RecordBatch.from_arrays(
        [arrays[name] for name in decoding.read_columns], schema=arrow_schema(decoding.read_columns)
    )
    found = decoding.decoded(given, "a-0")
    assert tuple(found.schema.names) == columns
    assert found.column("value").to_pylist() == [3, 4, None]


@pytest.mark.parametrize("columns", [("value", "offset"), ("value",)])
def test_a_bad_value_fails_the_scan_with_its_record(columns: tuple[str, ...]) -> None:
    decoding = ValueColumn(columns, json_format(), BadValueCount())
    with pytest.raises(BadValueFound, match=r"offset 11 of t-0"):
        decoding.decoded(batch(decoding.read_columns, b"{}", b"x", b"y"), "t-0")


def test_bad_values_are_null_and_counted_with_the_first_of_all_where_that_is_wished() -> None:
    tally = BadValueCount()
    decoding = ValueColumn(("value",), json_format(BadValues.NULL), tally)
    assert str(tally) == "every value was decoded"
    for first, values in ((10, [b"{}"]), (20, [b"{}", b"x", None, b"y"]), (30, [b"z"])):
        found = decoding.decoded(batch(decoding.read_columns, *values, first=first), "t-0")
        assert found.num_rows == len(values)
    assert tally.count == 3 and tally.first.startswith("offset 21 of t-0: ")
    assert str(tally).startswith(
        "null instead of 3 values that cannot be decoded; the first: offset 21 of t-0: "
    )


# -- values that only Arrow cannot hold


def late_formats(folder: Path) -> dict[str, tuple[FormatKind, dict[str, Any], bytes, bytes]]:
    """For each format how it is settled, a good value, and one that is found to be bad only as Arrow's column is made:
    a number, a time or a decimal that the type of the column cannot hold."""
    put_schemas(folder)
    decimal = '{"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 2}'
    moment = '{"type": "long", "logicalType": "timestamp-millis"}'
    event = message_factory.GetMessageClass(message_of(read_schema_file(folder / "values.desc"), "t.Value"))
    far = event(l=1)
    far.ts.seconds = 1_700_000_000_000_000
    of_proto = {"schema": folder / "values.desc", "message": "t.Value"}
    ints = {"schema": pa.struct([("a", pa.int32())])}
    return {
        "json": (FormatKind.JSON, ints, b'{"a": 1}', b'{"a": 2147483648}'),
        "json time": (
            FormatKind.JSON, {"schema": pa.struct([("a", pa.decimal128(4, 2))])}, b'{"a": 1.25}', b'{"a": 123456.7}',
        ),
        "avro decimal": (FormatKind.AVRO, {"schema": decimal}, b"\x02\x7b", b"\x04\x30\x39"),
        "avro time": (FormatKind.AVRO, {"schema": moment}, b"\x02", b"\xfe" + b"\xff" * 8 + b"\x01"),
        "protobuf": (FormatKind.PROTOBUF, of_proto, event(l=1).SerializeToString(), far.SerializeToString()),
        "string": (FormatKind.STRING, {}, b"a", b"\xff"),
    }  # fmt: skip


@pytest.mark.parametrize("of", ["json", "json time", "avro decimal", "avro time", "protobuf", "string"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_rule_14_a_value_that_arrow_cannot_hold_is_null_or_named(tmp_path: Path, of: str, at: int) -> None:
    kind, settle, good, bad = late_formats(tmp_path)[of]
    values = [good, good]
    values.insert(at, bad)
    tally = BadValueCount()
    for on_bad in (BadValues.NULL, BadValues.FAIL):
        decoding = ValueColumn(("value",), settle_format(kind, **settle, on_bad=on_bad), tally)
        given = batch(decoding.read_columns, *values)
        if on_bad is BadValues.FAIL:
            with pytest.raises(BadValueFound, match=f"offset {10 + at} of t-0"):
                decoding.decoded(given, "t-0")
            continue
        found = decoding.decoded(given, "t-0").column(0)
        assert [each.is_valid for each in found] == [number != at for number in range(3)]
        assert tally.count == 1 and f"offset {10 + at} of t-0" in tally.first


@pytest.mark.parametrize("at", [0, 1, 2])
def test_rule_14_a_time_beyond_microseconds_is_null_or_named(at: int) -> None:
    reading.INDEXES.clear()  # another world's objects have the same ids
    with keyed_world() as world:
        (stream,) = world.topic(cleanup_policy="delete")
        times = [5, 6]
        times.insert(at, 2**60)
        world.append_records(stream, *(Record(timestamp_ms=each, value=b'{"a": 1}') for each in times))
        image, request = world.image, ScanRequest(topics=("t",))
        cuts = [
            cut(each, 0, each.committed_offset, end_offset=each.committed_offset, fail_on_data_loss=True)
            for each in wanted_partitions(image, request)
        ]
        (pieces,) = plan_pieces(image, cuts, request).units
        for on_bad in (BadValues.NULL, BadValues.FAIL):
            columns = ("value", "timestamp")
            unit = ScanUnit(
                "store", columns, {0: world.store.url}, 0, 0, pieces, value_format=json_format(on_bad)
            )
            tally = BadValueCount()
            if on_bad is BadValues.FAIL:
                with pytest.raises(TimestampNotInRange, match=f"offset {at} of t-0"):
                    list(unit_rows(unit))
                continue
            (rows,) = unit_rows(unit, bad_values=tally)
            assert [each.is_valid for each in rows.column("timestamp")] == [
                number != at for number in range(3)
            ]
            assert rows.column("value").to_pylist() == [{"a": 1}] * 3
            assert (tally.count, f"offset {at} of partition 0" in tally.first) == (1, True)
