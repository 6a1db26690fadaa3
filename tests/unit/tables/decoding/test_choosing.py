import pyarrow as pa
import pytest

from siltstone.tables.decoding.choosing import RawDecoder, TextColumnDecoder, value_decoder
from siltstone.tables.decoding.keys import key_decoder
from siltstone.tables.decoding.port import ColumnDecoder
from siltstone.tables.layout import table_schema
from siltstone.tables.task_input import ValueSchemas
from siltstone.topic_configs.table_export import VALUES, WITH_SCHEMAS, TableColumn, TableConfig
from siltstone.value_formats.decoders.writers import NO_SCHEMA


def test_raw_values_are_never_bad() -> None:
    values = pa.array([b"\xff", None, b""], pa.binary())
    found = RawDecoder().decode(values)
    assert found.columns["value"] is values and found.bad == {}


def test_text_is_utf_8_and_a_value_that_is_not_is_bad_alone() -> None:
    well = TextColumnDecoder().decode(pa.array([b"\xc3\xa4", None, b""], pa.binary()))
    assert (well.columns["value"].to_pylist(), well.bad) == (["ä", None, ""], {})
    mixed = TextColumnDecoder("key").decode(pa.array([b"a", b"\xff", None], pa.binary()))
    assert mixed.columns["key"].to_pylist() == ["a", None, None]
    assert mixed.bad == {1: "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"}
    assert mixed.are_good(3).tolist() == [True, False, True]


def decoder(config: TableConfig) -> ColumnDecoder:
    return value_decoder(config, ValueSchemas(), table_schema(config))


@pytest.mark.parametrize("value", VALUES)
def test_every_encoding_that_can_be_configured_has_a_decoder(value: str) -> None:
    found = decoder(TableConfig(value=value)).decode(pa.array([b'"x"', None], pa.binary()))
    if value in WITH_SCHEMAS:
        assert (found.columns, found.bad) == ({}, {0: NO_SCHEMA})
        return
    assert list(found.columns) == ["value"] and found.bad == {}
    assert found.columns["value"].to_pylist() in ([b'"x"', None], ['"x"', None])


def test_fields_and_keys() -> None:
    config = TableConfig(value="json", columns=(TableColumn("a", "int"),), key="string")
    assert list(decoder(config).decode(pa.array([b"{}"], pa.binary())).columns) == ["a"]
    none = ValueSchemas()
    assert key_decoder(config, none) is not None and key_decoder(TableConfig(), none) is None
