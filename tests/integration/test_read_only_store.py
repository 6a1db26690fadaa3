"""A store on a disk that is mounted read-only, as a snapshot is, can be looked at, checked and read."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import siltstone
from siltstone.metadata.commands import PinScan
from siltstone.metadata.store.port import LogReadOnly
from support.broker.broker_process import SILTSTONE, BrokerProcess
from support.faults.small_disk import SmallDisk, why_not_mounted

SECONDS_MAX = 120
LINES = [json.dumps({"carrier": carrier}) for carrier in ("UA", "AA", "UA")]


def run(*command: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SILTSTONE), *command],
        input=typed,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def with_records(broker: BrokerProcess) -> None:
    typed = "\n".join(LINES)
    done = run("produce", "flights", "--create", "--json-lines", "-b", broker.bootstrap_servers, typed=typed)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    if reason := why_not_mounted():
        pytest.skip(reason)
    with SmallDisk(tmp_path / "disk", "1g") as mounted:
        yield mounted


def answer(*command: str, store: Path) -> str:
    done = run(*command, "--store", str(store))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cannot be written here" in done.stderr
    return done.stdout


def test_a_closed_store_on_a_read_only_disk_is_checked_listed_and_queried(disk: SmallDisk) -> None:
    store = disk.folder / "store"
    with BrokerProcess(store) as broker:
        with_records(broker)
        assert broker.stop() == 0
    disk.make_read_only()
    assert json.loads(answer("check", "--json", store=store))["clean"]
    assert any("flights" in line for line in answer("streams", store=store).splitlines())
    text = "select carrier, count(*) as n from flights group by 1 order by 1"
    assert "UA" in answer("sql", text, store=store)
    assert answer("maintain", "status", store=store)
    assert siltstone.scan("flights", store=store).to_arrow().num_rows == len(LINES)
    with siltstone.open_store(store) as opened, pytest.raises(LogReadOnly, match="can only be looked at"):
        opened.metadata.execute(PinScan("a", 1000, "a test"))


def test_a_snapshot_of_a_store_in_use_is_read_with_what_is_beside_its_database(disk: SmallDisk) -> None:
    store = disk.folder / "store"
    with BrokerProcess(store, {"engine.upload.cache_block_age_ms_max": "50ms"}) as broker:
        with_records(broker)
        broker.kill()
    assert (store / "metadata.sqlite-wal").stat().st_size
    (store / "metadata.sqlite-shm").unlink()
    disk.make_read_only()
    assert any("flights" in line for line in answer("streams", store=store).splitlines())
    report = json.loads(answer("check", "--json", store=store))
    assert report["clean"] and report["streams_checked"]
