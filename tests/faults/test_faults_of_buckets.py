"""One of three buckets is broken under a live broker: two S3 servers and a folder on a disk of its own.

Five rows are drawn for a night, by its date. ``NIGHT=all`` plays all rows.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.engine.s3_server import S3Server, running_s3_server
from support.faults.several_buckets import (
    BUCKETS,
    FOLDER_BUCKET,
    SECOND_S3_BUCKET,
    BucketRow,
    SeveralBuckets,
    play_bucket_row,
    play_swapped,
)
from support.faults.small_disk import why_not_mounted
from support.faults.summary import TRIED
from support.processes.night import drawn_tonight
from support.processes.tried import RecordTried

DRAWN_TONIGHT = 5

WITHOUT_ORDER = ("round-robin", "dynamic-sharding")
"""To these strategies the two S3 servers are alike, so only the first is broken."""

ROWS = [
    BucketRow(strategy, fault, bucket)
    for strategy in ("failover", *WITHOUT_ORDER, "replication")
    for fault in ("killed", "hung", "denied", "full")
    for bucket in BUCKETS
    if (fault, bucket) != ("killed", FOLDER_BUCKET)
    and (strategy not in WITHOUT_ORDER or bucket != SECOND_S3_BUCKET)
]

pytestmark = [
    pytest.mark.faults,
    pytest.mark.s3,
    pytest.mark.skipif(bool(why_not_mounted()), reason=why_not_mounted()),
]


@pytest.fixture(scope="module")
def servers() -> Iterator[list[S3Server]]:
    with running_s3_server() as first, running_s3_server() as second:
        yield [first, second]


TONIGHT = drawn_tonight(ROWS, DRAWN_TONIGHT)


def marks_of(row: BucketRow) -> list[pytest.MarkDecorator]:
    """Two workers share the rows, each with servers of its own: one after the other, they would be the longest part of
    a night."""
    half = "b" if row.strategy in WITHOUT_ORDER else "a"
    return [pytest.mark.xdist_group(f"faults-buckets-{half}"), pytest.mark.nightly]


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id, marks=marks_of(row)) for row in TONIGHT])
def test_b04_a_bucket_that_is_broken_holds_nobody_up_and_loses_nothing(
    row: BucketRow, servers: list[S3Server], tmp_path: Path, record_property, record_tried: RecordTried
) -> None:
    record_property(TRIED, row.id)
    record_tried("faults of one of three buckets", 1)
    hangs = row.fault == "hung" and row.bucket == FOLDER_BUCKET
    with SeveralBuckets(tmp_path, servers, hangs=hangs) as scene:
        try:
            play_bucket_row(scene, row)
        finally:
            scene.heal_servers()


@pytest.mark.nightly
@pytest.mark.xdist_group("faults-buckets-b")
@pytest.mark.parametrize(
    "order",
    [(1, 0, 2), (0, 2, 1)],
    ids=["two of S3", "S3 and folder"],
)
def test_b18_swapped_by_mistake_they_are_refused(
    order: tuple[int, ...], servers: list[S3Server], tmp_path: Path, record_tried: RecordTried
) -> None:
    record_tried("buckets swapped by mistake", 1)
    with SeveralBuckets(tmp_path, servers) as scene:
        play_swapped(scene, order)
