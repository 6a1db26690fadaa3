"""Makes a ScanRequest of the keyword arguments of ``siltstone.scan`` and ``siltstone.spark.read``."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from siltstone.foundation.milliseconds import first_ms_at_or_after
from siltstone.offline.topic_streams import PartitionName
from siltstone.record_columns.row_columns import chosen_columns
from siltstone.scanning.failures import ScanRefused
from siltstone.scanning.found_values import columns_to_read
from siltstone.scanning.request import (
    EARLIEST,
    LATEST,
    Bound,
    BoundKind,
    Bounds,
    Isolation,
    ScanRequest,
    Tail,
    TimeRange,
    ValueWish,
    lease_ms_of,
)
from siltstone.topic_configs.table_export import (
    VARIANT,
    TableColumn,
    columns_of,
    infers_columns,
    table_columns,
)
from siltstone.topic_configs.values import InvalidTopicConfig, list_items
from siltstone.value_formats.settling import given_schema
from siltstone.value_formats.value_format import BadValues, FormatKind, encode_type

Place = int | str | datetime
"""Where a scan begins or ends: an offset, ``earliest``, ``latest``, or the first record at or after a time."""


def scan_request(
    topics: str | Sequence[str],
    *,
    columns: Sequence[str] | str | None = None,
    start: Place | Mapping[int, Place] = "earliest",
    end: Place | Mapping[int, Place] = "latest",
    partitions: Sequence[int] | int | None = None,
    limit: int | None = None,
    headers: bool = False,
    timestamp_from: datetime | None = None,
    timestamp_until: datetime | None = None,
    trust_batch_timestamps: bool = False,
    tail: str = "auto",
    isolation: str = "committed",
    fail_on_data_loss: bool = True,
    lease: str = "1h",
    value: str | None = None,
    schema: Any = None,
    registry: str = "",
    subject: str = "",
    message: str = "",
    bad_values: str | None = None,
    schema_location: Path | str = "",
) -> ScanRequest:
    """``start`` and ``end`` hold for all partitions, or are given for each by its number; ``end`` is exclusive. A time
    without a record at or after it is the partition's end. ``headers`` adds that column.

    ``partitions`` is one number or several. ``limit``: so many records are enough, the first ones in the order of
    partitions and offsets. Where the metadata says that every offset is a record, nothing behind them is planned.
    ``timestamp_from`` (inclusive) and ``timestamp_until`` (exclusive) choose records by their own times, wherever they
    lie. ``trust_batch_timestamps`` skips blocks whose headers say that they are older; use it only if the topic's
    producers set timestamps correctly.

    ``tail``: records that are acknowledged and in no object yet are read from the broker that has them (``auto``;
    ``fetch`` asks brokers even if no record seems to be missing), are uploaded by it first (``flush``), or are left out
    (``committed``).

    ``isolation``: records of transactions are read when they are committed, up to the first transaction that is not
    decided (``committed``), or all records are read, also of open and aborted transactions (``uncommitted``).

    ``value`` decodes values: ``string``, ``json``, ``avro`` or ``protobuf``. ``schema`` is a schema's text or file, for
    JSON also a pyarrow type; ``registry`` is the URL or the folder of a schema registry, ``subject`` the name there
    (topic-value by default), ``message`` a Protobuf message. ``bad_values``: ``fail``, or ``null``.

    ``value="json"`` with ``columns="infer"``, or with ``columns="infer, at timestamp"``, makes a column of each field
    of JSON objects (``scanning.found_values``). A value that is no object is then rescued whole, unless ``bad_values``
    is given. ``schema_location`` is the folder or the URL where the columns are kept for the next time.

    ``lease``: how long the objects of the plan are kept for this scan, at most a day, although compaction replaces
    them; reading later may end with ScanOutdated. The scan writes a pin into the metadata for it. With ``0`` it writes
    nothing, which suits a program that may only read the metadata, and the objects are kept for the grace period.

    Raises ColumnUnknown, ScanRefused, FormatRefused."""
    named = (topics,) if isinstance(topics, str) else tuple(topics)
    chosen, found = wished_columns(columns, with_headers=headers)
    return ScanRequest(
        topics=named, partitions=_numbers(partitions),
        start=_bounds(start, named, "start"), end=_bounds(end, named, "end"), columns=chosen,
        tail=_tail(tail), isolation=isolation_of(isolation), fail_on_data_loss=fail_on_data_loss,
        lease_ms=lease_ms_of(lease),
        times=time_range(
            _time_ms(timestamp_from, "timestamp_from"), _time_ms(timestamp_until, "timestamp_until"),
            trusts_batches=trust_batch_timestamps,
        ),
        values=value_wish(
            value, schema=schema, registry=registry, subject=subject, message=message, bad_values=bad_values,
            found=found, location=str(schema_location),
        ),
        rows_max=_limit(limit),
    )  # fmt: skip


def _numbers(partitions: Sequence[int] | int | None) -> tuple[int, ...] | None:
    if partitions is None:
        return None
    return (partitions,) if isinstance(partitions, int) else tuple(partitions)


def _limit(limit: int | None) -> int:
    if limit is None:
        return 0
    if isinstance(limit, bool) or limit < 1:
        raise ScanRefused(
            f"limit={limit!r} is no number of records: give a number from 1 on, or leave it out"
        )
    return limit


def time_range(
    from_ms: int | None, until_ms: int | None, *, trusts_batches: bool = False
) -> TimeRange | None:
    """Returns the range; None if neither bound is given. Raises ScanRefused for a range without any time in it."""
    if from_ms is None and until_ms is None:
        return None
    if from_ms is not None and until_ms is not None and from_ms >= until_ms:
        raise ScanRefused(
            f"no time is from {from_ms} ms on and before {until_ms} ms: let the range begin before it ends"
        )
    return TimeRange(from_ms, until_ms, trusts_batches)


def wished_columns(
    columns: Sequence[str] | str | None, *, with_headers: bool
) -> tuple[tuple[str, ...], tuple[TableColumn, ...] | None]:
    """Returns the columns of records that are read, and the columns that are listed beside ``infer``; None if columns
    are not found. Raises ColumnUnknown, ScanRefused."""
    items = tuple(list_items(columns)) if isinstance(columns, str) else tuple(columns or ())
    if items == (VARIANT,):
        raise ScanRefused(
            "columns='variant' is for siltstone.spark.read, where Spark parses the values: here, read value='string'"
            " and use try_parse_json(value)"
        )
    if not infers_columns(items):
        return chosen_columns(columns, with_headers=with_headers), None
    try:
        table_columns("columns", items)
        listed = columns_of(items)
    except InvalidTopicConfig as refused:
        raise ScanRefused(str(refused)) from None
    return columns_to_read(with_headers=with_headers), listed


def value_wish(
    kind: str | None,
    *,
    schema: Any = None,
    registry: str = "",
    subject: str = "",
    message: str = "",
    bad_values: str | None = None,
    found: tuple[TableColumn, ...] | None = None,
    location: str = "",
) -> ValueWish | None:
    """Returns how values are decoded; None if values stay bytes. ``found`` are the columns that are listed where the
    others are found. Raises ScanRefused, FormatRefused."""
    if found is not None:
        return _found_wish(kind, schema or registry or subject or message, bad_values, found, location)
    if location:
        raise ScanRefused("a place of columns is given, and no columns are found: write columns='infer', too")
    if kind is None:
        if schema is not None or registry or subject or message:
            raise ScanRefused(
                f"a schema is given, but not how values are decoded: name their format, {_kinds()}"
            )
        return None
    try:
        format_kind, on_bad = FormatKind(kind), BadValues(bad_values or "fail")
    except ValueError:
        on_bad = BadValues.RESCUE
    if on_bad is BadValues.RESCUE:
        raise ScanRefused(
            f"value={kind!r} with bad_values={bad_values!r}: value is one of {_kinds()}, bad_values is fail or null;"
            " with columns='infer' it may be rescue"
        )
    reader, arrow_type = given_schema(format_kind, schema)
    type_ipc = b"" if arrow_type is None else encode_type(arrow_type)
    return ValueWish(format_kind, reader, type_ipc, registry, subject, message, on_bad)


def _found_wish(
    kind: str | None,
    schema: Any,
    bad_values: str | None,
    listed: tuple[TableColumn, ...],
    location: str,
) -> ValueWish:
    if kind != FormatKind.JSON.value or schema:
        raise ScanRefused(
            "columns='infer' finds the fields of JSON objects: give value='json' and no schema, and list the columns"
            " whose types you know, as in columns='infer, at timestamp'"
        )
    try:
        on_bad = BadValues(bad_values or "rescue")
    except ValueError:
        raise ScanRefused(f"bad_values={bad_values!r}: it is rescue, fail or null") from None
    return ValueWish(FormatKind.JSON, on_bad=on_bad, infers=True, listed=listed, location=location)


def _kinds() -> str:
    return ", ".join(each.value for each in FormatKind)


def _time_ms(time: datetime | None, what: str) -> int | None:
    return None if time is None else _bound(_a_time(time, what), what).value


def _a_time(time: Any, what: str) -> datetime:
    if not isinstance(time, datetime):
        raise ScanRefused(f"{what}={time!r} is not a time: give a datetime with a time zone")
    return time


def _bounds(places: Place | Mapping[int, Place], topics: Sequence[str], what: str) -> Bounds:
    if not isinstance(places, Mapping):
        return Bounds(_bound(places, what), no_record_means_end=True)
    named: dict[PartitionName, Bound] = {
        (topic, number): _bound(place, what) for topic in topics for number, place in places.items()
    }
    return Bounds(None, named, no_record_means_end=True)


def _bound(place: Place, what: str) -> Bound:
    if isinstance(place, datetime):
        if place.tzinfo is None:
            raise ScanRefused(f"{what}={place!r} has no time zone: write datetime(…, tzinfo=timezone.utc)")
        return Bound(BoundKind.TIME, first_ms_at_or_after(place))
    if isinstance(place, int) and not isinstance(place, bool) and place >= 0:
        return Bound(BoundKind.OFFSET, place)
    if place in ("earliest", "latest"):
        return EARLIEST if place == "earliest" else LATEST
    raise ScanRefused(f"{what}={place!r} is not a place: give an offset, 'earliest', 'latest' or a datetime")


def isolation_of(text: str) -> Isolation:
    """Raises ScanRefused."""
    try:
        return Isolation(text)
    except ValueError:
        choice = ", ".join(each.value for each in Isolation)
        raise ScanRefused(f"isolation={text!r}: choose from {choice}") from None


def _tail(text: str) -> Tail:
    try:
        return Tail(text)
    except ValueError:
        raise ScanRefused(f"tail={text!r}: choose from {', '.join(each.value for each in Tail)}") from None
