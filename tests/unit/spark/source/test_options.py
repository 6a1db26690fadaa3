import logging
from datetime import UTC, datetime

import pytest

from siltstone.model.limits import HOUR_MS
from siltstone.record_columns.row_columns import ALL_COLUMNS, ROW_COLUMNS
from siltstone.scanning.arguments import scan_request
from siltstone.scanning.failures import ScanRefused
from siltstone.scanning.request import (
    EARLIEST,
    LATEST,
    UNIT_BYTES_MAX,
    Bound,
    BoundKind,
    Bounds,
    Tail,
    TimeRange,
    ValueWish,
)
from siltstone.spark.source.options import SourceRequest, encode_request, parse_options
from siltstone.value_formats.value_format import BadValues, FormatKind, Schema


def parsed(**options: str) -> SourceRequest:
    return parse_options({"store": "my-store", "subscribe": "flights", **options})


def test_the_defaults_are_those_of_kafkas_connector() -> None:
    found = parse_options({"STORE": "my-store", "Subscribe": "flights, trips"})
    assert (found.store, found.request.topics) == ("my-store", ("flights", "trips"))
    assert found.request.columns == ROW_COLUMNS
    assert (found.request.start, found.request.end) == (Bounds(EARLIEST), Bounds(LATEST))
    assert found.request.tail is Tail.AUTO and found.request.fail_on_data_loss and found.request.by_object


def test_offsets_times_and_their_precedence() -> None:
    by_offset = parsed(
        startingOffsets='{"flights":{"0":-2,"1":7}}', endingOffsets='{"flights":{"0":-1,"1":9}}'
    ).request
    assert by_offset.start.named == {("flights", 0): EARLIEST, ("flights", 1): Bound(BoundKind.OFFSET, 7)}
    assert by_offset.end.named == {("flights", 0): LATEST, ("flights", 1): Bound(BoundKind.OFFSET, 9)}
    by_time = '{"flights":{"0":1500}}'
    times = parsed(
        startingOffsetsByTimestamp=by_time, startingOffsets="earliest", endingOffsetsByTimestamp=by_time
    ).request
    assert times.start == Bounds(None, {("flights", 0): Bound(BoundKind.TIME, 1500)})
    assert times.end.no_record_means_end
    whole = parsed(
        startingTimestamp="9", startingOffsetsByTimestamp=by_time, startingOffsetsByTimestampStrategy="latest"
    )
    assert whole.request.start == Bounds(Bound(BoundKind.TIME, 9), no_record_means_end=True)


def test_the_other_options_reach_the_request() -> None:
    found = parsed(
        minPartitions="10", maxRecordsPerPartition="100", maxBytesPerPartition="5000", includeHeaders="true",
        failOnDataLoss="false", tail="committed", partitions="0, 2",
    ).request  # fmt: skip
    assert (found.units_min, found.unit_offsets_max, found.unit_bytes_max) == (10, 100, 5000)
    assert (found.columns, found.fail_on_data_loss, found.tail) == (ALL_COLUMNS, False, Tail.COMMITTED)
    assert found.partitions == (0, 2)
    assert parsed(columns="offset,value").request.columns == ("offset", "value")
    by_url = parse_options({"metadata": "sqlite:///m", "bucket.0": "file:///b", "assign": '{"flights":[1]}'})
    assert (by_url.metadata, by_url.buckets, by_url.request.assigned) == (
        "sqlite:///m",
        {0: "file:///b"},
        {"flights": (1,)},
    )


def test_times_and_values_reach_the_request() -> None:
    found = parsed(
        timestampFrom="2013-01-01T00:00:00Z", timestampUntil="1356998400001", trustBatchTimestamps="true",
        value="avro", valueSchema='"int"', badValues="null", valueSubject="s",
    ).request  # fmt: skip
    assert found.times == TimeRange(1_356_998_400_000, 1_356_998_400_001, trusts_batches=True)
    day = parsed(timestampUntil="2012-12-31T23:59:59.999999Z").request
    assert day.times == TimeRange(None, 1_356_998_400_000), "the last millisecond of the day is in it"
    reader = Schema(FormatKind.AVRO, '"int"')
    assert found.values == ValueWish(FormatKind.AVRO, reader, subject="s", on_bad=BadValues.NULL)


