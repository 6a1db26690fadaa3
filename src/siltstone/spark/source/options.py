"""Parses the options of ``spark.read.format("siltstone")``: texts → the place of a store and a ScanRequest.

Names are case-insensitive. An option that does not exist is refused by name, because a scan without it would read other
rows in silence. Options of the Kafka client, ``kafka.…`` and some of the connector, have no meaning here and are
ignored with one warning; so are options of streams where no stream is read, as by Spark's connector.
"""

import base64
import binascii
import logging
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeVar

import msgspec

from siltstone.foundation.milliseconds import first_ms_at_or_after
from siltstone.offline.topic_streams import PartitionName
from siltstone.scanning.arguments import time_range, value_wish, wished_columns
from siltstone.scanning.failures import ScanRefused
from siltstone.scanning.request import (
    EARLIEST,
    LATEST,
    UNIT_BYTES_MAX,
    Bound,
    BoundKind,
    Bounds,
    Isolation,
    ScanRequest,
    Tail,
    lease_ms_of,
)
from siltstone.spark.option_names import ignored_text, is_of_client, password_in, place_text, unknown_option

log = logging.getLogger(__name__)
T = TypeVar("T")

OPTIONS = (
    "store", "metadata", "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets",
    "startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy", "minPartitions", "maxRecordsPerPartition", "maxBytesPerPartition",
    "includeHeaders", "failOnDataLoss", "tail", "isolation", "columns", "partitions", "scanLease", "timestampFrom",
    "timestampUntil", "trustBatchTimestamps", "value", "valueSchema", "schemaRegistry", "valueSubject", "valueMessage",
    "badValues", "schemaLocation", "scanRequest",
)  # fmt: skip
"""Every option except ``bucket.N``. ``scanRequest`` is a whole request, encoded, which siltstone.spark.read sets."""

STREAM_OPTIONS = (
    "maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "pollInterval", "groupId",
)  # fmt: skip
"""The options that only a streaming read has."""

BUCKET_OPTION = re.compile(r"bucket\.([0-9]+)")
_NAMES = {name.lower(): name for name in OPTIONS}
_STREAM_NAMES = frozenset(name.lower() for name in STREAM_OPTIONS)
_ISOLATION_LEVELS = ("read_committed", "read_uncommitted")
_SPECIAL_OFFSETS = {-2: EARLIEST, -1: LATEST}


class SourceRequest(msgspec.Struct, frozen=True):
    """``store`` is the folder of a store or the URL of its metadata; or ``metadata`` and ``buckets`` are URLs."""

    store: str | None
    metadata: str | None
    buckets: dict[int, str]
    request: ScanRequest

    def __repr__(self) -> str:
        return f"SourceRequest({place_text(self.store, self.metadata, self.buckets)}, {self.request!r})"


def parse_options(given: Mapping[str, str]) -> SourceRequest:
    """Raises ScanRefused or ColumnUnknown with a text that names the option."""
    options, buckets = _known(given)
    if refusal := password_in(given):
        raise ScanRefused(refusal)
    store, metadata = options.get("store"), options.get("metadata")
    if (store is None) == (metadata is None):
        raise ScanRefused(
            "option store (a folder) or the options metadata and bucket.N (URLs) name the store: give one"
        )
    encoded = options.get("scanRequest")
    request = _request(options) if encoded is None else decode_request(encoded)
    return SourceRequest(store, metadata, buckets, request)


def encode_request(request: ScanRequest) -> str:
    """Returns a request as the text of the option ``scanRequest``."""
    return base64.b64encode(msgspec.msgpack.encode(request)).decode()


def decode_request(text: str) -> ScanRequest:
    """Raises ScanRefused."""
    try:
        return msgspec.msgpack.decode(base64.b64decode(text, validate=True), type=ScanRequest)
    except (binascii.Error, msgspec.MsgspecError) as cause:
        raise ScanRefused(f"option scanRequest is not what siltstone.spark.read writes: {cause}") from cause


def _known(given: Mapping[str, str]) -> tuple[dict[str, str], dict[int, str]]:
    options: dict[str, str] = {}
    buckets: dict[int, str] = {}
    ignored = []
    of_streams = []
    for raw, value in given.items():
        name = raw.lower()
        if name in _NAMES:
            options[_NAMES[name]] = value
        elif bucket := BUCKET_OPTION.fullmatch(name):
            buckets[int(bucket[1])] = value
        elif name == "kafka.isolation.level":
            level = _one_of("kafka.isolation.level", value, _ISOLATION_LEVELS)
            options.setdefault("isolation", level.removeprefix("read_"))
        elif is_of_client(name):
            ignored.append(raw)
        elif name in _STREAM_NAMES:
            of_streams.append(raw)
        else:
            raise ScanRefused(unknown_option(raw, [*OPTIONS, *STREAM_OPTIONS]))
    if ignored:
        log.warning("%s", ignored_text(ignored))
    if of_streams:
        log.warning("options of streams have no meaning in a batch read: %s", ", ".join(sorted(of_streams)))
    return options, buckets


