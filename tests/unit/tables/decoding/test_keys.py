"""Keys of fields become one column of structs."""

from typing import Any

import pyarrow as pa
import pytest

from siltstone.tables.decoding.keys import KeyFieldsDecoder, key_decoder
from siltstone.tables.decoding.port import DecodedColumns
from siltstone.tables.layout import key_type
from siltstone.tables.task_input import ValueSchemas
from siltstone.topic_configs.table_export import TableColumn, TableConfig

FIELDS = (TableColumn("id", "int"), TableColumn("gate", "string"))


def decoded(*keys: bytes | None, mode: str = "append", table_format: str = "iceberg") -> DecodedColumns:
    config = TableConfig(key="json", key_columns=FIELDS, mode=mode, table_format=table_format)
    decoder = key_decoder(config, ValueSchemas())
    assert isinstance(decoder, KeyFieldsDecoder)
    found = decoder.decode(pa.array(keys, pa.binary()))
    assert found.columns["key"].type == key_type(config)
    return found


def test_no_key_is_null_and_a_key_without_a_field_has_a_null() -> None:
    found = decoded(b'{"id": 1, "gate": "A"}', None, b'{"gate": "B"}')
    assert found.columns["key"].to_pylist() == [{"id": 1, "gate": "A"}, None, {"id": None, "gate": "B"}]
    assert not found.bad


@pytest.mark.parametrize(
    "key", [b'{"id": 1}', b'{"id": 1, "gate": null}', b"{}", b"x", b'{"id": "1", "gate": ""}']
)
def test_where_rows_are_found_by_their_key_each_field_is_needed(key: bytes) -> None:
    found = decoded(b'{"id": 1, "gate": ""}', None, key, mode="upsert")
    assert found.bad.keys() == {2}


def test_a_delta_table_has_wide_numbers() -> None:
    assert decoded(b'{"id": 1}', table_format="delta").columns["key"].type.field("id").type == pa.int64()


def test_schemas_that_are_needed_are_passed_on() -> None:
    class Needing:
        def decode(self, values: Any) -> DecodedColumns:
            return DecodedColumns({}, {}, (7,))

    kind = pa.struct([("id", pa.int32())])
    found = KeyFieldsDecoder(Needing(), kind, are_needed=True).decode(pa.array([b"x"]))
    assert (found.needed, found.columns) == ((7,), {})
