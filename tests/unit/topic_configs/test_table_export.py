"""The configurations ``siltstone.table.*``."""

import pytest

from siltstone.topic_configs.table import parse_topic_configs, stored_topic_config, written_configs
from siltstone.topic_configs.table_export import PartitionTransform, TableColumn, TableConfig
from siltstone.topic_configs.values import InvalidTopicConfig


def parsed(**table: str) -> TableConfig:
    named = {f"siltstone.table.{key.replace('_', '.')}": text for key, text in table.items()}
    return parse_topic_configs(named).table


def test_a_topic_has_no_table_until_a_format_is_set() -> None:
    nothing = parsed()
    assert (nothing.table_format, nothing.has_fields, nothing.conflict) == ("", False, "")
    assert nothing.partition_by == (PartitionTransform("day", "timestamp"),)


@pytest.mark.parametrize(
    ("topic", "table"), [("flights", "kafka.flights"), ("a.b-c_d", "kafka.a_b_c_d"), ("__x", "kafka.__x")]
)
def test_the_table_is_named_after_the_topic_unless_it_has_a_name(topic: str, table: str) -> None:
    assert parsed().name_for(topic) == table
    assert parsed(name="lake.flights_2").name_for(topic) == "lake.flights_2"


def test_columns_and_transforms() -> None:
    config = parsed(
        value="json", columns=" carrier string , at timestamp ", partition_by="hour(at),identity(carrier)"
    )
    assert config.columns == (TableColumn("carrier", "string"), TableColumn("at", "timestamp"))
    assert [each.name for each in config.partition_by] == ["at_hour", "carrier"]
    assert written_configs({"siltstone.table.columns": " a  int "}) == {"siltstone.table.columns": "a  int"}
    assert parsed(partition_by="").partition_by == ()


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"format": "csv"}, "String must be one of: , parquet, iceberg"),
        ({"name": "flights"}, "write namespace.table, of letters, digits and _"),
        ({"name": "a.b/../c"}, "write namespace.table"),
        ({"columns": "a"}, "write NAME TYPE; the types are boolean, int, long"),
        ({"columns": "a varchar"}, "write NAME TYPE"),
        ({"columns": "a-b int"}, "write NAME TYPE"),
        ({"columns": "a", "value": "json"}, "array<TYPE>, map<string, TYPE>"),
        ({"columns": "at struct<lat double, lon>"}, "> is none of boolean"),
        ({"columns": "a array<int, b int"}, "'>' of array is missing"),
        ({"columns": "a array<int>, A map<string,int>"}, "a column of that name is there already"),
        (
            {"value": "json", "columns": "a struct<b: int>", "partition_by": "identity(a)"},
            "needs a column of type boolean or int or long or string, and a is of type struct<b:int>",
        ),
        ({"columns": "a int,A long"}, "a column of that name is there already"),
        ({"columns": "kafka int"}, "kafka is taken"),
        (
            {"columns": "a int", "value": "raw"},
            "names fields of JSON values, but siltstone.table.value is raw",
        ),
        ({"partition_by": "week(timestamp)"}, "write TRANSFORM"),
        ({"partition_by": "bucket(key)"}, "bucket(COLUMN,N)"),
        ({"partition_by": "day(timestamp,4)"}, "write TRANSFORM"),
        ({"partition_by": "bucket(key,0)"}, "the number of bucket is between 1 and 1000000"),
        (
            {"partition_by": "truncate(key,4)"},
            "needs a column of type int or long or string, and key is of type binary",
        ),
        ({"partition_by": "bucket(key,4),bucket(key,8)"}, "each partition value may be named once"),
        ({"mode": "upsert", "format": "iceberg"}, "it needs cleanup.policy=compact"),
        ({"key": "avro"}, "siltstone.table.key=avro needs siltstone.table.key.columns"),
        (
            {"key": "string", "key_columns": "a int"},
            "names fields of keys, but siltstone.table.key is string",
        ),
        ({"key": "json", "key_columns": "a"}, "write NAME TYPE"),
        ({"key": "json", "key_columns": "a array<int>"}, "write NAME TYPE; the types are boolean, int"),
        ({"key": "json", "key_columns": "a int", "partition_by": "bucket(key,4)"}, "no column key"),
        ({"mode": "replace"}, "String must be one of: append, upsert"),
        ({"partition_by": "timestamp"}, "write TRANSFORM"),
        ({"partition_by": "day(nothing)"}, "there is no column nothing to divide the table by"),
        (
            {"partition_by": "day(partition)"},
            "needs a column of type timestamp, and partition is of type int",
        ),
        ({"partition_by": "identity(timestamp)"}, "needs a column of type boolean or int or long or string"),
        (
            {
                "value": "json",
                "columns": "at_day string, at timestamp",
                "partition_by": "day(at),identity(at_day)",
            },
            "each partition value may be named once",
        ),
        (
            {"value": "json", "columns": "timestamp_day string"},
            "day(timestamp) would have the name of the column timestamp_day",
        ),
        ({"bytes_min": "0"}, "Value must be at least 1"),
    ],
)
def test_what_is_refused(table: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidTopicConfig, match=why.replace("(", r"\(").replace(")", r"\)")):
        parsed(**table)


