"""A broker whose bucket hangs says so, though no request has failed yet, and says when it answers again."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.server.admin.exposition import TextFormat
from support.broker.broker_process import SILTSTONE, BrokerProcess
from support.kafka.raw_calls import batch_of, create_topic, produce_well
from support.kafka.raw_kafka import Address, RawConnection
from support.metrics.scraping import http_get, scrape, value_of
from support.processes.ports import free_ports

SECONDS_MAX = 60.0
TESTS = Path(__file__).parents[1]


def wait_until(holds: Callable[[], object], broker: BrokerProcess) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, broker.log
        time.sleep(0.02)


def hanging_broker(tmp_path: Path, settings: dict[str, str], **variables: str) -> BrokerProcess:
    """A broker whose bucket hangs while the file ``hangs`` exists."""
    folder, hangs = tmp_path / "store", tmp_path / "hangs"
    program = (sys.executable, "-m", "support.faults.hanging_serve", str(folder / "bucket"), str(hangs))
    environment = os.environ | {"PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}"} | variables
    return BrokerProcess(folder, settings, program=program, environment=environment)


def readiness(admin: Address) -> tuple[int, str]:
    status, _, text = http_get(admin, "/readyz")
    return status, text


def test_a_partition_that_cannot_be_opened_is_in_readiness_metrics_log_and_before_the_producer(
    tmp_path: Path,
) -> None:
    hangs, lines = tmp_path / "hangs", tmp_path / "lines"
    lines.write_text("one\n")
    admin = "127.0.0.1", free_ports(1)[0]
    with hanging_broker(tmp_path, {"admin.listeners": f"127.0.0.1:{admin[1]}"}) as broker:
        with RawConnection(broker.address) as client:
            produce_well(client, create_topic(client, "t"), batch_of())
        assert broker.stop(SECONDS_MAX) == 0
        broker.start()
        assert readiness(admin) == (200, "ok\n")
        hangs.touch()
        command = [str(SILTSTONE), "produce", "t", str(lines), "-b", broker.bootstrap_servers]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as producing:
            wait_until(lambda: readiness(admin)[0] == 503, broker)
            said = readiness(admin)[1]
            assert re.search(
                r"1 partition cannot be opened for \d+\.\d s, because file://\S+ does not answer", said
            )
            assert value_of(scrape(admin, TextFormat.PROMETHEUS), "siltstone_appends_waiting") == 1
            wait_until(lambda: "requests wait: 1 partition" in broker.log, broker)
            assert producing.stderr is not None
            assert "has acknowledged nothing for 8." in producing.stderr.readline()
            hangs.unlink()
            assert producing.wait(SECONDS_MAX) == 0
        wait_until(lambda: readiness(admin)[0] == 200, broker)
        wait_until(lambda: "that requests waited for are open" in broker.log, broker)
        assert value_of(scrape(admin, TextFormat.PROMETHEUS), "siltstone_appends_waiting") == 0


def test_an_upload_that_hangs_is_an_outage_though_no_request_has_failed(tmp_path: Path) -> None:
    hangs = tmp_path / "hangs"
    admin = "127.0.0.1", free_ports(1)[0]
    settings = {"admin.listeners": f"127.0.0.1:{admin[1]}", "engine.upload.cache_block_age_ms_max": "50ms"}
    with hanging_broker(tmp_path, settings, UPLOAD_HANGS_MS="6000") as broker:
        with RawConnection(broker.address) as client:
            topic = create_topic(client, "t")
            hangs.touch()
            produce_well(client, topic, batch_of())

        def outage() -> float:
            return value_of(scrape(admin, TextFormat.PROMETHEUS), "siltstone_upload_outage")

        wait_until(outage, broker)
        assert re.search(r"cannot upload to file://\S+ and tries again: no answer for \d+\.\d s", broker.log)
        hangs.unlink()
        wait_until(lambda: not outage(), broker)
        assert "uploads to file://" in broker.log and "again, after" in broker.log


@pytest.mark.nightly(tried="silent buckets")
def test_a_bucket_that_hangs_is_said_and_its_return_too(tmp_path: Path) -> None:
    folder, hangs = tmp_path / "store", tmp_path / "hangs"
    program = (sys.executable, "-m", "support.faults.hanging_serve", str(folder / "bucket"), str(hangs))
    settings = {"engine.upload.cache_block_age_ms_max": "50ms"}
    environment = os.environ | {"PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}"}
    with BrokerProcess(folder, settings, program=program, environment=environment) as broker:
        with RawConnection(broker.address) as client:
            topic = create_topic(client, "t")
            hangs.touch()
            produce_well(client, topic, batch_of())
        wait_until(lambda: "has not answered for" in broker.log, broker)
        hangs.unlink()
        wait_until(lambda: "answers again, after" in broker.log, broker)
        assert broker.stop(SECONDS_MAX) == 0
    said = [line for line in broker.log.splitlines() if f"bucket {(folder / 'bucket').as_uri()} " in line]
    assert len(said) == 2, broker.log
    assert re.search(r"has not answered for \d+\.\d s: \w+ .*\(no answer to the first attempt\)", said[0]), (
        said
    )
