"""RO02: the rows of the table of rotations, each while clients produce: no delivery fails, and the old secret is void.

Certificates have TL05, the metadata database RO05, and the bucket RO06.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.asymmetric import rsa

import siltstone
from support.broker.cluster_clients import until
from support.broker.rolling_cluster import PARTITIONS, SteadyProducer, everything
from support.kafka.quiet_client import QUIET
from support.processes.cli import run
from support.processes.tried import RecordTried
from support.security.realm import Realm, called, config_of, running_realm

pytestmark = [
    pytest.mark.clients, pytest.mark.nightly, pytest.mark.xdist_group("tokens"), pytest.mark.timeout(300),
]  # fmt: skip

SESSION_MS = "2000"
"""So short that the producers log in many times under each secret."""

RENEWED_S = 5
"""When a client takes its tokens for old. They last longer: with less than a second left of a token a client logs in
again sooner than brokers allow, Kafka's as well."""


@contextmanager
def produced(config: dict[str, Any], reading: dict[str, Any]) -> Iterator[SteadyProducer]:
    """A producer into the partitions of the topic ``t``. Each of its records is there once at the end; ``reading``
    changes the settings for the reader."""
    producer = SteadyProducer(config)
    try:
        yield producer
    finally:
        producer.stop()
    assert producer.failures == []
    found = everything({**config, **reading}, producer.next_number)
    assert sorted(found) == [*range(producer.next_number)], "each once"


def token_file(realm: Realm, token: str) -> dict[str, str]:
    file = realm.folder / "token"
    file.write_text(token)
    return {"sasl.oauthbearer.token.file": str(file)}


def takes(realm: Realm, token: str) -> bool:
    return bool(called(realm, token_file(realm, token), "topics").status == 0)


def test_ro02_the_keys_of_an_issuer_change_and_old_tokens_are_void(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    """A key set with both keys, tokens by the new one, and a key set without the old one."""
    with running_realm(tmp_path, reauthentication_ms_max=SESSION_MS) as realm:
        key_id, issued = "one", dict[str, int]()

        def callback(_: object) -> tuple[str, float, str, dict[str, str]]:
            issued[key_id] = issued.get(key_id, 0) + 1
            token = realm.token(key_id=key_id, seconds=60, jti=str(issued))
            return token, time.time() + RENEWED_S, "ada", {}

        made = called(
            realm, token_file(realm, realm.token()), "topics", "create", "t", "--partitions", str(PARTITIONS)
        )
        assert made.status == 0, made.err
        config = {**config_of(realm, ""), **QUIET, "oauth_cb": callback}
        with produced(config, {}) as producer:
            old = realm.token()
            until(lambda: issued.get("one", 0) >= 2, "tokens by the old key", 60)
            realm.issuer.add("two", rsa.generate_private_key(65_537, 2_048), "RS256")
            realm.broker.signal(signal.SIGHUP)
            until(lambda: takes(realm, realm.token(key_id="two")), "the new key is taken", 60)
            assert takes(realm, old), "both keys count"
            key_id = "two"
            until(lambda: issued.get("two", 0) >= 2, "tokens by the new key", 60)
            del realm.issuer.keys["one"]
            realm.broker.signal(signal.SIGHUP)
            until(lambda: not takes(realm, old), "the old key is void", 60)
            producer.has_produced(200)
            record_tried("records while keys change", producer.next_number)


def test_ro02_a_password_changes_and_the_old_one_is_void(record_tried: RecordTried) -> None:
    """Sessions that are open last; a program with the old password is restarted with the new one; then the others are
    ended."""
    with siltstone.Broker(tls=True, users={"ada": "pencil"}) as broker:
        broker.create_topic("t", partitions=PARTITIONS)
        config = {**broker.client_config("ada"), **QUIET}
        changed = config | {"sasl.password": "crayon"}
        with produced(config, changed) as producer:
            producer.has_produced(100)
            command("users", "password", "ada", "--password-file", "-", broker=broker, stdin=b"crayon")
            until(lambda: not logs_in(config), "the old password is void", 60)
            producer.has_produced(100)
            assert producer.failures == [], "its session lasts"
            producer.move(changed)
            command("users", "end-sessions", "ada", broker=broker)
            producer.has_produced(200)
            record_tried("records while a password changes", producer.next_number)


def test_ro02_nodes_make_new_secrets(record_tried: RecordTried) -> None:
    """What nodes ask each other is asked again."""
    with siltstone.Broker(nodes=3) as broker:
        broker.create_topic("t", partitions=PARTITIONS)
        with produced({**broker.client_config(), **QUIET}, {}) as producer:
            for _ in range(3):
                producer.has_produced(100)
                command("nodes", "new-secrets", broker=broker)
            producer.has_produced(200)
            record_tried("records while nodes make secrets", producer.next_number)


def command(*words: str, broker: siltstone.Broker, stdin: bytes = b"") -> None:
    done = run(*words, "--store", broker.folder, stdin=stdin)
    assert done.status == 0, done.err


def logs_in(config: dict[str, Any]) -> bool:
    try:
        AdminClient(config).list_topics(timeout=2)
    except confluent_kafka.KafkaException:
        return False
    return True
