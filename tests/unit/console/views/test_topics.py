import msgspec
import pytest

from siltstone.console.views.topics import (
    configs_shown,
    counts_of,
    grown_bytes,
    kept_words,
    partition_counts,
    topic_counts,
)
from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.entities import StreamMetadata, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.model.limits import DAY_MS
from siltstone.model.objects import ObjectRange
from siltstone.model.segments import ClosedSegment
from siltstone.topic_configs.table import parse_topic_configs
from support.console.images import ImageBuilder


def everybody(_: str) -> bool:
    return True


def test_a_topic_is_counted_from_its_streams_and_what_is_below_their_start_is_not():
    image = ImageBuilder().topic("a", (1, 0, 10, 100), (2, 10, 30, 300), start=10).image()
    (row,) = topic_counts(image, everybody, 0)
    assert (row.name, row.partitions, row.records, row.size_bytes, row.objects) == ("a", 1, 20, 300, 2)
    assert row.kept == "7 days" and row.table_format == ""


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        ({}, "7 days"),
        ({"retention.ms": "-1"}, "for ever"),
        ({"retention.ms": "-1", "retention.bytes": str(2**30)}, "1.0 GiB a partition"),
        ({"retention.ms": "3600000", "retention.bytes": "1024"}, "1 hour, 1.0 KiB a partition"),
        ({"cleanup.policy": "compact"}, "newest of each key"),
        ({"cleanup.policy": "compact,delete"}, "newest of each key, 7 days"),
        ({"cleanup.policy": ""}, "for ever"),
    ],
)
def test_how_long_records_stay_in_words(configs: dict[str, str], words: str):
    assert kept_words(parse_topic_configs(configs)) == words


def test_wc12_only_the_topics_that_the_visitor_may_see_are_there():
    image = ImageBuilder().topic("a").topic("b").image()
    assert [each.name for each in topic_counts(image, lambda name: name == "b", 0)] == ["b"]


def stream(segments: tuple[ClosedSegment, ...], *ranges: tuple[int, int, int]) -> StreamMetadata:
    held = tuple(
        ObjectRange(0, number, start, end, size, 0) for number, (start, end, size) in enumerate(ranges)
    )
    return StreamMetadata(0, StreamState.CLOSED, 1, 1, 0, 100, (), held, {}, segments)


def closed(start: int, end: int, size: int, opened_ms: int, closed_ms: int) -> ClosedSegment:
    return ClosedSegment(start, end, size, 1, 0, opened_ms, closed_ms)


def test_bytes_of_a_segment_count_in_proportion_to_its_time_in_the_span():
    """A segment of 1,000 bytes between 100 and 200 ms."""
    found = stream((closed(0, 10, 1_000, 100, 200),))
    assert grown_bytes(MetadataImage(), found, 0, 1_000) == 1_000
    assert grown_bytes(MetadataImage(), found, 150, 1_000) == 500
    assert grown_bytes(MetadataImage(), found, 0, 125) == 250
    assert grown_bytes(MetadataImage(), found, 200, 1_000) == 0
    assert grown_bytes(MetadataImage(), found, 0, 100) == 0


def test_bytes_after_the_last_segment_count_from_its_end_on():
    found = stream((closed(0, 10, 1_000, 100, 200),), (0, 10, 900), (10, 20, 400))
    assert grown_bytes(MetadataImage(), found, 0, 400) == 1_400, (
        "compaction has made the segment smaller, and changes nothing here"
    )
    assert grown_bytes(MetadataImage(), found, 300, 400) == 200


def test_what_follows_counts_from_its_first_upload_whatever_its_records_say():
    """Records of 2013 that are written today are growth of today."""
    image = ImageBuilder().topic("a", (1, 0, 10, 900)).image()
    held = msgspec.structs.replace(image.objects[1], data_time_ms=5_000)
    image = msgspec.structs.replace(image, objects=ShardedMap([(1, held)]))
    assert grown_bytes(image, image.streams[0], 4_000, 6_000) == 900
    assert grown_bytes(image, image.streams[0], 5_500, 6_000) == 450


def test_a_segment_of_one_moment_counts_whole():
    assert grown_bytes(MetadataImage(), stream((closed(0, 1, 70, 5, 5),)), 0, 10) == 70


def test_growth_is_that_of_the_last_day():
    segments = (closed(0, 10, 1_000, 0, 1), closed(10, 20, 50, 10 * DAY_MS, 10 * DAY_MS + 5))
    image = ImageBuilder().topic("a", (1, 0, 20, 100), segments=segments).image()
    (topic,) = image.topics.values()
    assert counts_of(image, topic, 10 * DAY_MS + 10).grown_bytes == 50


def test_a_partition_without_a_leader_has_none():
    image = ImageBuilder().topic("a", (1, 0, 10, 100), leader=-1).topic("b", leader=3).image()
    first, second = (partition_counts(image, image.topics[image.topic_ids[name]])[0] for name in "ab")
    assert (first.leader, first.end_offset, first.state) == (None, 10, "closed")
    assert second.leader == 3


def test_each_configuration_says_where_its_value_comes_from():
    image = ImageBuilder().topic("a", configs={"retention.ms": "5"}).image()
    (topic,) = image.topics.values()
    shown = {each.name: each for each in configs_shown(image, topic)}
    assert (shown["retention.ms"].value, shown["retention.ms"].source) == ("5", "topic")
    assert shown["cleanup.policy"].source == "default"
    assert configs_shown(image, topic)[0].name == "retention.ms", "what somebody has set comes first"
