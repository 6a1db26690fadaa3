import pytest

from siltstone.model import limits
from siltstone.stream_engine.settings import InvalidSetting, ReadSettings


def test_defaults_are_the_limits():
    settings = ReadSettings()
    assert settings.block_cache_bytes_max == limits.BLOCK_CACHE_BYTES_MAX
    assert settings.request_bytes_max == limits.READ_REQUEST_BYTES_MAX


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"read_ahead_bytes_min": 0}, "above 0"),
        ({"read_ahead_bytes_min": 2 * limits.READ_AHEAD_BYTES_MAX}, "not above"),
        ({"block_cache_bytes_max": 2 * limits.READ_AHEAD_BYTES_MAX - 1}, "must hold twice"),
    ],
)
def test_what_cannot_work_is_refused(changes, message):
    with pytest.raises(InvalidSetting, match=message):
        ReadSettings(**changes)
