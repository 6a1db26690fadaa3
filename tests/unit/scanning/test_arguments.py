"""The keyword arguments of a scan: what they ask for, and which are refused."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from siltstone.record_columns.row_columns import ALL_COLUMNS, ROW_COLUMNS
from siltstone.scanning.arguments import scan_request, time_range, value_wish
from siltstone.scanning.failures import ScanRefused
from siltstone.scanning.request import (
    EARLIEST,
    LATEST,
    Bound,
    BoundKind,
    Bounds,
    Tail,
    TimeRange,
    ValueWish,
)
from siltstone.value_formats.value_format import BadValues, FormatKind, Schema, encode_type

NOON = datetime(2026, 2, 28, 12, tzinfo=UTC)
NOON_MS = 1_772_280_000_000
AVRO = '{"type": "record", "name": "R", "fields": []}'


def test_without_further_words_a_scan_is_all_of_the_topic() -> None:
    request = scan_request("flights")
    assert (request.topics, request.partitions) == (("flights",), None)
    assert request.start == Bounds(EARLIEST, no_record_means_end=True)
    assert request.end == Bounds(LATEST, no_record_means_end=True)
    assert (request.columns, request.tail, request.fail_on_data_loss) == (ROW_COLUMNS, Tail.AUTO, True)
    assert (request.lease_ms, request.times, request.values) == (3_600_000, None, None)


def test_one_partition_and_a_limit() -> None:
    request = scan_request("a", partitions=3, limit=7)
    assert (request.partitions, request.rows_max) == ((3,), 7)
    assert scan_request("a").rows_max == 0
    for wrong in (0, -1, True):
        with pytest.raises(ScanRefused, match="is no number of records: give a number from 1 on"):
            scan_request("a", limit=wrong)


def test_the_words_arrive_in_the_request() -> None:
    request = scan_request(
        ["a", "b"],
        partitions=[2, 0],
        columns="offset, value",
        tail="committed",
        lease="0",
        fail_on_data_loss=False,
    )
    assert (request.topics, request.partitions) == (("a", "b"), (2, 0))
    assert (request.columns, request.tail) == (("offset", "value"), Tail.COMMITTED)
    assert (request.lease_ms, request.fail_on_data_loss) == (0, False)
    assert scan_request("a", headers=True).columns == ALL_COLUMNS
    with pytest.raises(ScanRefused, match="tail='some': choose from auto, fetch, flush, committed"):
        scan_request("a", tail="some")


@pytest.mark.parametrize(
    ("place", "bound"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        (0, Bound(BoundKind.OFFSET, 0)),
        (2**62, Bound(BoundKind.OFFSET, 2**62)),
        (NOON, Bound(BoundKind.TIME, NOON_MS)),
        (NOON.replace(microsecond=1), Bound(BoundKind.TIME, NOON_MS + 1)),
    ],
)
def test_a_place_holds_for_all_partitions_or_for_those_that_are_numbered(place: Any, bound: Bound) -> None:
    request = scan_request(["a", "b"], start=place, end={0: place, 3: "latest"})
    assert request.start == Bounds(bound, no_record_means_end=True)
    assert request.end.default is None and request.end.no_record_means_end
    assert request.end.named == {("a", 0): bound, ("a", 3): LATEST, ("b", 0): bound, ("b", 3): LATEST}


@pytest.mark.parametrize("place", [-1, True, 1.5, "newest", None])
def test_what_is_no_place_is_refused_by_its_name(place: Any) -> None:
    with pytest.raises(ScanRefused, match=r"start=.* is not a place: give an offset"):
        scan_request("a", start=place)
    with pytest.raises(ScanRefused, match=r"end=.* is not a place"):
        scan_request("a", end={0: place})


def test_a_time_needs_a_zone() -> None:
    local = NOON.replace(tzinfo=None)
    for given in ({"start": local}, {"timestamp_from": local}):
        with pytest.raises(ScanRefused, match="has no time zone"):
            scan_request("a", **given)  # type: ignore[arg-type]
    with pytest.raises(ScanRefused, match="timestamp_until=5 is not a time: give a datetime"):
        scan_request("a", timestamp_until=5)  # type: ignore[arg-type]


def test_times_choose_records_from_the_first_on_and_before_the_second() -> None:
    request = scan_request("a", timestamp_from=NOON, trust_batch_timestamps=True)
    assert request.times == TimeRange(NOON_MS, None, trusts_batches=True)
    request = scan_request("a", timestamp_until=NOON)
    assert request.times == TimeRange(None, NOON_MS)
    assert time_range(5, 6) == TimeRange(5, 6)
    assert time_range(0, None) == TimeRange(0, None)
    for until_ms in (5, 4):
        with pytest.raises(ScanRefused, match=f"no time is from 5 ms on and before {until_ms} ms"):
            time_range(5, until_ms)


@pytest.mark.parametrize(
    "given", [{"schema": AVRO}, {"registry": "http://r"}, {"subject": "s"}, {"message": "m"}]
)
def test_a_schema_without_a_format_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ScanRefused, match="name their format, string, json, avro, protobuf"):
        value_wish(None, **given)
    assert value_wish(None) is None
    assert value_wish(None, bad_values="null") is None


def test_values_are_decoded_by_a_schema_a_type_or_a_registry() -> None:
    assert value_wish("avro", schema=AVRO) == ValueWish(FormatKind.AVRO, Schema(FormatKind.AVRO, AVRO))
    struct = pa.struct([("a", pa.int32())])
    assert value_wish("json", schema=struct, bad_values="null") == ValueWish(
        FormatKind.JSON, None, encode_type(struct), on_bad=BadValues.NULL
    )
    assert value_wish("protobuf", registry="http://r", subject="s", message="m") == ValueWish(
        FormatKind.PROTOBUF, None, b"", "http://r", "s", "m"
    )
    assert scan_request("a", value="string").values == ValueWish(FormatKind.STRING)


@pytest.mark.parametrize(("kind", "bad_values"), [("xml", "fail"), ("json", "skip")])
def test_formats_and_what_is_done_with_bad_values_are_chosen_from_a_list(kind: str, bad_values: str) -> None:
    with pytest.raises(ScanRefused, match=r"value is one of string, json, .*, bad_values is fail or null"):
        value_wish(kind, bad_values=bad_values)
