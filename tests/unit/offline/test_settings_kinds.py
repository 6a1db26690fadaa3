import pytest

from siltstone.model.errors import InvalidRequest
from siltstone.offline.settings import Intervals


def test_intervals_by_the_name_of_the_kind() -> None:
    intervals = Intervals(minor_gc_ms=5, major_gc_ms=6)
    assert (intervals.of("minor-gc"), intervals.of("major-gc")) == (5, 6)


@pytest.mark.parametrize("name", Intervals.__struct_fields__)
@pytest.mark.parametrize("interval_ms", [0, -1])
def test_an_interval_is_longer_than_nothing(name: str, interval_ms: int) -> None:
    with pytest.raises(InvalidRequest, match=f"{name} is {interval_ms}: an interval is at least 1 ms"):
        Intervals(**{name: interval_ms})


@pytest.mark.parametrize("minor_gc_ms", [1_000, 2_000])
def test_gc6_a_minor_collection_comes_more_often_than_a_major_one(minor_gc_ms: int) -> None:
    with pytest.raises(InvalidRequest, match="more often than a major one"):
        Intervals(minor_gc_ms=minor_gc_ms, major_gc_ms=1_000)
