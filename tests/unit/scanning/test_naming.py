"""The name of a scan, made before it is planned: its topics, and how much it will read."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from siltstone.scanning.arguments import scan_request
from siltstone.scanning.naming import scan_name
from siltstone.scanning.planning import cut, plan_pieces, wanted_partitions
from siltstone.scanning.request import ScanRequest
from support.metadata.topic_images import TopicImage

WORDS = dict[str, Any]


@pytest.fixture
def image() -> Any:
    """Makes two topics of two partitions; each partition has three objects of 100 offsets and 1 KiB."""
    made = TopicImage()
    for name in ("flights", "late"):
        made.add(name, partitions=2, objects=3, offsets=100, size_bytes=1024)
    return made


def named(image: Any, request: ScanRequest) -> str:
    return scan_name(image, request, wanted_partitions(image, request))


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ({}, "scan flights, 6 objects, 6.0 KiB"),
        ({"partitions": [1]}, "scan flights, 3 objects, 3.0 KiB"),
        ({"start": 250}, "scan flights, 2 objects, 1.0 KiB"),
        ({"end": {0: 100, 1: 0}}, "scan flights, 1 object, 1.0 KiB"),
        ({"start": 1_000_000}, "scan flights, 0 objects, 0 B"),
        ({"limit": 150}, "scan flights, the first 150 records, at most 2 objects, 2.0 KiB"),
        ({"limit": 1, "partitions": 1}, "scan flights, the first 1 record, at most 1 object, 1.0 KiB"),
        ({"start": datetime(2026, 1, 1, tzinfo=UTC)}, "scan flights, at most 6 objects, 6.0 KiB"),
    ],
)
def test_a_name_has_the_topic_and_how_much_is_read(image: Any, words: WORDS, name: str) -> None:
    assert named(image, scan_request("flights", **words)) == name


def test_what_cannot_be_planned_is_named_by_its_topics(image: Any) -> None:
    """Planning says what is wrong with it."""
    request = scan_request(["a", "b", "c", "d", "e"])
    (partition, *_) = wanted_partitions(image, scan_request("flights"))
    beyond = msgspec.structs.replace(
        partition, stream=msgspec.structs.replace(partition.stream, end_offset=1_000)
    )
    assert scan_name(image, request, [beyond]) == "scan a, b, c and 2 more"


def test_two_topics_are_named(image: Any) -> None:
    assert named(image, scan_request(["late", "flights"])) == "scan late, flights, 12 objects, 12.0 KiB"


def test_a_pattern_is_named_by_what_it_matches(image: Any) -> None:
    assert named(image, ScanRequest(pattern="l.*")) == "scan late, 6 objects, 6.0 KiB"


def test_the_figures_are_those_of_the_plan(image: Any) -> None:
    request = scan_request("flights", start=50, end=270)
    partitions = wanted_partitions(image, request)
    cuts = [cut(each, 50, 270, end_offset=300, fail_on_data_loss=True) for each in partitions]
    pieces = [piece for unit in plan_pieces(image, cuts, request).units for piece in unit]
    size_bytes = sum(piece.size_bytes for piece in pieces)
    assert named(image, request) == f"scan flights, 6 objects, {size_bytes / 1024:.1f} KiB"