def _request(options: Mapping[str, str]) -> ScanRequest:
    chosen = [name for name in ("subscribe", "subscribePattern", "assign") if name in options]
    if len(chosen) != 1:
        raise ScanRefused(
            "One of the following options must be specified for the source: subscribe, subscribePattern, assign;"
            f" given: {', '.join(chosen) or 'none'}"
        )
    assigned = options.get("assign")
    with_headers = _flag(options, "includeHeaders", default=False)
    columns, found = wished_columns(options.get("columns"), with_headers=with_headers)
    return ScanRequest(
        topics=tuple(name.strip() for name in options.get("subscribe", "").split(",") if name.strip()),
        pattern=options.get("subscribePattern"),
        assigned=None if assigned is None else _json("assign", assigned, dict[str, tuple[int, ...]]),
        partitions=_partitions(options),
        start=_bounds(options, "starting"),
        end=_bounds(options, "ending"),
        columns=columns,
        isolation=Isolation(
            _one_of("isolation", options.get("isolation", "committed"), [each.value for each in Isolation])
        ),
        tail=Tail(_one_of("tail", options.get("tail", "auto"), [each.value for each in Tail])),
        fail_on_data_loss=_flag(options, "failOnDataLoss", default=True),
        unit_bytes_max=_number(options, "maxBytesPerPartition", UNIT_BYTES_MAX),
        unit_offsets_max=_number(options, "maxRecordsPerPartition", 0),
        units_min=_number(options, "minPartitions", 0),
        by_object=True,
        lease_ms=_lease_ms(options),
        times=time_range(
            _time_ms(options, "timestampFrom"),
            _time_ms(options, "timestampUntil"),
            trusts_batches=_flag(options, "trustBatchTimestamps", default=False),
        ),
        values=value_wish(
            options.get("value"),
            schema=options.get("valueSchema"),
            registry=options.get("schemaRegistry", ""),
            subject=options.get("valueSubject", ""),
            message=options.get("valueMessage", ""),
            bad_values=options.get("badValues"),
            found=found,
            location=options.get("schemaLocation", ""),
        ),
    )


def _time_ms(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    return None if text is None else time_option_ms(name, text)


def time_option_ms(name: str, text: str) -> int:
    """Parses milliseconds since 1970, or ISO 8601 with a time zone. Raises ScanRefused."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = datetime.min
    if time.tzinfo is None:
        raise ScanRefused(
            f"option {name}={text!r}: write milliseconds since 1970, or a time with its zone, such as"
            " 2013-01-01T05:15:00Z"
        )
    return first_ms_at_or_after(time)


def _lease_ms(options: Mapping[str, str]) -> int:
    try:
        return lease_ms_of(options.get("scanLease", "1h"))
    except ScanRefused as refused:
        raise ScanRefused(f"option scanLease: {refused}") from None


def _bounds(options: Mapping[str, str], which: str) -> Bounds:
    """Returns the bound that takes precedence: one time for all partitions, then times by partition, then offsets."""
    is_start = which == "starting"
    name = "startingOffsetsByTimestampStrategy"
    strategy = _one_of(name, options.get(name, "error"), ("error", "latest"))
    at_end = not is_start or strategy == "latest"
    if (name := f"{which}Timestamp") in options:
        return Bounds(Bound(BoundKind.TIME, _number(options, name, 0)), no_record_means_end=at_end)
    if (name := f"{which}OffsetsByTimestamp") in options:
        times = _by_partition(name, options[name])
        named = {key: Bound(BoundKind.TIME, time_ms) for key, time_ms in times.items()}
        return Bounds(None, named, no_record_means_end=at_end)
    name = f"{which}Offsets"
    text = options.get(name, "earliest" if is_start else "latest").strip()
    if not text.startswith("{"):
        _one_of(name, text, ("earliest",) if is_start else ("latest",))
        return Bounds(EARLIEST if is_start else LATEST)
    refused = -1 if is_start else -2
    found: dict[PartitionName, Bound] = {}
    for key, offset in _by_partition(name, text).items():
        if offset == refused or offset < -2:
            what = "latest" if is_start else "earliest"
            raise ScanRefused(
                f"option {name}: {offset} ({what}) is not allowed for {key[0]}-{key[1]} in a batch read"
            )
        found[key] = _SPECIAL_OFFSETS.get(offset) or Bound(BoundKind.OFFSET, offset)
    return Bounds(None, found)


def _by_partition(name: str, text: str) -> dict[PartitionName, int]:
    by_topic = _json(name, text, dict[str, dict[int, int]])
    return {
        (topic, number): value for topic, numbers in by_topic.items() for number, value in numbers.items()
    }


def _partitions(options: Mapping[str, str]) -> tuple[int, ...] | None:
    text = options.get("partitions")
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise ScanRefused(f"option partitions={text!r}: write numbers with commas between them, such as 0,2")
    return tuple(map(int, parts))


def _json(name: str, text: str, shape: Callable[..., T]) -> T:
    try:
        return msgspec.json.decode(text, type=shape)  # type: ignore[no-any-return]
    except msgspec.MsgspecError as cause:
        raise ScanRefused(f"option {name} is not JSON such as {_EXAMPLES[name]}: {cause}") from cause


_EXAMPLES = {
    "assign": '{"flights":[0,2]}',
    "startingOffsets": '{"flights":{"0":120,"1":-2}}',
    "endingOffsets": '{"flights":{"0":500,"1":-1}}',
    "startingOffsetsByTimestamp": '{"flights":{"0":1700000000000}}',
    "endingOffsetsByTimestamp": '{"flights":{"0":1700000000000}}',
}


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise ScanRefused(f"option {name}={text!r}: write a number from 1 on")
    return int(text)


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    return _one_of(name, options.get(name, str(default)).lower(), ("true", "false")) == "true"


def _one_of(name: str, text: str, allowed: tuple[str, ...] | list[str]) -> str:
    if text.lower() not in allowed:
        raise ScanRefused(f"option {name}={text!r} is not allowed: write {' or '.join(allowed)}")
    return text.lower()
