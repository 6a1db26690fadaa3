"""How far a query is behind, from the progress that Spark reports."""

import json

import pytest

from siltstone.scanning.streaming.position import StreamPosition, encode_position
from siltstone.spark.source.lag import backlog, lag

FLIGHTS, LOADS = "aa" * 16, "bb" * 16
NAMES = {FLIGHTS: "flights", LOADS: "loads"}


def position(*offsets: tuple[str, int, int]) -> dict:
    """Of (topic id, partition, next offset)."""
    return encode_position(
        StreamPosition("store", NAMES, {(topic_id, number): offset for topic_id, number, offset in offsets})
    )


def source(end: object, latest: object) -> dict:
    return {"endOffset": end, "latestOffset": latest}


BEHIND = source(
    position((FLIGHTS, 0, 100), (FLIGHTS, 1, 7), (LOADS, 0, 5)),
    position((FLIGHTS, 0, 100), (FLIGHTS, 1, 1_207), (LOADS, 0, 5)),
)


def test_what_waits_is_told_by_partition() -> None:
    assert lag({"sources": [BEHIND]}) == {"flights-0": 0, "flights-1": 1_200, "loads-0": 0}


def test_positions_are_read_as_objects_and_as_texts() -> None:
    texts = {name: json.dumps(value) for name, value in BEHIND.items()}
    assert lag({"sources": [texts]}) == lag({"sources": [BEHIND]})


def test_a_partition_that_no_batch_has_read_yet_waits_from_its_first_offset() -> None:
    found = lag({"sources": [source(position(), position((FLIGHTS, 2, 40)))]})
    assert found == {"flights-2": 40}


def test_a_query_that_has_read_further_than_the_latest_look_is_not_behind() -> None:
    assert lag({"sources": [source(position((LOADS, 0, 9)), position((LOADS, 0, 4)))]}) == {"loads-0": 0}


def test_several_sources_count_together_and_those_of_other_formats_do_not() -> None:
    kafka = source('{"flights": {"0": 5}}', '{"flights": {"0": 50}}')
    others = [kafka, source("7", "9"), source("no json", "no json"), source(None, None), {}]
    assert lag({"sources": [BEHIND, *others, BEHIND]})["flights-1"] == 2_400
    assert lag({"sources": others}) == {}


@pytest.mark.parametrize("missing", ["endOffset", "latestOffset"])
def test_a_source_with_one_position_alone_is_left_out(missing: str) -> None:
    assert lag({"sources": [{**BEHIND, missing: None}]}) == {}


class Progress:
    """As Spark 4 gives it: ``json`` is its text."""

    json = json.dumps({"sources": [BEHIND]})
    sources = ()


class Query:
    lastProgress: object = None  # noqa: N815  Spark's name


def test_a_query_is_asked_for_its_last_progress_and_has_none_before_the_first_batch() -> None:
    query = Query()
    assert lag(query) == {}
    query.lastProgress = Progress()
    assert lag(query)["flights-1"] == 1_200
    query.lastProgress = {"sources": [BEHIND]}
    assert lag(query)["flights-1"] == lag(Progress())["flights-1"] == 1_200


def test_the_backlogs_of_several_sources_are_added_and_the_longest_time_counts() -> None:
    first = {
        "latestOffset": {**position((LOADS, 0, 4)), "backlog": {"records": 4, "bytes": 80, "seconds": 1.5}}
    }
    second = {
        "latestOffset": json.dumps({**position(), "backlog": {"records": 1, "bytes": 9, "seconds": 7.0}})
    }
    kafka = source('{"flights": {"0": 5}}', '{"flights": {"0": 50}}')
    assert backlog({"sources": [first, second, kafka, BEHIND]}) == {"records": 5, "bytes": 89, "seconds": 7.0}
    assert backlog({"sources": [kafka]}) == {"records": 0, "bytes": 0, "seconds": 0.0}
    assert backlog(Query()) == backlog({"sources": []})
    assert lag({"sources": [{"endOffset": position(), **first}]}) == {"loads-0": 4}, "lag reads past it"
