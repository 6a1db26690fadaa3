"""The whole life of a store whose bucket is on a real S3 server: appended, uploaded, compacted through multipart,
read, checked, swept. Its folder keeps only the log, the metadata and the settings."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from siltstone.metadata.entities import JobState
from siltstone.model.limits import PART_SIZE_BYTES_MIN
from siltstone.object_store.port import MultipartUpload
from siltstone.offline.opening.store import open_store
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.server.settings.node import NodeSettings
from support.engine.s3_server import S3Server
from support.maintenance import compaction_driver
from support.maintenance.compacting import RoundReport, compact
from support.maintenance.live_store import (
    Batch,
    History,
    assert_bucket_is_exact,
    assert_checked,
    assert_reads_back,
    batches,
    digests,
    jobs,
    produce,
    store_settings,
    sweep_after,
)
from support.spark.held_tasks import Gate
from support.spark.spark_cluster import start_driver, wait_until

pytestmark = [pytest.mark.s3, pytest.mark.timeout(900)]

STREAMS = 8
DRIVER = Path(compaction_driver.__file__).read_text()

THRESHOLDS = """\
[engine.upload]
cache_block_bytes_max = "1MiB"
split_size_bytes = "1MiB"
block_size_bytes = "128KiB"
[compaction]
split_size_bytes = "2MiB"
memory_bytes = "6MiB"
"""
"""The smallest part is that of S3 itself: a part of more than 5 MiB, then a small last one."""


def many() -> list[Batch]:
    """About 13 MiB: half of it of one stream, which becomes stream objects; the others stay together."""
    return batches(1_300, STREAMS, seed=5, bytes_max=20_000)


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
def settings(tmp_path: Path, s3_server: S3Server, history: History) -> NodeSettings:
    made = store_settings(tmp_path / "store", THRESHOLDS, bucket=s3_server.new_url())
    asyncio.run(produce(made, history, STREAMS, many()))
    return made


def compacted(settings: NodeSettings) -> RoundReport:
    with open_store(settings) as store:
        return compact(store.context, InProcessRunner(threads_max=2), settings.compaction)


def on_a_folder(folder: Path) -> NodeSettings:
    """The same history in a store on a folder."""
    made = store_settings(folder, THRESHOLDS)
    asyncio.run(produce(made, History(), STREAMS, many()))
    return made


def test_a_store_on_s3_lives_as_one_on_a_folder_does(
    settings: NodeSettings, history: History, tmp_path: Path
) -> None:
    folder = on_a_folder(tmp_path / "folder")
    assert digests(settings) == digests(folder)
    assert not (settings.folder / "bucket").exists()

    report = compacted(settings)
    assert_parts_are_those_s3_asks_for(settings, report)
    assert compacted(folder).bytes_after == report.bytes_after
    assert digests(settings) == digests(folder)
    assert_checked(settings)
    assert_reads_back(settings, history)
    assert_next_round(settings, history)


def assert_parts_are_those_s3_asks_for(settings: NodeSettings, report: RoundReport) -> None:
    assert report.stream_set_object is not None and report.iterations >= 2
    with open_store(settings) as store:
        size_bytes = store.metadata.image.objects[report.stream_set_object].size_bytes
    assert PART_SIZE_BYTES_MIN < size_bytes < 2 * PART_SIZE_BYTES_MIN, (
        "one part of 5 MiB and a smaller last one"
    )


def assert_next_round(settings: NodeSettings, history: History) -> None:
    """Appended to, compacted again, and swept: only what is committed is left."""
    asyncio.run(produce(settings, history, STREAMS, batches(300, STREAMS, seed=6, bytes_max=20_000)))
    assert compacted(settings).committed
    assert_reads_back(settings, history)
    assert sweep_after(settings, hours=1).objects_deleted > 10
    assert_reads_back(settings, history)
    assert_bucket_is_exact(settings)


@pytest.mark.spark
@pytest.mark.nightly(tried="runs of maintenance on Spark")
def test_maintenance_on_spark_writes_the_same_to_s3(
    settings: NodeSettings, history: History, tmp_path: Path
) -> None:
    folder = on_a_folder(tmp_path / "folder")
    assert compacted(folder).committed
    program = "from siltstone.cli.main import main; main()"
    done = subprocess.run(
        [
            sys.executable, "-c", program, "maintain", "run", "--kind", "sso-compaction",
            "--store", str(settings.folder), "--master", "local[2]",
        ],
        capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert digests(settings) == digests(folder)
    assert_checked(settings)
    assert_reads_back(settings, history)
    sweep_after(settings, hours=1)
    assert_bucket_is_exact(settings)


@pytest.mark.nightly(tried="forsaken uploads")
def test_an_upload_forsaken_by_a_killed_driver_is_aborted_by_the_sweep(
    settings: NodeSettings, history: History, tmp_path: Path
) -> None:
    before, gate = digests(settings), Gate(tmp_path / "gate")
    with driver_with_a_part_written(settings, gate):
        assert len(uploads(settings)) == 1
    assert [job.state for job in jobs(settings)] == [JobState.RUNNING]
    assert_checked(settings)
    assert_reads_back(settings, history)

    assert sweep_after(settings, hours=23).uploads_aborted == 0, "its time limit has not passed"
    assert len(uploads(settings)) == 1
    assert sweep_after(settings, hours=24.1).uploads_aborted == 1
    assert digests(settings) == before
    assert_reads_back(settings, history)
    assert_bucket_is_exact(settings)


@contextmanager
def driver_with_a_part_written(settings: NodeSettings, gate: Gate) -> Iterator[None]:
    """Killed in the end with SIGKILL."""
    driver = start_driver(DRIVER, str(settings.folder), "--before-answer", str(gate.folder))
    try:
        wait_until(lambda: gate.held_pids() or driver.poll() is not None, "an iteration has written")
        assert driver.poll() is None, driver.communicate()
        yield
    finally:
        driver.kill()
        driver.communicate()


def uploads(settings: NodeSettings) -> list[MultipartUpload]:
    with open_store(settings) as store:
        return list(store.buckets.store(0).list_multipart())
