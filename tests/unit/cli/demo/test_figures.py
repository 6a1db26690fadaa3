"""What reading costs is counted at the bucket, from cold each time."""

from pathlib import Path

from siltstone.cli.demo.figures import measure
from siltstone.server.components import open_store
from support.engine.small_store import small_store


def test_requests_are_counted_from_cold_each_time(tmp_path: Path) -> None:
    settings = small_store(tmp_path)
    with open_store(settings) as store:
        streams = {f"stream {stream_id}": stream_id for stream_id in store.metadata.image.streams}
        objects = store.metadata.image.objects.values()
        size_bytes = sum(held.size_bytes for held in objects)
    first, second = measure(settings, streams), measure(settings, streams)
    assert first == second
    assert first.objects == first.stream_set_objects + first.stream_objects == len(objects)
    assert first.size_bytes == size_bytes
    assert first.index_entries >= sum(first.holding.values()) > 0
    for name in streams:  # an index and its blocks: two GETs an object, or more
        assert first.requests[name] >= 2 * first.holding[name] - 1
