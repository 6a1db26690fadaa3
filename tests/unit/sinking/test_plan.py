"""The input of the tasks of a sink, and the options and columns that are refused before any task runs."""

import json
from collections.abc import Iterator

import pytest

from siltstone.kafka_protocol.batch_header import Codec
from siltstone.metadata.commands import CreateTopic
from siltstone.metadata.store_id import put_store_id
from siltstone.model.limits import MIB
from siltstone.object_store.bucket_identity import BucketOfAnotherStore, mark
from siltstone.runtime.randomness import seeded_randomness
from siltstone.scanning.failures import TopicNotThere
from siltstone.sinking.failures import SinkRefused
from siltstone.sinking.plan import (
    EncodingWish,
    SinkPlan,
    check_sink_name,
    decode_plan,
    encode_plan,
    plan_sink,
    value_encoding,
)
from siltstone.value_formats.failures import SchemaUnknown
from siltstone.value_formats.value_format import AS_JSON, FormatKind
from siltstone.value_formats.wire import NOT_FRAMED
from support.maintenance.keyed_world import KeyedWorld
from support.values.schema_registry import SchemaRegistry, protobuf_schema, record, schema_registry

VALUE = ("value", "binary")


@pytest.fixture
def world() -> KeyedWorld:
    made = KeyedWorld()
    made.topic("t", 2, cleanup_policy="delete")
    return made


def planned(world: KeyedWorld, *columns: tuple[str, str], topic: str | None = "t", **given: str) -> SinkPlan:
    return plan_sink(world.context, columns or [VALUE], topic, given.get("compression"))


def test_a_topic_is_planned_with_what_its_broker_would_refuse(world: KeyedWorld) -> None:
    streams = world.topic(
        "c",
        3,
        cleanup_policy="compact",
        max_message_bytes="1000",
        message_timestamp_type="LogAppendTime",
        message_timestamp_before_max_ms="11",
        message_timestamp_after_max_ms="22",
    )
    (place,) = planned(world, topic="c").topics
    assert (place.name, place.topic_id) == ("c", world.topic_named("c").topic_id)
    assert list(place.stream_ids) == streams
    assert (place.needs_keys, place.has_own_times, place.message_bytes_max) == (True, False, 1_000)
    assert (place.timestamp_before_max_ms, place.timestamp_after_max_ms) == (11, 22)
    (place,) = planned(world).topics
    assert (place.needs_keys, place.has_own_times) == (False, True)
    assert place.message_bytes_max > MIB // 2


def test_batches_have_the_topics_codec_else_the_options_else_lz4(world: KeyedWorld) -> None:
    world.topic("gzipped", compression_type="gzip")
    codecs = [
        planned(world, topic=topic, **option).topics[0].codec
        for topic, option in (
            ("t", {}),
            ("t", {"compression": "zstd"}),
            ("gzipped", {"compression": "zstd"}),
            ("t", {"compression": "none"}),
        )
    ]
    assert codecs == [Codec.LZ4, Codec.ZSTD, Codec.GZIP, Codec.NONE]


def test_without_the_option_topic_every_topic_but_internal_ones_is_planned(world: KeyedWorld) -> None:
    world.topic("other")
    world.metadata.execute(CreateTopic(0, 1, "__consumer_offsets", "f" * 32, 1, is_internal=True))
    plan = planned(world, VALUE, ("topic", "string"), topic=None)
    assert (plan.topic, [place.name for place in plan.topics]) == ("", ["t", "other"])
    assert planned(world).topic == "t" and len(planned(world).topics) == 1
    with pytest.raises(TopicNotThere, match="no topic '__consumer_offsets'"):
        planned(world, topic="__consumer_offsets")
    with pytest.raises(TopicNotThere, match=r"the store has no topic$"):
        plan_sink(KeyedWorld().context, [VALUE, ("topic", "string")], None, None)


def test_types_are_compared_without_spaces(world: KeyedWorld) -> None:
    headers = ("headers", "array<struct<key: string, value: binary>>")
    assert planned(world, VALUE, headers).schema == (
        "value binary,headers array<struct<key:string,value:binary>>"
    )


