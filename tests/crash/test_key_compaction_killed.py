"""Drivers of key compaction are killed with SIGKILL, beside a broker whose topics grow. After each kill a consumer
reads the same table as a dict holds, and the store is sound. At the end, when all time limits have passed, the
bucket holds what is committed and nothing else."""

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

import siltstone
from siltstone.maintenance.checking.check import check
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.model.objects import ObjectState, object_key
from siltstone.object_store.bucket_identity import MARKER_KEY
from siltstone.object_store.metadata_mark import mark_of_key
from support.broker.keyed_broker import SETTINGS, Keyed, table_of
from support.kafka.raw_kafka import RawConnection, address_of
from support.maintenance.compacted_store import compact_keys, maintained, split
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried, unrecorded

TESTS = Path(__file__).parents[1]
NAMES = ["a", "b", "c"]

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]


@pytest.mark.parametrize("seed", [1])
def test_killed_drivers_lose_and_resurrect_nothing(tmp_path: Path, seed: int) -> None:
    kill_repeatedly(tmp_path, seed, kills=2)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(2))
def test_killed_drivers_lose_and_resurrect_nothing_many_times(
    tmp_path: Path, part: int, record_tried: RecordTried
) -> None:
    """Each night has other seeds; ``CRASH_SEED=7`` with ``-k "many and 0"`` repeats one."""
    record_tried("seeds", 1)
    kill_repeatedly(tmp_path, seed_of_this_run("CRASH_SEED"), kills=25, record_tried=record_tried)


def kill_repeatedly(folder: Path, seed: int, kills: int, record_tried: RecordTried = unrecorded) -> None:
    rng = random.Random(seed)
    with (
        siltstone.Broker(folder, settings=SETTINGS) as broker,
        RawConnection(address_of(broker.bootstrap_servers)) as connection,
    ):
        keyed = [Keyed(connection, name) for name in NAMES]
        for _ in range(kills):
            for one in keyed:
                one.produce(30)
            broker.flush()
            with driver(folder) as killed:
                killed.wait_until_it_begins()
                time.sleep(rng.random() * 0.4)
            record_tried("kills", 1)
            assert [table_of(connection, one.topic)[0] for one in keyed] == [one.expected for one in keyed]
            assert_sound(folder)
    with (
        siltstone.Broker(folder, settings=SETTINGS) as broker,
        RawConnection(address_of(broker.bootstrap_servers)) as connection,
    ):
        assert [table_of(connection, one.topic)[0] for one in keyed] == [one.expected for one in keyed]
    assert_nothing_is_left_over(folder)


class Driver:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def wait_until_it_begins(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"begin\n", "it ended by itself"


@contextmanager
def driver(folder: Path) -> Iterator[Driver]:
    """Yields a driver that is killed where the body of the ``with`` ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "support.maintenance.key_compaction_driver", str(folder)],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
    )
    with process:
        try:
            yield Driver(process)
            assert process.poll() is None, "it ended by itself"
        finally:
            os.kill(process.pid, signal.SIGKILL)


def assert_sound(folder: Path) -> None:
    with maintained(folder) as context:
        report = check(context)
    assert report.is_clean, report.findings


def assert_nothing_is_left_over(folder: Path) -> None:
    """Once the leases of the killed drivers have passed, another driver finishes what they began; then only time has
    to pass."""
    with maintained(folder, hours_ahead=1) as context:
        split(context)
        assert compact_keys(context).is_well
    for hours in (48, 72):
        with maintained(folder, hours_ahead=hours) as context:
            sweep(context)
    with maintained(folder) as context:
        objects = context.metadata.refresh().objects.values()
        assert all(each.state is ObjectState.COMMITTED for each in objects)
        keys = {each.key for each in context.buckets.store(0).list() if not mark_of_key(each.key)}
        assert keys == {object_key(each.object_id) for each in objects} | {MARKER_KEY}
        assert check(context).findings == ()
