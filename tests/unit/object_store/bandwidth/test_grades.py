import pytest

from siltstone.model.errors import InvalidRequest
from siltstone.object_store.bandwidth.grades import HELD_GRADES, BandwidthSettings, Direction, Grade


def test_uploads_go_before_all_reads_and_maintenance_comes_last() -> None:
    assert [grade.label for grade in sorted(Grade)] == [
        "upload", "tail-read", "catch-up-read", "urgent", "maintenance",
    ]  # fmt: skip
    assert Grade.UPLOAD not in HELD_GRADES and len(HELD_GRADES) == len(Grade) - 1


def test_a_limit_is_not_negative() -> None:
    assert BandwidthSettings(3, 4).of(Direction.OUT) == 4
    with pytest.raises(InvalidRequest, match=r"bandwidth\.in_bytes_per_second is -1"):
        BandwidthSettings(-1)
