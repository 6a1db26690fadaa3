import pytest

from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import GIB, MIB, PART_COUNT_MAX
from siltstone.offline.settings import StreamObjectCompactionSettings


def test_defaults_are_possible() -> None:
    settings = StreamObjectCompactionSettings()
    assert settings.group_bytes_max == 10 * GIB
    assert settings.forced.largest_share_max == 1.0 and settings.forced.settled_ms == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"copy_bytes_max": 9 * MIB}, "at least two parts"),
        ({"copy_bytes_max": 5 * GIB}, "at most"),
        ({"group_bytes_max": 0}, "group_bytes_max is 0"),
        ({"group_objects_max": 5_000}, "could take 10021 parts"),
        ({"largest_share_max": 0.0}, r"in \(0, 1\]"),
        ({"largest_share_max": 1.01}, r"in \(0, 1\]"),
        ({"part_count_max": PART_COUNT_MAX + 1}, "part_count_max"),
        ({"part_count_max": 8_020}, "lower group_objects_max"),
        ({"settled_ms": -1}, "settled_ms is -1"),
    ],
)
def test_impossible_ones_are_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        StreamObjectCompactionSettings(**changes)  # type: ignore[arg-type]
