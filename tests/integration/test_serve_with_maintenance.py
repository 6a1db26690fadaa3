"""``siltstone serve --with-maintenance``: two processes, of which one looks after the other."""

import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from support.broker.broker_process import BrokerProcess
from support.engine.small_store import small_store
from support.kafka.raw_calls import batch_of, create_topic, produce_well
from support.kafka.raw_kafka import RawConnection
from support.metrics.scraping import scrape, values_of
from support.processes.cli import run
from support.processes.tried import RecordTried

SECONDS_MAX = 180.0
SERVED_AT = re.compile(r"metrics and health are served at http://([^:/]+):(\d+)")
MEASURED = {"admin.listeners": "127.0.0.1:0", "admin.maintenance_listeners": "127.0.0.1:0"}
WITH_MAINTENANCE = ("--with-maintenance", "--runner", "in-process", "-v")


def wait_until(holds: Callable[[], object], broker: BrokerProcess) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, broker.log
        time.sleep(0.05)


def maintenance_of(broker: BrokerProcess) -> psutil.Process:
    started = re.findall(r"maintenance runs in process (\d+)", broker.log)
    return psutil.Process(int(started[-1]))


def is_gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_store_is_maintained_and_both_processes_end_with_one_signal(tmp_path: Path) -> None:
    """And each has metrics of its own."""
    settings = small_store(tmp_path / "store")
    with BrokerProcess(settings.folder, MEASURED, options=WITH_MAINTENANCE) as broker:
        wait_until(lambda: ": 1 of 1 done" in broker.log, broker)
        addresses = {(host, int(port)) for host, port in SERVED_AT.findall(broker.log)}
        found = [scrape(address) for address in addresses]
        for name in ("siltstone_maintenance_units_total", "siltstone_connections"):
            assert sum(bool(values_of(each, name)) for each in found) == 1, name
        with RawConnection(broker.address) as client:
            produce_well(client, create_topic(client, "t"), batch_of())
        maintenance = maintenance_of(broker)
        assert maintenance.ppid() == broker.process_id
        assert broker.stop(SECONDS_MAX) == 0, broker.log
        assert is_gone(maintenance)
    assert "Traceback" not in broker.log and "is started again" not in broker.log
    assert broker.log.count("press again to exit now") == 1, "only the broker says it"
    assert "topic t was created: 1 partition" in broker.log
    assert re.search(r"uploaded and committed 1 object, \S+ \S+ of \d streams?, in ", broker.log)
    assert run("check", "--store", settings.folder).status == 0


@pytest.mark.nightly
def test_maintenance_that_dies_is_said_and_started_again_and_ends_with_a_killed_broker(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    record_tried("kills", 2)
    settings = small_store(tmp_path / "store")
    with BrokerProcess(settings.folder, options=WITH_MAINTENANCE) as broker:
        wait_until(lambda: "of 1 done" in broker.log, broker)
        first = maintenance_of(broker)
        first.kill()
        wait_until(lambda: broker.log.count("maintenance runs in process") == 2, broker)
        assert "maintenance was ended by signal 9; it is started again in 1.0 s" in broker.log
        second = maintenance_of(broker)
        assert broker.is_alive and second.pid != first.pid
        broker.kill()
        wait_until(lambda: is_gone(second), broker)


@pytest.mark.nightly
def test_signals_at_any_moment_end_both_within_the_promised_time(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    settings = small_store(tmp_path / "store")
    record_tried("signals", 8)
    for number in range(8):
        with BrokerProcess(settings.folder, options=WITH_MAINTENANCE) as broker:
            time.sleep(0.4 * number)
            children = psutil.Process(broker.process_id).children()
            broker.signal(signal.SIGINT if number % 2 else signal.SIGTERM)
            assert broker.exit_status(SECONDS_MAX) == 0, broker.log
            assert all(map(is_gone, children)), broker.log
        assert "Traceback" not in broker.log
    assert run("check", "--store", settings.folder).status == 0
