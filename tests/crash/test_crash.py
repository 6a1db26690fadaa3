"""Real processes, killed with SIGKILL at seeded random moments.

After each kill: every acknowledged record is read exactly once and in order, and the check is clean. At the end,
when all time limits have passed, the bucket holds the committed objects and nothing else.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from siltstone.maintenance.checking.check import check
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.model.limits import GRACE_PERIOD_MS, HOUR_MS
from siltstone.model.objects import ObjectState, object_key
from siltstone.object_formats.wal_object import wal_object_name
from siltstone.object_store.bucket_identity import MARKER_KEY
from siltstone.object_store.metadata_mark import mark_of_key
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.opening.store import open_store
from siltstone.runtime.clock import ManualClock
from siltstone.server.components import Node, open_node
from support.engine.crash_payload import describe
from support.engine.crash_settings import crash_settings
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried, unrecorded

TESTS = Path(__file__).parents[1]


@pytest.mark.crash
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.nightly(tried="seeds"))])
def test_killed_processes_lose_nothing(tmp_path: Path, seed: int) -> None:
    kill_repeatedly(tmp_path, seed, kills=5)


@pytest.mark.crash
@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(3))
def test_killed_processes_lose_nothing_many_times(
    tmp_path: Path, part: int, record_tried: RecordTried
) -> None:
    """Each night has other seeds; ``CRASH_SEED=7 pytest tests/crash/test_crash.py -k "many and 0"`` repeats one."""
    record_tried("seeds", 1)
    kill_repeatedly(tmp_path, seed_of_this_run("CRASH_SEED"), kills=20, record_tried=record_tried)


@pytest.mark.crash
@pytest.mark.timeout(300)
def test_killed_processes_lose_nothing_of_a_log_in_the_bucket(tmp_path: Path) -> None:
    put_log_in_bucket(tmp_path)
    kill_repeatedly(tmp_path, seed=3, kills=1)


@pytest.mark.crash
@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(200, 202))
def test_logs_in_the_bucket_many_times(tmp_path: Path, seed: int, record_tried: RecordTried) -> None:
    record_tried("seeds", 1)
    put_log_in_bucket(tmp_path)
    kill_repeatedly(tmp_path, seed, kills=12, record_tried=record_tried)


def put_log_in_bucket(folder: Path) -> None:
    (folder / "siltstone.toml").write_text('[engine.wal]\nlocation = "bucket:0"\n')


def kill_repeatedly(folder: Path, seed: int, kills: int, record_tried: RecordTried = unrecorded) -> None:
    rng = random.Random(seed)
    acknowledged_before = 0
    for _ in range(kills):
        life(folder, rng)
        record_tried("kills", 1)
        acknowledged = asyncio.run(verify_streams(folder))
        assert acknowledged > acknowledged_before, "the killed process had acknowledged nothing"
        acknowledged_before = acknowledged
        verify_store(folder)
    verify_no_orphans(folder)


def life(folder: Path, rng: random.Random) -> None:
    """A node and a compaction driver, of which one or both are killed at a random moment."""
    history = folder / "history"
    size_before = history.stat().st_size if history.exists() else 0
    with process("support.engine.crash_appender", folder, str(rng.randrange(2**32))) as appender:
        wait_until(lambda: history.exists() and history.stat().st_size > size_before + 200, appender)
        with process("support.maintenance.crash_compactor", folder) as compactor:
            time.sleep(0.3 + rng.random() * 1.5)
            for victim in rng.choice([[appender], [compactor, appender], [appender, compactor]]):
                assert victim.poll() is None, f"{victim.args} ended by itself"
                os.kill(victim.pid, signal.SIGKILL)
                time.sleep(rng.random() / 5)


@contextmanager
def process(module: str, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [sys.executable, "-m", module, str(folder), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])},
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def wait_until(condition: "object", child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not condition():  # type: ignore[operator]
        assert child.poll() is None, f"{child.args} ended with {child.returncode}"
        assert time.monotonic() < deadline, f"{child.args} acknowledges nothing"
        time.sleep(0.02)


async def verify_streams(folder: Path) -> int:
    """Reads everything back through a recovered node. Returns the number of acknowledged appends."""
    promised, trimmed = read_history(folder / "history")
    async with open_node(crash_settings(folder)) as node:
        for stream_id, appends in promised.items():
            await verify_stream(node, stream_id, appends, trimmed.get(stream_id, 0))
    return sum(len(appends) for appends in promised.values())


def read_history(path: Path) -> tuple[dict[int, dict[int, int]], dict[int, int]]:
    promised: dict[int, dict[int, int]] = {}
    trimmed: dict[int, int] = {}
    for line in path.read_text().splitlines():
        kind, *numbers = line.split()
        if kind == "A":
            stream_id, base, count = map(int, numbers)
            appends = promised.setdefault(stream_id, {})
            assert base not in appends, f"offset {base} of stream {stream_id} acknowledged twice"
            appends[base] = count
        else:
            stream_id, offset = map(int, numbers)
            trimmed[stream_id] = max(trimmed.get(stream_id, 0), offset)
    return promised, trimmed


async def verify_stream(node: Node, stream_id: int, promised: dict[int, int], trimmed: int) -> None:
    metadata = node.metadata.image.streams[stream_id]
    stream = await node.engine.open_stream(stream_id, metadata.epoch + 1)
    assert stream.start_offset <= trimmed, "trimmed further than anybody asked"
    expected = stream.start_offset
    seen: dict[int, int] = {}
    while expected < stream.confirmed_offset:
        for batch in await node.engine.read(stream, expected, 1 << 20):
            assert describe(batch.payload) == (stream_id, batch.base_offset, batch.record_count)
            assert batch.base_offset <= expected if not seen else batch.base_offset == expected
            seen[batch.base_offset] = batch.record_count
            expected = batch.end_offset
    kept = {base: count for base, count in promised.items() if base >= stream.start_offset}
    missing = kept.items() - seen.items()
    assert not missing, f"stream {stream_id}: acknowledged and not read: {sorted(missing)[:5]}"
    await node.engine.close_stream(stream)


def verify_store(folder: Path) -> None:
    with open_store(crash_settings(folder)) as store:
        report = check(store.context)
        assert report.is_clean, report.findings


def verify_no_orphans(folder: Path) -> None:
    """After a day and a grace period the bucket holds what is committed, and nothing else."""
    with open_store(crash_settings(folder)) as store:
        later = ManualClock(int(time.time() * 1000) + 25 * HOUR_MS)
    with open_store(crash_settings(folder), clock=later) as store:
        store.trust_clock()
        sweep(store.context)
        later.advance_ms(GRACE_PERIOD_MS)
        report = sweep(store.context)
        assert report.objects_waiting == 0
        assert_bucket_is_exact(store.context)


def assert_bucket_is_exact(context: MaintenanceContext) -> None:
    objects = context.metadata.image.objects.values()
    assert all(each.state is ObjectState.COMMITTED for each in objects)
    bucket = context.buckets.store(0)
    expected = {object_key(each.object_id) for each in objects} | {MARKER_KEY}
    others = (mark_of_key, wal_object_name)
    assert {each.key for each in bucket.list() if not any(own(each.key) for own in others)} == expected
    assert list(bucket.list_multipart()) == []
    assert not check(context).findings
