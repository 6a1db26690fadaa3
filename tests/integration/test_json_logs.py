"""OB07: with ``--log-format json`` everything on stderr is one JSON object per line, whatever happens to the broker."""

import json
import re
import socket
import subprocess
from pathlib import Path

from support.broker.broker_process import SILTSTONE, BrokerProcess
from support.engine.small_store import small_store
from support.kafka.raw_calls import batch_of, create_topic, produce_well
from support.kafka.raw_kafka import RawConnection

SECONDS_MAX = 60


def objects_in(text: str) -> list[dict[str, str]]:
    found = [json.loads(line) for line in text.splitlines()]
    assert all({"ts", "level", "logger", "message"} <= each.keys() for each in found)
    return found


def test_ob07_a_broker_from_its_start_to_its_end(tmp_path: Path) -> None:
    options = ("--log-format", "json", "-vv")
    with BrokerProcess(tmp_path / "store", {"admin.listeners": "127.0.0.1:0"}, options=options) as broker:
        with socket.create_connection(broker.address) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert connection.recv(1) == b""
        with RawConnection(broker.address) as client:
            produce_well(client, create_topic(client, "t"), batch_of())
        broker.kill()
        broker.start()
        assert broker.stop() == 0
    found = objects_in(broker.log)
    said = [each["message"] for each in found if each["logger"] == "siltstone.cli"]
    assert said[0].startswith("created a new store") and said[-1].startswith("stopping")
    assert {"debug", "info", "warning"} <= {each["level"] for each in found}
    told = "\n".join(each["message"] for each in found if each["level"] == "info")
    assert "topic t was created: 1 partition\n" in told
    assert re.search(
        r"^recovered the write-ahead log: \d+ B uploaded and committed, 0 batches skipped", told, re.M
    )
    assert re.search(r"^uploaded and committed 1 object, \d+ B of \d streams?, in ", told, re.M)


def test_ob07_a_failure_and_a_maintenance_service(tmp_path: Path) -> None:
    settings = small_store(tmp_path / "store")
    command = [
        str(SILTSTONE),
        "maintain",
        "serve",
        "--once",
        "--json",
        "--runner",
        "in-process",
        "--log-format",
        "json",
    ]
    done = subprocess.run(
        [*command, "--store", str(settings.folder)],
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS_MAX,
    )
    assert json.loads(done.stdout)["kinds"]
    said = [each["message"] for each in objects_in(done.stderr)]
    assert said[0].startswith("Maintenance is running") and any("1 of 1 done" in each for each in said)
    failed = subprocess.run(
        [*command, "--store", str(tmp_path / "none")],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    (failure,) = objects_in(failed.stderr)
    assert (
        failed.returncode == 2 and failure["level"] == "error" and "there is no store" in failure["message"]
    )
