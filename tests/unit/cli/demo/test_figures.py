"""What reading costs is counted at the bucket, from cold each time."""

from pathlib import Path

from siltstone.cli.demo.figures import HeldBytes, held, measure
from siltstone.metadata.commands import PrepareObjects, StartJob
from siltstone.offline.opening.store import open_store
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


def test_all_that_lies_in_the_bucket_is_counted_beside_what_is_committed(tmp_path: Path) -> None:
    settings = small_store(tmp_path)
    with open_store(settings) as store:
        committed = [each.size_bytes for each in store.metadata.image.objects.values()]
        job_id = store.metadata.execute(StartJob("sso-compaction", "a test", 60_000))
        store.metadata.execute(PrepareObjects(1, 60_000, 0, job_id=job_id))
        store.buckets.store(0).put("stray", [b"12345"])
        listed_bytes = sum(each.size_bytes for each in store.buckets.store(0).list())
    found = held(settings, "a step")
    assert found == HeldBytes("a step", len(committed), sum(committed), listed_bytes)
    assert found.bucket_bytes >= found.size_bytes + 5
    assert measure(settings, {}).objects == len(committed)