def test_a_field_may_have_the_name_of_a_column_of_the_record() -> None:
    config = parsed(
        value="json", columns="timestamp string, partition string", partition_by="identity(timestamp)"
    )
    assert config.is_field("timestamp") and config.kind_of("timestamp") == "string"


def test_too_many_columns() -> None:
    with pytest.raises(InvalidTopicConfig, match="has 1001 columns; at most 1000 are allowed"):
        parsed(value="json", columns=",".join(f"c{number} int" for number in range(1_001)))


def test_nested_columns() -> None:
    config = parsed(
        value="json", columns="at struct<lat: double, lon double>,tags array< string >,n map<string,long>"
    )
    assert config.columns == (
        TableColumn("at", "struct<lat:double,lon:double>"),
        TableColumn("tags", "array<string>"),
        TableColumn("n", "map<string,long>"),
    )
    assert config.columns[0].type.parts[1][0] == "lon"
    fields = ",".join(f"f{number} int" for number in range(1_000))
    with pytest.raises(InvalidTopicConfig, match="has 1001 columns and fields; at most 1000 are allowed"):
        parsed(value="json", columns=f"a struct<{fields}>")


def test_stored_configurations_that_contradict_each_other_say_so_later() -> None:
    stored = stored_topic_config({"siltstone.table.columns": "a int"}, {})
    assert stored.table.conflict.startswith("siltstone.table.columns names fields of JSON values")


def test_transforms_with_a_number() -> None:
    config = parsed(partition_by="bucket(key, 16), truncate( partition ,10)")
    assert config.partition_by == (
        PartitionTransform("bucket[16]", "key"),
        PartitionTransform("truncate[10]", "partition"),
    )
    assert [each.name for each in config.partition_by] == ["key_bucket", "partition_truncate"]
    assert [each.text for each in config.partition_by] == ["bucket(key,16)", "truncate(partition,10)"]
    assert [(each.kind, each.width) for each in config.partition_by] == [("bucket", 16), ("truncate", 10)]
    assert parsed(key="string", partition_by="truncate(key,4)").kind_of("key") == "string"


def test_a_table_with_the_newest_record_of_each_key_is_divided_by_the_key() -> None:
    def upsert(**table: str) -> TableConfig:
        named = {f"siltstone.table.{key}": text for key, text in table.items()}
        policy = {"cleanup.policy": "compact,delete"}
        return parse_topic_configs({**policy, "siltstone.table.mode": "upsert", **named}).table

    config = upsert(format="delta", buckets="7")
    assert config.is_upsert and config.partition_by == (PartitionTransform("bucket[7]", "key"),)
    fields = upsert(format="iceberg", value="json", columns="key string, a int")
    assert fields.division == (PartitionTransform("bucket[16]", "kafka.key"),), (
        "the key of the record, not the field"
    )
    keyed = {"key": "json", "key.columns": "id long, at double"}
    for value, path in (({}, "key.id"), ({"value": "json", "columns": "id int"}, "kafka.key.id")):
        found = upsert(format="delta", **keyed, **value)
        assert found.division == (PartitionTransform("bucket[16]", path),), "the first field of the key"
        assert found.division[0].name == path.replace(".", "_") + "_bucket"
    with pytest.raises(InvalidTopicConfig, match="at is of type double: put one of type date or int or long"):
        upsert(format="delta", key="json", **{"key.columns": "at double, id long"})
    with pytest.raises(InvalidTopicConfig, match=r"needs siltstone\.table\.format=iceberg or delta"):
        upsert(format="parquet")
    with pytest.raises(InvalidTopicConfig, match="Value must be"):
        upsert(buckets="10001")


@pytest.mark.parametrize("text", ["variant", "a long, b variant", "infer, variant"])
def test_a_column_cannot_be_a_variant_and_the_refusal_says_what_is_missing(text: str) -> None:
    with pytest.raises(InvalidTopicConfig, match=r"pyiceberg 0\.12 writes no tables of version 3"):
        parse_topic_configs({"siltstone.table.value": "json", "siltstone.table.columns": text})


def test_the_packages_that_write_tables_still_have_no_variant() -> None:
    """When this fails, a table may have VARIANT columns."""
    import pyiceberg.types
    from deltalake.schema import PrimitiveType

    assert not hasattr(pyiceberg.types, "VariantType")
    with pytest.raises(ValueError, match="invalid type"):
        PrimitiveType("variant")
