import pytest

from siltstone.model.limits import TAIL_CACHE_RECORD_OVERHEAD_BYTES as OVERHEAD
from siltstone.stream_engine.settings import EngineSettings, InvalidSetting, UploadSettings, WalSettings

KIB = 1024


def test_the_defaults_fit_together():
    assert EngineSettings().append_bytes_max < EngineSettings().wal.segment_bytes


def test_a_cache_block_fits_the_tail_cache():
    with pytest.raises(InvalidSetting, match="cache_block_bytes_max"):
        EngineSettings(
            tail_cache_bytes_max=100 * KIB,
            append_bytes_max=KIB,
            upload=UploadSettings(cache_block_bytes_max=101 * KIB),
        )


@pytest.mark.parametrize(("cache_bytes", "wal_bytes"), [(10 * KIB - 1, 100 * KIB), (100 * KIB, 10 * KIB - 1)])
def test_the_largest_append_fits_cache_and_wal_or_it_would_wait_for_ever(cache_bytes, wal_bytes):
    def settings(append_bytes_max):
        return EngineSettings(
            tail_cache_bytes_max=cache_bytes,
            append_bytes_max=append_bytes_max,
            wal=WalSettings(segment_bytes=KIB, capacity_bytes=wal_bytes),
            upload=UploadSettings(cache_block_bytes_max=KIB),
        )

    with pytest.raises(InvalidSetting, match="append_bytes_max"):
        settings(10 * KIB - OVERHEAD)
    assert settings(10 * KIB - OVERHEAD - 1)


@pytest.mark.parametrize(
    ("section", "name"),
    [
        (UploadSettings, "uploads_in_flight_max"),
        (UploadSettings, "cache_block_age_ms_max"),
        (UploadSettings, "cache_block_streams_max"),
        (WalSettings, "sync_interval_ms"),
        (WalSettings, "group_bytes_max"),
    ],
)
def test_zero_where_it_would_hang_is_refused(section, name):
    assert section(**{name: 1})
    with pytest.raises(InvalidSetting, match=f"{name} is 0: it must be at least 1"):
        section(**{name: 0})


def test_a_block_of_more_streams_than_a_commit_takes_is_refused():
    """It would be acknowledged, refused at its commit, and refused again by every recovery."""
    assert UploadSettings(cache_block_streams_max=20_000)
    with pytest.raises(InvalidSetting, match="cache_block_streams_max"):
        UploadSettings(cache_block_streams_max=20_001)
