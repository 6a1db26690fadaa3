"""Makes the input of a sink's tasks from one image: the topics, the limits at which their broker refuses records, and
the place for staged objects. A task reaches the bucket and nothing else.
"""

import re
from collections.abc import Iterable

import msgspec

from siltstone.kafka_protocol.batch_header import Codec
from siltstone.metadata.entities import TopicMetadata
from siltstone.metadata.sinks import SINK_ID
from siltstone.metadata.store_id import store_id_of
from siltstone.offline.context import MaintenanceContext, check_may_write
from siltstone.offline.topic_streams import topic_defaults
from siltstone.scanning.failures import TopicNotThere
from siltstone.sinking.failures import SinkRefused
from siltstone.topic_configs.table import stored_topic_config
from siltstone.value_formats.schemas.opening import open_registry
from siltstone.value_formats.value_format import AS_JSON, FormatKind, ValueEncoding

PLAN_VERSION = 1
CODECS = {codec.name.lower(): codec for codec in Codec}
COLUMNS = {
    "value": ("binary", "string"),
    "key": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp",),
}
"""The columns of a sink and the types, as Spark writes them, that each may have."""

LOG_APPEND_TIME = "LogAppendTime"
_SPACES = re.compile(r"\s+")


class EncodingWish(msgspec.Struct, frozen=True):
    """Says how a caller wants values encoded: as JSON, or as Avro with a schema or with the newest schema of a subject
    in a registry."""

    schema: str | None = None
    registry: str = ""
    subject: str = ""
    kind: FormatKind = FormatKind.AVRO


class TopicPlace(msgspec.Struct, frozen=True, array_like=True):
    """A topic with its partitions' data streams, and the limits at which its broker refuses records. ``codec`` is the
    codec of the batches."""

    name: str
    topic_id: str
    stream_ids: tuple[int, ...]
    codec: int
    message_bytes_max: int
    needs_keys: bool
    has_own_times: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int


class SinkPlan(msgspec.Struct, frozen=True, array_like=True):
    """``topic`` is the topic of all rows; if it is empty, the column ``topic`` names the topic of each row. ``schema``
    names the columns. ``encoding`` None: the column ``value`` has the bytes of the values."""

    version: int
    store_id: str
    bucket_url: str
    topic: str
    schema: str
    topics: tuple[TopicPlace, ...]
    encoding: ValueEncoding | None = None


def plan_sink(
    source: MaintenanceContext,
    columns: Iterable[tuple[str, str]],
    topic: str | None,
    compression: str | None,
    encoding: ValueEncoding | None = None,
) -> SinkPlan:
    """``columns`` are pairs of name and type. Raises SinkRefused, TopicNotThere, and what ``check_may_write``
    raises."""
    names = [(name, _SPACES.sub("", kind)) for name, kind in columns]
    _refuse_columns(names, has_topic=topic is not None, is_encoded=encoding is not None)
    if compression is not None and compression not in CODECS:
        raise SinkRefused(f"option compression={compression!r}: write {' or '.join(CODECS)}")
    image = source.metadata.refresh()
    bucket_id = min(source.buckets.urls)
    check_may_write(source, bucket_id)
    found = [each for each in image.topics.values() if not each.is_internal and topic in (None, each.name)]
    if not found:
        raise TopicNotThere(f"the store has no topic {topic!r}" if topic else "the store has no topic")
    defaults = topic_defaults(image)
    return SinkPlan(
        PLAN_VERSION,
        store_id_of(image) or "",
        source.buckets.urls[bucket_id],
        topic or "",
        ",".join(f"{name} {kind}" for name, kind in names),
        tuple(_place(each, dict(defaults), compression) for each in found),
        encoding,
    )


def value_encoding(wish: EncodingWish, topic: str | None) -> ValueEncoding:
    """Returns JSON, or the Avro schema with which values are written: the given one, or the newest one of the subject.
    Raises SinkRefused, and what the registry and the schema raise."""
    if wish.kind is FormatKind.JSON:
        return AS_JSON
    from siltstone.value_formats.encoders.avro import AvroEncoder  # noqa: PLC0415  loads fastavro
    from siltstone.value_formats.settling import given_schema  # noqa: PLC0415  loads the libraries of all formats

    if (wish.schema is None) == (not wish.registry):
        raise SinkRefused(
            "option value=avro needs a schema: give valueSchema (its text, or a file), or schemaRegistry (a URL)"
        )
    if wish.registry:
        subject = wish.subject or (f"{topic}-value" if topic else "")
        if not subject:
            raise SinkRefused(
                "the rows go to several topics: name the subject of their schema in valueSubject"
            )
        schema_id, schema = open_registry(wish.registry).latest(subject)
        encoding = ValueEncoding(schema, schema_id)
    else:
        given, _ = given_schema(FormatKind.AVRO, wish.schema)
        assert given is not None, "a schema was given"
        encoding = ValueEncoding(given)
    if encoding.schema.kind is not FormatKind.AVRO:
        raise SinkRefused(
            f"the schema is of the kind {encoding.schema.kind.value}, and values are to be Avro"
        )
    AvroEncoder(encoding)
    return encoding


def check_sink_name(sink_id: str) -> None:
    """Raises SinkRefused."""
    if not SINK_ID.fullmatch(sink_id):
        raise SinkRefused(f"option sinkName={sink_id!r}: give 1 to 128 letters, digits, '.', '_' or '-'")


def encode_plan(plan: SinkPlan) -> bytes:
    return msgspec.msgpack.encode(plan)


def decode_plan(data: bytes) -> SinkPlan:
    """Raises SinkRefused for a plan of another version."""
    fields = msgspec.msgpack.decode(data)
    if fields[0] != PLAN_VERSION:
        raise SinkRefused(
            "this batch was planned by another version of siltstone: install one version on the driver and all"
            " executors"
        )
    return msgspec.convert(fields, SinkPlan)


def _refuse_columns(columns: list[tuple[str, str]], *, has_topic: bool, is_encoded: bool) -> None:
    for name, kind in columns:
        if name not in COLUMNS:
            raise SinkRefused(f"a sink has no column {name!r}; its columns are {', '.join(COLUMNS)}")
        if name == "value" and is_encoded:
            if not kind.startswith("struct<"):
                raise SinkRefused(
                    f"column value has type {kind}, and JSON and Avro are made of structs: select struct(*) as value"
                )
            continue
        if kind not in COLUMNS[name]:
            raise SinkRefused(
                f"column {name} has type {kind}, and a sink takes {' or '.join(COLUMNS[name])}: cast it"
            )
    names = {name for name, _ in columns}
    if "value" not in names:
        raise SinkRefused(
            "a sink needs the column value: select something as value, such as struct(*) with value=json"
        )
    if not has_topic and "topic" not in names:
        raise SinkRefused(
            "give option topic, the topic of all rows, or a column topic, which names the topic of each row"
        )


def _place(topic: TopicMetadata, defaults: dict[str, str], compression: str | None) -> TopicPlace:
    config = stored_topic_config(topic.configs, defaults)
    codec = config.compression_codec
    if codec is None:
        codec = Codec.LZ4 if compression is None else CODECS[compression]
    return TopicPlace(
        topic.name,
        topic.topic_id,
        tuple(partition.data_stream_id for partition in topic.partitions),
        codec,
        config.max_message_bytes,
        config.is_compacted,
        config.timestamp_type != LOG_APPEND_TIME,
        config.timestamp_before_max_ms,
        config.timestamp_after_max_ms,
    )
