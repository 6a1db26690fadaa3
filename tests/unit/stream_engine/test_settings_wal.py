import pytest

from siltstone.stream_engine.settings import (
    EngineSettings,
    InvalidSetting,
    ReadSettings,
    WalSettings,
    WalSync,
)
from support.values.left_out import numbers_left_out

KIB = 1024


def test_what_is_left_out() -> None:
    assert numbers_left_out(WalSettings).items() >= {"sync_interval_ms": 50, "lost_epoch": 0}.items()


def test_a_log_holds_two_files_or_more():
    assert WalSettings(segment_bytes=KIB, capacity_bytes=2 * KIB)
    with pytest.raises(
        InvalidSetting, match=r"wal\.capacity_bytes \(2047\) must be at least twice .* \(1024\)"
    ):
        WalSettings(segment_bytes=KIB, capacity_bytes=2 * KIB - 1)


@pytest.mark.parametrize("lost_epoch", [0, 1, 9])
def test_an_epoch_may_be_declared_lost(lost_epoch):
    assert WalSettings(lost_epoch=lost_epoch).lost_epoch == lost_epoch


def test_an_epoch_below_zero_is_none():
    with pytest.raises(InvalidSetting, match=r"wal\.lost_epoch is -1: it must be 0, or the node epoch"):
        WalSettings(lost_epoch=-1)


def test_records_are_synced_before_they_are_acknowledged():
    assert WalSettings().sync is WalSync.EVERY_GROUP


def test_read_ahead_may_have_one_size_that_fits_the_cache_twice():
    assert ReadSettings(read_ahead_bytes_min=5, read_ahead_bytes_max=5, block_cache_bytes_max=10)
    assert ReadSettings(read_ahead_bytes_min=1)
    with pytest.raises(InvalidSetting, match="not above"):
        ReadSettings(read_ahead_bytes_min=6, read_ahead_bytes_max=5)


def test_a_node_is_the_first_one_unless_it_is_said():
    assert EngineSettings().node_id == 0


def test_closing_may_take_some_time():
    assert EngineSettings(close_time_limit_ms=1).close_time_limit_ms == 1
    with pytest.raises(InvalidSetting, match="close_time_limit_ms is 0: it must be at least 1"):
        EngineSettings(close_time_limit_ms=0)
