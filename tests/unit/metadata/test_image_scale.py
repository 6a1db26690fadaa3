"""What an image costs to load, to hold and to change. The limits are the issue's; measured values stand beside them."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from siltstone.metadata.commands import CommitCompaction, CommitUpload, CreateStream, OpenStream
from siltstone.metadata.image import ImageDraft, MetadataImage
from siltstone.metadata.snapshot import encode_snapshot
from siltstone.metadata.store.sqlite import SqliteLog
from siltstone.model.limits import STREAMS_PER_OBJECT_MAX
from support.metadata.large_image import large_image
from support.metadata.log_entries import append_values
from support.metadata.metadata_world import MetadataWorld, new_object
from support.values.left_out import numbers_left_out

MIB = 2**20

LOADER = """
import json, re, sys, time
from pathlib import Path
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.store.opening import open_log
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import seeded_randomness
begin = time.process_time()
client = MetadataClient(open_log(sys.argv[1]), SystemClock(), seeded_randomness(1))
seconds = time.process_time() - begin
# Not ru_maxrss: that begins with what the parent process held.
peak = 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
print(json.dumps([seconds, peak, len(client.image.streams), len(client.image.objects)]))
"""


def load_in_a_new_process(tmp_path: Path, streams: int, objects: int) -> tuple[float, int]:
    """CPU seconds, and the most memory the process ever held."""
    path = tmp_path / "metadata.sqlite"
    log = SqliteLog(path)
    head = append_values(log, b"replaced by the snapshot")
    log.save_snapshot(head, encode_snapshot(large_image(streams, objects)))
    log.close()
    command = [sys.executable, "-c", LOADER, f"sqlite://{path}"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert told[2:] == [streams, objects]
    return told[0], told[1]


@pytest.mark.nightly
def test_100_000_streams_and_400_000_objects(tmp_path, record_tried) -> None:
    """1,196,000 ranges. Measured: 2.2 s, 547 MiB."""
    record_tried("streams", 100_000)
    record_tried("objects", 400_000)
    seconds, peak_bytes = load_in_a_new_process(tmp_path, 100_000, 400_000)
    assert seconds < 5
    assert peak_bytes < 1024 * MIB


def test_a_tenth_of_it(tmp_path) -> None:
    """Measured: 0.2 s, 85 MiB, of which 35 are Python and its libraries."""
    seconds, peak_bytes = load_in_a_new_process(tmp_path, 10_000, 40_000)
    assert seconds < 3
    assert peak_bytes < 160 * MIB


@pytest.fixture(scope="module")
def world() -> MetadataWorld:
    made = MetadataWorld()
    made.register(0)
    for _ in range(STREAMS_PER_OBJECT_MAX):
        stream_id = made.do(CreateStream(0, 1))
        made.do(OpenStream(0, 1, stream_id, 0))
        made.images.clear()
    return made


def timed(world: MetadataWorld, command) -> float:
    """CPU seconds: what others do on the machine does not count."""
    begin = time.process_time()
    world.do(command)
    return time.process_time() - begin


def test_commits_of_20_000_ranges(world) -> None:
    """Deciding and applying. Measured: 0.1 s the upload, 0.25 s the compaction of three such objects; the limits are
    what a machine at a quarter of its speed passes, and anything quadratic does not."""
    every = range(STREAMS_PER_OBJECT_MAX)
    for start in (0, 10, 20):
        first = world.prepare()
        upload = CommitUpload(0, 1, new_object(first, *((n, start, start + 10) for n in every)))
        assert timed(world, upload) < 2
    job = world.start_job()
    first = world.prepare_for_job(job)
    merged = new_object(first, *((n, 0, 30) for n in every))
    assert timed(world, CommitCompaction(job, (0, 1, 2), merged)) < 3
    assert world.held(7) == [(3, 0, 30)]


def test_a_small_change_to_a_large_image_copies_no_map(world) -> None:
    """Only shards that were touched are new: 1 of 1024 of the one map that changed."""
    draft = ImageDraft(world.image)
    draft.streams[5] = replace(draft.streams[5], tags={"changed": "yes"})
    after = draft.frozen(1)
    pairs = zip(world.image.streams._shards, after.streams._shards, strict=True)
    assert sum(old is not new for old, new in pairs) == 1
    assert after.objects._shards is world.image.objects._shards


def test_what_is_left_out() -> None:
    assert numbers_left_out(MetadataImage) == {
        "version": 0,
        "next_stream_id": 0,
        "next_object_id": 0,
        "next_job_id": 0,
    }
