from pathlib import Path

from siltstone.cli.demo.thresholds import OBJECTS_WANTED, batch_bytes, write_settings
from support.kafka.flights import flight_line, flights


def test_thresholds_follow_the_data_and_are_found_again(tmp_path: Path) -> None:
    lines = [
        flight_line(day, hour, minute) for day in range(1, 29) for hour in range(24) for minute in range(60)
    ]
    settings = write_settings(tmp_path / "new", flights(*lines))
    size_bytes = sum(map(len, lines)) / 3  # compressed
    upload = settings.engine.upload
    assert 0.9 < upload.cache_block_bytes_max / (size_bytes / OBJECTS_WANTED) < 1.2
    assert settings.compaction.split_size_bytes == upload.cache_block_bytes_max
    assert upload.block_size_bytes < upload.split_size_bytes < upload.cache_block_bytes_max
    assert 4 <= upload.cache_block_bytes_max / batch_bytes(settings) <= 8
    assert settings.folder == tmp_path / "new"


def test_little_data_has_a_floor(tmp_path: Path) -> None:
    settings = write_settings(tmp_path, flights(flight_line(1, 1, 1)))
    assert settings.engine.upload.cache_block_bytes_max == 16 * 1024
