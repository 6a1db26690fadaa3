import pytest

from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import MIB
from siltstone.offline.settings import PUT_BYTES_MAX, CompactionSettings


def test_defaults_are_the_articles_figures() -> None:
    settings = CompactionSettings()
    assert (settings.split_size_bytes, settings.memory_bytes) == (16 * MIB, 500 * MIB)


@pytest.mark.parametrize(
    "changes",
    [
        {"memory_bytes": 0},
        {"memory_bytes": PUT_BYTES_MAX + 1},
        {"part_bytes_min": 0},
        {"part_count_max": 10_001},
        {"streams_max": 20_001},
        {"stream_objects_max": 10_001},
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(changes))):
        CompactionSettings(**changes)
