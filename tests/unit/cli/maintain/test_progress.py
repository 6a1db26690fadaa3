from siltstone.cli.maintain.progress import moved_words
from siltstone.maintenance.pipeline.watch import Told


def test_bytes_and_time_left() -> None:
    told = Told("tidy", "rewrite", 1, 4, 1024, 4096)
    assert moved_words(told, 90.0) == "1.0 KiB of 4.0 KiB, about 90.0 s left"
    assert moved_words(told, None) == "1.0 KiB of 4.0 KiB"
    assert moved_words(Told("tidy", "read", 1, 4, 0, 0), None) == ""
