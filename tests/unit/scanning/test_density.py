"""Which offsets are records as far as the metadata know, and where a scan of the first records ends."""

from typing import Any

import pytest
from msgspec.structs import replace

from siltstone.metadata.buckets import BUCKETS_KEY
from siltstone.metadata.store_id import RESTORED_KEY
from siltstone.scanning.density import END, RecordOffsets, dense_range, first_records, may_have_lost
from siltstone.scanning.planning import Cut, ScanPartition, wanted_partitions
from siltstone.scanning.request import ScanRequest
from support.metadata.topic_images import TopicImage


@pytest.fixture
def image() -> Any:
    """Makes topic t with two partitions of 300 offsets."""
    made = TopicImage()
    made.add("t", partitions=2, objects=3, offsets=100, size_bytes=1024)
    return made


def partitions(image: Any) -> list[ScanPartition]:
    return wanted_partitions(image, ScanRequest(topics=("t",)))


def buckets(*states: str) -> bytes:
    rows = ",".join(
        f'{{"id":{number},"url":"file:///{number}","weight":1,"state":"{state}"}}'
        for number, state in enumerate(states)
    )
    strategy = '"strategy":{"name":"failover","order":[],"copies":1}'
    return f'{{"format":1,"buckets":[{rows}],{strategy}}}'.encode()


def test_a_partition_of_plain_records_is_dense(image: Any) -> None:
    assert dense_range(image, partitions(image)[0]) == RecordOffsets(0, END)


def test_key_compaction_leaves_gaps_below_the_cleaned_offset(image: Any) -> None:
    first = partitions(image)[0]
    cleaned = replace(first, stream=replace(first.stream, cleaned_offset=120))
    assert dense_range(image, cleaned) == RecordOffsets(120, END)


def test_markers_may_be_from_the_first_transaction_on(image: Any) -> None:
    (topic_id,) = image.topics
    image.keys[f"transactional/{topic_id}/1"] = b"70"
    none, some = (dense_range(image, each) for each in partitions(image))
    assert (none, some) == (RecordOffsets(0, END), RecordOffsets(0, 70))


@pytest.mark.parametrize(
    ("states", "lost"),
    [
        (("writable",), False),
        (("writable", "writable"), False),
        (("writable", "draining"), True),
        (("removed", "writable"), True),
        (("writable", "read-only"), True),
    ],
)
def test_objects_promise_nothing_where_a_bucket_may_have_been_lost(
    image: Any, states: tuple[str, ...], lost: bool
) -> None:
    image.keys[BUCKETS_KEY] = buckets(*states)
    assert may_have_lost(image) is lost
    first = 300 if lost else 0
    assert dense_range(image, partitions(image)[0]) == RecordOffsets(first, END), "the tail is in no bucket"


def test_a_restored_store_may_have_been_restored_from_one_with_losses(image: Any) -> None:
    image.keys[RESTORED_KEY] = b"{}"
    assert may_have_lost(image)


def test_the_part_within_a_cut() -> None:
    dense = RecordOffsets(10, 20)
    assert dense.within(0, 30) == (10, 20)
    assert dense.within(12, 15) == (12, 15)
    assert dense.within(0, 10) == (10, 10)
    assert dense.within(20, 30) == (30, 30)


def test_the_first_records_end_where_there_are_enough_for_certain(image: Any) -> None:
    one, other = partitions(image)
    cuts = [Cut(one, 0, 300), Cut(other, 50, 300)]
    dense = {one.key: RecordOffsets(0), other.key: RecordOffsets(100)}

    def ends(rows_max: int) -> list[tuple[int, int]]:
        return [(each.start_offset, each.end_offset) for each in first_records(cuts, rows_max, dense)]

    assert ends(7) == [(0, 7)]
    assert ends(300) == [(0, 300)]
    assert ends(301) == [(0, 300), (50, 101)], "the offsets below 100 may be gaps"
    assert ends(501) == [(0, 300), (50, 300)]