def test_a_whole_request_travels_in_one_option() -> None:
    words = {
        "start": {0: 5, 1: datetime(2013, 1, 1, tzinfo=UTC)}, "end": "latest", "columns": "offset,value",
        "timestamp_from": datetime(2013, 1, 1, tzinfo=UTC), "value": "json", "schema": '{"type": "integer"}',
    }  # fmt: skip
    request = scan_request(["flights", "trips"], **words)
    assert parse_options({"store": "s", "scanRequest": encode_request(request)}).request == request
    with pytest.raises(ScanRefused, match="option scanRequest"):
        parse_options({"store": "s", "scanRequest": "!"})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"timestampFrom": "yesterday"}, "option timestampFrom='yesterday'"),
        ({"timestampUntil": "2013-01-01T00:00:00"}, "with its zone"),
        ({"timestampFrom": "5", "timestampUntil": "5"}, "no time is from 5 ms on"),
        ({"value": "yaml"}, "value is one of string, json, avro, protobuf"),
        ({"schemaRegistry": "http://x"}, "name their format"),
        ({"subscribePattern": "f.*"}, "given: subscribe, subscribePattern"),
        ({"startingOffsets": "latest"}, "startingOffsets='latest' is not allowed"),
        ({"endingOffsets": "earliest"}, "endingOffsets='earliest' is not allowed"),
        (
            {"startingOffsets": '{"flights":{"0":-1}}'},
            r"startingOffsets: -1 \(latest\) is not allowed for flights-0",
        ),
        ({"endingOffsets": '{"flights":{"0":-2}}'}, r"endingOffsets: -2 \(earliest\)"),
        ({"startingOffsets": '{"flights":['}, "startingOffsets is not JSON such as"),
        ({"startingOfsets": "earliest"}, "option startingOfsets does not exist"),
        ({"metadata": "sqlite:///m"}, "give one"),
        ({"tail": "all"}, "tail='all' is not allowed: write auto or fetch or flush or committed"),
        ({"minPartitions": "0"}, "minPartitions='0': write a number"),
        ({"timestampFrom": "²"}, "timestampFrom='²': write milliseconds since 1970"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss='maybe'"),
        ({"partitions": "0;1"}, "partitions='0;1'"),
        ({"kafka.isolation.level": "none"}, "kafka.isolation.level='none'"),
    ],
)
def test_sr26_a_wrong_option_is_refused_in_a_line_that_names_it(options: dict[str, str], named: str) -> None:
    with pytest.raises(ScanRefused, match=named) as caught:
        parsed(**options)
    assert "\n" not in str(caught.value)


def test_options_of_the_kafka_client_are_ignored_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        parsed(
            **{
                "kafka.bootstrap.servers": "b:9092",
                "kafka.group.id": "g",
                "kafka.isolation.level": "read_committed",
            }
        )
    assert [record.getMessage() for record in caplog.records] == [
        "options of the Kafka client have no meaning for format siltstone: kafka.bootstrap.servers, kafka.group.id"
    ]


def test_what_is_not_asked_for_has_no_limit() -> None:
    found = parsed().request
    assert (found.unit_offsets_max, found.units_min, found.unit_bytes_max) == (0, 0, UNIT_BYTES_MAX)
    assert (found.lease_ms, found.partitions, found.pattern, found.assigned) == (HOUR_MS, None, None, None)


@pytest.mark.parametrize("name", ["bucket.", "bucket.x", "bucket.-1", "bucket.²", "bucket"])
def test_a_bucket_has_a_number(name: str) -> None:
    with pytest.raises(ScanRefused, match=f"option {name} does not exist"):
        parsed(**{name: "file:///b"})
