import pytest

from siltstone.model.limits import MINUTE_MS
from siltstone.scanning.failures import ScanRefused
from siltstone.scanning.request import EARLIEST, LATEST, Bound, BoundKind, Bounds
from siltstone.scanning.streaming.advancing import BatchLimit, LimitKind
from siltstone.spark.source.options import parse_options
from siltstone.spark.source.stream_options import (
    StreamSourceRequest,
    parse_stream_options,
    without_stream_options,
)


def parsed(**options: str) -> StreamSourceRequest:
    return parse_stream_options({"store": "my-store", "subscribe": "flights", **options})


def test_a_stream_begins_at_the_latest_offset_and_has_no_limit_unless_it_says_so() -> None:
    found = parsed()
    assert found.source.request.start == found.stream.scan.start == Bounds(LATEST)
    assert found.limit == BatchLimit()
    assert (found.stream.offsets_min, found.stream.trigger_delay_ms) == (0, 15 * MINUTE_MS)
    assert found.stream.poll_interval_ms == 200


def test_the_start_may_be_an_offset_a_time_or_an_end_for_each_partition() -> None:
    assert parsed(STARTINGOFFSETS="Earliest").stream.scan.start == Bounds(EARLIEST)
    by_partition = parsed(startingOffsets='{"flights":{"0":-2,"1":-1,"2":7}}').stream.scan.start
    assert by_partition.named == {
        ("flights", 0): EARLIEST,
        ("flights", 1): LATEST,
        ("flights", 2): Bound(BoundKind.OFFSET, 7),
    }
    assert parsed(startingTimestamp="9").stream.scan.start == Bounds(Bound(BoundKind.TIME, 9))


def test_limits_and_delays_have_the_names_of_kafkas_connector() -> None:
    found = parsed(
        minOffsetsPerTrigger="5",
        maxOffsetsPerTrigger="100",
        maxTriggerDelay="2m",
        pollInterval="1s",
        groupId="g",
    )
    assert found.limit == BatchLimit(LimitKind.OFFSETS, 100)
    assert (found.stream.offsets_min, found.stream.trigger_delay_ms) == (5, 2 * MINUTE_MS)
    assert (found.stream.poll_interval_ms, found.stream.group_id) == (1_000, "g")
    assert parsed(maxBytesPerTrigger="7000").limit == BatchLimit(LimitKind.BYTES, 7_000)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"endingOffsets": "latest"}, "option endingOffsets is not allowed"),
        ({"endingtimestamp": "5"}, "option endingTimestamp is not allowed"),
        ({"startingOffsets": "newest"}, "option startingOffsets='newest' is neither"),
        ({"startingOffsets": '{"flights":{"0":-3}}'}, "-3 is no offset of flights-0"),
        ({"maxOffsetsPerTrigger": "1", "maxBytesPerTrigger": "1"}, "are both given"),
        ({"maxOffsetsPerTrigger": "1", "minOffsetsPerTrigger": "2"}, "is lower than"),
        ({"maxOffsetsPerTrigger": "many"}, "option maxOffsetsPerTrigger='many'"),
        ({"maxTriggerDelay": "soon"}, "option maxTriggerDelay='soon'"),
        ({"maxOffsetPerTrigger": "5"}, "option maxOffsetPerTrigger does not exist"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(options: dict[str, str], named: str) -> None:
    with pytest.raises(ScanRefused, match=named):
        parsed(**options)


def test_the_schema_is_found_before_it_is_known_which_read_it_is() -> None:
    given = {
        "store": "s", "subscribe": "flights", "startingOffsets": "latest", "endingOffsets": "latest",
        "maxOffsetsPerTrigger": "5", "columns": "offset",
    }  # fmt: skip
    assert parse_options(without_stream_options(given)).request.columns == ("offset",)
