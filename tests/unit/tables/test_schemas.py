"""The schemas that the driver of a round knows, and the columns that follow from them."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from siltstone.tables.failures import RegistryNotNamed, TooManySchemas
from siltstone.tables.schemas import SCHEMAS_BYTES_MAX, SCHEMAS_MAX, RoundSchemas
from siltstone.topic_configs.table_export import LATEST, TableConfig
from siltstone.value_formats.failures import (
    FormatRefused,
    RegistryNotReachable,
    SchemaMalformed,
    SchemaUnknown,
)
from siltstone.value_formats.value_format import FormatKind, Schema
from siltstone.value_formats.wire import NOT_FRAMED
from support.values.schema_registry import Field, SchemaRegistry, protobuf_schema, record, schema_registry


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as made:
        yield made


def of(
    registry: SchemaRegistry,
    *,
    may_widen: bool = True,
    bytes_max: int = SCHEMAS_BYTES_MAX,
    **config: Any,
) -> RoundSchemas:
    made = TableConfig(**{"value": "avro", **config})
    return RoundSchemas("t", made, registry.url, may_widen=may_widen, bytes_max=bytes_max)


def test_a_round_begins_with_the_newest_schema_and_those_of_earlier_rounds(registry: SchemaRegistry) -> None:
    old = registry.add("t-value", record(id="int"))
    registry.add("t-value", record(id="int", unused="string"))
    new = registry.add("t-value", record(id="long", gate="string"))
    schemas = of(registry)
    schemas.begin([old])
    assert schemas.names == (old, new)
    assert schemas.columns(None) == {"id": pa.int64(), "gate": pa.string()}
    assert set(schemas.given().by_name) == {old, new} and schemas.given().refused == {}
    asked = len(registry.asked)
    schemas.fetch([old, new])
    assert len(registry.asked) == asked


def test_the_columns_of_the_table_come_first_and_a_schema_that_conflicts_is_refused(
    registry: SchemaRegistry,
) -> None:
    bad = registry.add("t-value", record(id="string"))
    schemas = of(registry)
    schemas.begin([])
    table = pa.schema(
        [("id", pa.int32()), ("text", pa.large_string()), ("kafka", pa.struct([("offset", pa.int64())]))]
    )
    assert schemas.columns(table) == {"id": pa.int32(), "text": pa.string()}
    assert schemas.given().by_name == {}
    assert "its field id is string" in schemas.given().refused[bad]
    assert schemas.columns(None) == {"id": pa.string()}, "a conflict is one with a certain table"
    assert schemas.given().refused == {}


def test_where_columns_cannot_become_wider_they_are_wide_from_the_beginning(registry: SchemaRegistry) -> None:
    registry.add("t-value", record(id="int", delay="float"))
    schemas = of(registry, may_widen=False)
    schemas.begin([])
    assert schemas.columns(None) == {"id": pa.int64(), "delay": pa.float64()}


def test_no_subject_is_no_fault_where_values_name_their_schemas(registry: SchemaRegistry) -> None:
    schemas = of(registry)
    schemas.begin([])
    assert (schemas.names, schemas.columns(None)) == ((), {})
    unframed = of(registry, schema=LATEST)
    with pytest.raises(SchemaUnknown):
        unframed.begin([])
    first = registry.add("t-value", record(id="int"))
    unframed.begin([first])
    assert list(unframed.given().by_name) == [NOT_FRAMED] and unframed.names == ()


def test_schemas_that_cannot_be_used_are_refused(registry: SchemaRegistry) -> None:
    malformed = registry.add("x", {"type": "record"})
    protobuf = registry.add("x", protobuf_schema(id=Field.TYPE_INT64))
    schemas = of(registry)
    schemas.begin([])
    schemas.fetch([malformed, protobuf, 999])
    refused = schemas.given().refused
    assert sorted(refused) == [malformed, protobuf, 999]
    assert "cannot be understood" in refused[malformed] and "protobuf" in refused[protobuf]
    other = of(registry, value="protobuf", message="t.None")
    other.begin([])
    other.fetch([protobuf])
    assert "t.None" in other.given().refused[protobuf]
    registry.add("t-value", Schema(FormatKind.AVRO, "{"))
    with pytest.raises(SchemaMalformed, match="the schema of topic t cannot be used"):
        of(registry, schema=LATEST).begin([])


def test_a_registry_that_does_not_answer_fails_the_round(registry: SchemaRegistry) -> None:
    schemas = of(registry)
    registry.fails = True
    with pytest.raises(RegistryNotReachable):
        schemas.begin([])
    registry.fails = False
    schemas.begin([])
    registry.fails = True
    with pytest.raises(RegistryNotReachable):
        schemas.fetch([100])
    assert schemas.given().refused == {}


def test_files_need_a_folder_and_everything_needs_a_registry(registry: SchemaRegistry) -> None:
    with pytest.raises(FormatRefused, match="names a file, and"):
        of(registry, schema="file:a.avsc").begin([])
    with pytest.raises(RegistryNotNamed, match="the settings name no schemas"):
        RoundSchemas("t", TableConfig(value="avro"), "", may_widen=True)


def test_schemas_have_limits(registry: SchemaRegistry) -> None:
    schemas = of(registry)
    schemas.begin([])
    asked = len(registry.asked)
    with pytest.raises(TooManySchemas, match="more than 1000 schemas"):
        schemas.fetch(range(1, SCHEMAS_MAX + 2))
    assert len(registry.asked) == asked, "it asks for none of them"
    first = registry.add("x", record(id="int"))
    with pytest.raises(TooManySchemas):
        of(registry, bytes_max=10).fetch([first])
