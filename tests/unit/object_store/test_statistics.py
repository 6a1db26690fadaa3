"""Counts of requests, bytes and seconds, as the demo, the metrics and the tests read them."""

from siltstone.object_store.statistics import RequestCounter, StoreStatistics


def test_requests_retries_and_bytes_are_counted() -> None:
    counter = RequestCounter()
    assert counter.statistics() == StoreStatistics({}, 0, 0, 0) and counter.seconds() == {}
    counter.count_request("put")
    counter.count_request("put", is_retry=True)
    counter.count_request("head")
    counter.count_bytes(written=7)
    counter.count_bytes(read=3, written=1)
    before = counter.statistics()
    assert before == StoreStatistics({"put": 2, "head": 1}, 1, 3, 8)
    assert (before.requests_of("put"), before.requests_of("delete")) == (2, 0)
    counter.count_request("put")
    assert before.requests_of("put") == 2, "what was read does not change"


def test_seconds_are_kept_by_request() -> None:
    counter = RequestCounter()
    for kind, seconds in (("put", 0.5), ("put", 1.5), ("head", 0.25)):
        counter.observe(kind, seconds)
    assert {kind: (counts.count, counts.total) for kind, counts in counter.seconds().items()} == {
        "put": (2, 2.0),
        "head": (1, 0.25),
    }


def test_statistics_add_up_and_give_what_came_since() -> None:
    early, later = StoreStatistics({"put": 2}, 1, 3, 8), StoreStatistics({"put": 5, "head": 1}, 4, 10, 20)
    assert early + later == StoreStatistics({"put": 7, "head": 1}, 5, 13, 28)
    assert later - early == StoreStatistics({"put": 3, "head": 1}, 3, 7, 12)