@pytest.mark.parametrize(
    ("columns", "topic", "reason"),
    [
        ([VALUE, ("extra", "int")], "t", "no column 'extra'; its columns are value, key, topic, "),
        ([("value", "int")], "t", "column value has type int, and a sink takes binary or string: cast it"),
        ([("key", "binary")], "t", "a sink needs the column value"),
        ([VALUE], None, "give option topic, the topic of all rows, or a column topic"),
    ],
)
def test_columns_that_no_sink_has_are_refused(
    world: KeyedWorld, columns: list[tuple[str, str]], topic: str | None, reason: str
) -> None:
    with pytest.raises(SinkRefused, match=reason):
        planned(world, *columns, topic=topic)


def test_an_unknown_compression_is_refused_with_those_that_there_are(world: KeyedWorld) -> None:
    with pytest.raises(
        SinkRefused, match="compression='brotli': write none or gzip or snappy or lz4 or zstd"
    ):
        planned(world, compression="brotli")


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a" * 129, "ä", "a\n"])
def test_a_name_that_is_no_part_of_a_key_is_refused(name: str) -> None:
    with pytest.raises(SinkRefused, match="option sinkName="):
        check_sink_name(name)
    check_sink_name("A-z_0.9")
    check_sink_name("a" * 128)


def test_a_plan_reaches_the_executors_and_that_of_another_version_is_refused(world: KeyedWorld) -> None:
    plan = planned(world)
    assert plan.bucket_url == world.store.url
    assert decode_plan(encode_plan(plan)) == plan
    newer = SinkPlan(2, plan.store_id, plan.bucket_url, plan.topic, plan.schema, plan.topics)
    with pytest.raises(SinkRefused, match="planned by another version of siltstone"):
        decode_plan(encode_plan(newer))


def test_a_plan_names_its_store_and_none_is_made_for_the_bucket_of_another(world: KeyedWorld) -> None:
    store_id = world.metadata.execute(put_store_id(seeded_randomness(1))).decode()
    mark(world.store, store_id)
    assert planned(world).store_id == store_id
    other = KeyedWorld()
    other.topic()
    other.metadata.execute(put_store_id(seeded_randomness(1)))
    mark(other.store, "f" * 32)
    with pytest.raises(BucketOfAnotherStore):
        planned(other)


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as made:
        yield made


def test_values_are_encoded_with_the_newest_schema_of_the_subject_or_with_a_given_one(
    registry: SchemaRegistry,
) -> None:
    registry.add("t-value", record(id="int"))
    newest = registry.add("t-value", record(id="long"))
    other = registry.add("other", record(x="string"))
    assert value_encoding(EncodingWish(registry=registry.url), "t").schema_id == newest
    assert value_encoding(EncodingWish(registry=registry.url, subject="other"), None).schema_id == other
    given = value_encoding(EncodingWish(schema=json.dumps(record(id="long"))), None)
    assert given.schema_id == NOT_FRAMED and "long" in given.schema.text
    assert value_encoding(EncodingWish(kind=FormatKind.JSON), None) == AS_JSON  # needs no schema


def test_sw20_what_cannot_be_encoded_is_refused_by_name(world: KeyedWorld, registry: SchemaRegistry) -> None:
    registry.add("t-value", protobuf_schema(id=3))
    text = json.dumps(record(id="long"))
    for wish, topic, why in (
        (EncodingWish(), "t", "option value=avro needs a schema"),
        (EncodingWish(schema=text, registry=registry.url), "t", "option value=avro needs a schema"),
        (EncodingWish(registry=registry.url), None, "the rows go to several topics"),
        (EncodingWish(registry=registry.url), "t", "the schema is of the kind protobuf"),
    ):
        with pytest.raises(SinkRefused, match=why):
            value_encoding(wish, topic)
    with pytest.raises(SchemaUnknown):
        value_encoding(EncodingWish(registry=registry.url), "nothing")
    encoding = value_encoding(EncodingWish(schema=text), "t")
    with pytest.raises(SinkRefused, match="JSON and Avro are made of structs"):
        plan_sink(world.context, [VALUE], "t", None, encoding)
    plan = plan_sink(world.context, [("value", "struct<id:bigint>")], "t", None, encoding)
    assert decode_plan(encode_plan(plan)) == plan
