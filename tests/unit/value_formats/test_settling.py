"""What a user says, and the value format that follows."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from siltstone.value_formats.failures import BadValueFound, FormatRefused
from siltstone.value_formats.opening import open_decoder
from siltstone.value_formats.schemas.folder import FolderRegistry
from siltstone.value_formats.settling import settle_format
from siltstone.value_formats.value_format import (
    BadValues,
    FormatKind,
    ValueFormat,
    decode_type,
    encode_type,
)

RECORD = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'
ROW = pa.struct([("a", pa.int32())])


def test_a_format_travels_as_bytes() -> None:
    settled = settle_format(FormatKind.AVRO, schema=RECORD, on_bad=BadValues.NULL)
    data = msgspec.msgpack.encode(settled)
    assert msgspec.msgpack.decode(data, type=ValueFormat) == settled
    assert settled.arrow_type == ROW
    with pytest.raises(FormatRefused):
        decode_type(b"nothing")


def test_the_registry_gives_the_newest_schema_and_its_url_goes_along(tmp_path: Path) -> None:
    (tmp_path / "1.avsc").write_text(RECORD)
    (tmp_path / "subjects.json").write_text('{"r-value": [1]}')
    settled = settle_format(FormatKind.AVRO, "r-value", registry=FolderRegistry(tmp_path))
    assert (settled.registry, settled.arrow_type) == (tmp_path.as_uri(), ROW)
    decoded = open_decoder(settled).decode(pa.array([b"\0\0\0\0\1\x06"]))
    assert decoded.column.to_pylist() == [{"a": 3}]


def test_a_schema_is_given_as_text_as_a_file_and_as_a_type(tmp_path: Path) -> None:
    path = tmp_path / "r.avsc"
    path.write_text(RECORD)
    given = [RECORD, path, str(path)]
    assert {settle_format(FormatKind.AVRO, schema=each).type_ipc for each in given} == {encode_type(ROW)}
    types = [ROW, pa.schema(ROW), encode_type(ROW)]
    assert {settle_format(FormatKind.JSON, schema=each).type_ipc for each in types} == {encode_type(ROW)}


def test_what_contradicts_itself_is_refused() -> None:
    with pytest.raises(FormatRefused, match="need a schema of their kind"):
        settle_format(FormatKind.AVRO, schema=ROW)
    with pytest.raises(FormatRefused, match="json needs a schema"):
        settle_format(FormatKind.JSON)
    for kind in (FormatKind.AVRO, FormatKind.PROTOBUF):
        with pytest.raises(
            FormatRefused, match=f"{kind.value} needs a schema: give one, or a schema registry"
        ):
            settle_format(kind, sample=lambda: [b"{}"])
    avro = settle_format(FormatKind.AVRO, schema=RECORD).reader
    with pytest.raises(FormatRefused, match="is of the kind avro"):
        settle_format(FormatKind.JSON, schema=avro)


def test_json_is_inferred_from_a_sample() -> None:
    settled = settle_format(FormatKind.JSON, sample=lambda: [None, b'{"a": 1}'])
    assert settled.arrow_type == pa.struct([("a", pa.int64())])


def test_a_json_schema_is_the_type_and_no_sample_is_taken() -> None:
    def sample() -> list[bytes | None]:
        raise AssertionError("the schema says it")

    text = '{"type": "object", "properties": {"a": {"type": "number"}}}'
    settled = settle_format(FormatKind.JSON, schema=text, sample=sample)
    assert settled.arrow_type == pa.struct([("a", pa.float64())])
    assert settled.reader is not None and settled.reader.text == text


def test_only_formats_that_need_the_writers_schema_take_the_registry_along(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text('{"type": "integer"}')
    (tmp_path / "subjects.json").write_text('{"j-value": [1]}')
    registry = FolderRegistry(tmp_path)
    settled = settle_format(FormatKind.JSON, "j-value", registry=registry)
    assert (settled.registry, settled.arrow_type) == ("", pa.int64())
    text = settle_format(FormatKind.STRING, "not-there", registry=registry)
    assert (text.registry, text.arrow_type, text.reader) == ("", pa.string(), None)
    assert settle_format(FormatKind.AVRO, schema=RECORD, registry=registry).registry == tmp_path.as_uri()


def test_a_bad_value_says_the_ways_out() -> None:
    assert "badValues=null" in str(BadValueFound("offset 3 of flights-0", "JSON is malformed"))
