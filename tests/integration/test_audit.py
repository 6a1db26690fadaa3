"""The audit as people use it: a broker with a login, a real client, commands beside it, and the topic as a table."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import siltstone
from siltstone.model.audit import AUDIT_TOPIC, AuditLevel
from siltstone.server.settings.node import load_node_settings
from support.engine.small_store import small_store
from support.kafka.quiet_client import QUIET
from support.pages.documents import ROOT, blocks
from support.processes.cli import run
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.clients, pytest.mark.xdist_group("tls")]

PASSWORD = "pl4nted-password"
PAGE = ROOT / "docs" / "audit.md"
RUN = (SETTINGS,) = blocks(PAGE, "toml")
SECONDS_MAX = 60


def test_au03_the_page_has_settings_that_are_taken(tmp_path: Path) -> None:
    folder = small_store(tmp_path / "store").folder
    (folder / "siltstone.toml").write_text(SETTINGS)
    assert load_node_settings(folder).broker.audit is AuditLevel.ALL


def read(config: dict[str, str], enough: Callable[[list[Any]], bool]) -> list[Any]:
    consumer = Consumer({**config, **QUIET, "group.id": "auditors", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(AUDIT_TOPIC, index, 0) for index in range(8)])
    found: list[Any] = []
    deadline = time.monotonic() + SECONDS_MAX
    while not enough(found):
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(json.loads(message.value() or b""))
        assert time.monotonic() < deadline, found
    consumer.close()
    return found


def test_au03_who_did_what_is_read_by_whoever_may() -> None:
    settings = {"broker.audit": "changes"}
    with siltstone.Broker(users={"root": PASSWORD, "ada": PASSWORD}, settings=settings) as broker:
        config = broker.client_config("root")
        admin = AdminClient({**config, **QUIET})
        admin.create_topics([NewTopic("flights", 1, 1)])["flights"].result(SECONDS_MAX)
        read(config, lambda found: any(each["event"] == "topic" for each in found))
        at = ("--store", broker.folder)
        assert run("authorization", "on", "--super-user", "root", *at).status == 0
        assert run("acls", "add", "ada", "read", "--group", "g", *at).status == 0
        found = read(config, lambda found: any(each["event"] == "mode" for each in found))
        by_event = {each["event"]: each for each in found}
        assert by_event["topic"]["principal"] == "User:root" and by_event["topic"]["host"] == "127.0.0.1"
        assert by_event["mode"]["principal"].startswith("OS:")
        assert PASSWORD not in json.dumps(found)
        denied = Consumer({**broker.client_config("ada"), **QUIET, "group.id": "g"})
        denied.subscribe([AUDIT_TOPIC])
        deadline = time.monotonic() + SECONDS_MAX
        while (message := denied.poll(0.2)) is None or "TOPIC_AUTHORIZATION_FAILED" not in str(
            message.error()
        ):
            assert time.monotonic() < deadline
        denied.close()
        with pytest.raises(KafkaException, match="INVALID_REQUEST"):
            admin.delete_topics([AUDIT_TOPIC])[AUDIT_TOPIC].result(SECONDS_MAX)


@pytest.mark.nightly
def test_au03_the_audit_is_a_table(record_tried: RecordTried) -> None:
    with siltstone.Broker(settings={"broker.audit": "changes"}) as broker:
        admin = AdminClient({**broker.client_config(), **QUIET})
        admin.create_topics([NewTopic("flights", 1, 1)])["flights"].result(SECONDS_MAX)
        read(broker.client_config(), bool)
        words = ("siltstone.table.format=iceberg", "siltstone.table.value=json")
        columns = "siltstone.table.columns=time string, event string, resource string, principal string"
        told = run(
            "topics", "configure", AUDIT_TOPIC, *words, columns, "--bootstrap", broker.bootstrap_servers
        )
        assert told.status == 0, told.err
        broker.flush()
        made = run("maintain", "run", "--kind", "table-export", "--force", "--store", broker.folder)
        assert made.status == 0, made.err
        shown = run("tables", "--store", broker.folder)
        assert AUDIT_TOPIC in shown.words, shown.words
        record_tried("tables of the audit", 1)
