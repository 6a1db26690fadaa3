"""What Spark writes and shows about a read and a write whose options have a secret: its event log and its pages, which
have the plans."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import siltstone
from support.processes.cli import run
from support.processes.tried import RecordTried
from support.security.realm import config_of, running_realm

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(900)]

PLANTED = "pl4nted-pa55word"
PROGRAM = """
import sys
import urllib.request
from pathlib import Path

from siltstone.spark.starting import LIGHT_JVM, start_session

store, events, *words = sys.argv[1:]
options = {f"kafka.{name}": value for name, _, value in (word.partition("=") for word in words)}
logged = {"spark.eventLog.enabled": "true", "spark.eventLog.compress": "false", "spark.eventLog.dir": f"file://{events}"}
shown = {"spark.ui.enabled": "true", "spark.ui.port": "0"}
spark = start_session("local[1]", "event log", settings={**LIGHT_JVM, **logged, **shown})
place = {"store": store, **options}
frame = spark.read.format("siltstone").options(subscribe="t", **place).load()
assert [bytes(row.value) for row in frame.collect()] == [b"x"]
frame.createOrReplaceTempView("read")
assert spark.sql("SELECT count(*) FROM read").collect()[0][0] == 1
rows = spark.createDataFrame([(b"a",)], ["value"])
rows.write.format("siltstone").mode("append").options(topic="t", **place).save()
of_application = f"api/v1/applications/{spark.sparkContext.applicationId}"
pages = ["jobs/", "stages/", "environment/", "executors/", "SQL/", *(f"SQL/execution/?id={each}" for each in range(3)),
         f"{of_application}/environment", f"{of_application}/sql?details=true&planDescription=true"]
for number, page in enumerate(pages):
    with urllib.request.urlopen(f"{spark.sparkContext.uiWebUrl}/{page}", timeout=60) as answer:
        Path(events, f"page-{number}").write_bytes(answer.read())
spark.stop()
"""


def written_and_shown(store: Path, events: Path, config: Mapping[str, str]) -> bytes:
    """Runs the program. Returns the events that Spark wrote, its pages, and what the program printed."""
    events.mkdir()
    words = [f"{name}={value}" for name, value in config.items()]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(store), str(events), *words],
        capture_output=True, check=False, env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    written = b"".join(each.read_bytes() for each in events.rglob("events_*"))
    assert b"SparkListenerSQLExecutionStart" in written
    pages = b"".join(each.read_bytes() for each in events.glob("page-*"))
    assert b"siltstone" in pages, "the plan of the read"
    return written + pages + done.stdout + done.stderr


def produce_one(config: Mapping[str, Any]) -> None:
    producer = confluent_kafka.Producer({**config, "log_level": 0})
    producer.produce("t", b"x")
    assert producer.flush(60) == 0


def test_sp01_the_event_log_and_pages_of_a_read_and_a_write_have_no_password(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    with siltstone.Broker(tmp_path / "store", tls=True, users={"ada": PLANTED}) as broker:
        broker.create_topic("t", partitions=1)
        produce_one(broker.client_config())
        told = written_and_shown(broker.folder, tmp_path / "events", broker.client_config())
    assert PLANTED.encode() not in told
    record_tried("bytes of events and pages", len(told))


def test_sp01_nor_a_token_nor_what_it_was_issued_for_nor_the_secret_of_a_node(
    tmp_path: Path, record_tried: RecordTried, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens: list[str] = []
    with running_realm(tmp_path) as realm:
        issue = realm.issuer.token

        def recorded(*given: Any, **claims: Any) -> str:
            tokens.append(issue(*given, **claims))
            return tokens[-1]

        monkeypatch.setattr(realm.issuer, "token", recorded)
        produce_one(config_of(realm, realm.token()))
        assert run("nodes", "listener", "SASL_SSL", "--store", tmp_path / "store").status == 0
        of_issuer = {
            "bootstrap.servers": realm.broker.bootstrap_servers, "security.protocol": "SASL_SSL",
            "ssl.ca.location": realm.trusted, "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": f"{realm.url}/token", "sasl.oauthbearer.client.id": "loader",
            "sasl.oauthbearer.client.secret": PLANTED, "https.ca.location": str(realm.authority.file),
        }  # fmt: skip
        told = written_and_shown(tmp_path / "store", tmp_path / "events", of_issuer)
        with sqlite3.connect(tmp_path / "store" / "metadata.sqlite-leases") as leases:
            of_nodes = [str(secret) for (secret,) in leases.execute("SELECT secret FROM node_secrets")]
    assert realm.issued > 0 and len(of_nodes) == 1
    for secret in (PLANTED, *(token.rpartition(".")[2] for token in tokens), *of_nodes):
        assert secret.encode() not in told
    record_tried("tokens", len(tokens))
