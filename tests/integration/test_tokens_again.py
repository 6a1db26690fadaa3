"""Clients that log in again with tokens while they work, and what is never shown of a token or of a node's secret."""

import re
import sqlite3
import time
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import siltstone
from support.broker.broker_process import BrokerProcess
from support.kafka.raw_kafka import RawConnection
from support.processes.cli import run
from support.processes.tried import RecordTried
from support.security.realm import Realm, called, config_of, running_realm

pytestmark = [pytest.mark.xdist_group("tokens"), pytest.mark.clients, pytest.mark.nightly]

SESSION_MS = 2_000
SECRET = "pl4nted-client-secret"
PLANTED_CLAIM = "pl4nted-claim"


def values_of(realm: Realm, topic: str, count: int) -> list[bytes]:
    """Reads so many records, and looks a second longer whether there are more."""
    config = {**config_of(realm, realm.token()), "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(config)
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    deadline, ends = time.monotonic() + 60, None
    while time.monotonic() < (ends or deadline):
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value() or b"")
        if len(found) == count and ends is None:
            ends = time.monotonic() + 1
    consumer.close()
    return found


def test_sa14_confluent_kafka_logs_in_again_with_new_tokens(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    with running_realm(tmp_path, reauthentication_ms_max=str(SESSION_MS)) as realm:
        tokens: list[str] = []

        def issued(_: Any) -> tuple[str, float, str, dict[str, str]]:
            tokens.append(realm.token(seconds=8, jti=str(len(tokens))))
            return tokens[-1], time.time() + 8, "ada", {}

        assert called(realm, token_file(realm), "topics", "create", "t").status == 0
        producer = confluent_kafka.Producer({**config_of(realm, ""), "oauth_cb": issued})
        deadline, sent = time.monotonic() + 15, 0
        while time.monotonic() < deadline:
            producer.produce("t", b"%d" % sent, partition=0)
            producer.poll(0.02)
            sent += 1
        assert producer.flush(60) == 0
        assert len(tokens) >= 2, "its token was renewed"
        assert values_of(realm, "t", sent) == [b"%d" % number for number in range(sent)]
        assert "has expired, and the client has not logged in again" not in realm.broker.log
        record_tried("records under sessions of two seconds", sent)


def token_file(realm: Realm) -> dict[str, str]:
    file = realm.folder / "token"
    file.write_text(realm.token())
    return {"sasl.oauthbearer.token.file": str(file)}


def test_sa26_a_view_follows_with_tokens_that_are_renewed_in_their_file(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    """Each token lasts four seconds, and so does the session that it opens: the view logs in again several times. With
    the first token it could do so for as long as clocks may differ, 30 s more."""
    with running_realm(tmp_path) as realm:
        settings = token_file(realm)
        file = Path(settings["sasl.oauthbearer.token.file"])
        assert called(realm, settings, "topics", "create", "t").status == 0
        producer = confluent_kafka.Producer(config_of(realm, realm.token()))
        config = {
            "security.protocol": "SASL_SSL", "ssl.ca.location": realm.trusted, "sasl.mechanism": "OAUTHBEARER",
            **settings,
        }  # fmt: skip
        file.write_text(realm.token(seconds=4))
        with siltstone.KeyedView(realm.broker.bootstrap_servers, "t", client_config=config) as view:
            ends, number, latest_s = time.monotonic() + 45, 0, 0.0
            while time.monotonic() < ends:
                file.with_suffix(".new").write_text(realm.token(seconds=4, jti=str(number)))
                file.with_suffix(".new").replace(file)
                sent_s = time.monotonic()
                producer.produce("t", b"%d" % number, b"key", partition=0)
                assert producer.flush(60) == 0
                while view.get(b"key") != b"%d" % number:
                    assert time.monotonic() < sent_s + 10, f"{number} is missing"
                    time.sleep(0.01)
                latest_s = max(latest_s, time.monotonic() - sent_s)
                number += 1
                time.sleep(0.2)
        record_tried("records seen under tokens of four seconds", number)
        record_tried("milliseconds of the longest wait", round(latest_s * 1_000))


@pytest.mark.kafka
def test_sa14_java_logs_in_again_with_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_tried: RecordTried
) -> None:
    from oracles.java_artifacts import JavaArtifactsUnavailable
    from oracles.java_tools import KafkaTools

    with running_realm(tmp_path, reauthentication_ms_max=str(SESSION_MS)) as realm:
        try:
            tools = KafkaTools(realm.broker.bootstrap_servers)
        except JavaArtifactsUnavailable:
            pytest.skip("Java's tools are not to be had")
        place = f"file://{token_file(realm)['sasl.oauthbearer.token.file']}"
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={place}")
        assert called(realm, token_file(realm), "topics", "create", "t").status == 0
        module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
        handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        config = tmp_path / "java.properties"
        config.write_text(
            "security.protocol=SASL_SSL\nssl.truststore.type=PEM\n"
            f"ssl.truststore.location={realm.trusted}\nsasl.mechanism=OAUTHBEARER\n"
            f"sasl.jaas.config={module}\nsasl.login.callback.handler.class={handler}\n"
            f"sasl.oauthbearer.token.endpoint.url={place}\nbootstrap.servers={realm.broker.bootstrap_servers}\n"
        )
        done = tools.run(
            "kafka-producer-perf-test", "--topic", "t", "--num-records", "800", "--throughput", "100",
            "--record-size", "20", "--producer.config", str(config),
        )  # fmt: skip
        assert done.status == 0 and "800 records sent" in done.output, done.output + done.errors
        assert len(values_of(realm, "t", 800)) == 800
        assert "has expired, and the client has not logged in again" not in realm.broker.log
        record_tried("records of Java under sessions of two seconds", 800)


def test_sp01_no_part_of_a_token_is_shown_wherever_it_comes(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    """Tokens that are good, expired, spoilt, and for somebody else; a client secret; the audit has all of it."""
    shown: list[str] = []
    with running_realm(
        tmp_path, "-vv", "--set", "broker.audit=all", "--set", "admin.listeners=127.0.0.1:0"
    ) as realm:
        good = realm.token(note=PLANTED_CLAIM)
        spoilt = [
            realm.token(seconds=-600),
            realm.token(aud="other"),
            good[:-8] + "AAAAAAAA",
            "eyJub3QiOiJ0aGlzIn0.x.y",
        ]
        file = realm.folder / "token"
        for token in (good, *spoilt):
            file.write_text(token)
            outcome = called(realm, {"sasl.oauthbearer.token.file": str(file)}, "topics")
            shown += [outcome.out, outcome.err]
            assert (outcome.status == 0) is (token == good), outcome.err
        of_issuer = {
            "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.token.endpoint.url": f"{realm.url}/token",
            "sasl.oauthbearer.client.id": "loader", "sasl.oauthbearer.client.secret": SECRET,
            "https.ca.location": str(realm.authority.file),
        }  # fmt: skip
        shown += [called(realm, of_issuer, *words).out for words in (("topics",), ("topics", "create", "u"))]
        wrong = called(
            realm, {**of_issuer, "sasl.oauthbearer.token.endpoint.url": f"{realm.url}x/nothing"}, "topics"
        )
        assert wrong.status != 0
        shown += [wrong.out, wrong.err, str(wrong)]
        producer = confluent_kafka.Producer(config_of(realm, good))
        producer.produce("u", b"x")
        assert producer.flush(60) == 0
        with RawConnection(plain_address(realm)) as connection:  # no TLS: what it is told is in the log
            connection.send_bytes(good.encode())
        url = re.search(r"http://[^/\s]+", realm.broker.log)
        assert url is not None
        shown.append(run("clients", "--admin", url[0].removeprefix("http://")).out)
        shown.append(Path(f"/proc/{realm.broker.process_id}/cmdline").read_text())
        time.sleep(12)  # a window of the audit
        shown.append(realm.broker.log)
    shown.append(realm.broker.log)
    parts = {part for token in (good, *spoilt[:3]) for part in token.split(".")[1:]} | {SECRET, PLANTED_CLAIM}
    for text in shown:
        assert not [part for part in parts if part in text]
    files = [each for each in (tmp_path / "store").rglob("*") if each.is_file()]
    for each in files:
        assert not [part for part in parts if part.encode() in each.read_bytes()], each
    assert any(b'"event":"login"' in each.read_bytes() for each in files), "the audit was written"
    record_tried("files and texts without a token", len(files) + len(shown))


def plain_address(realm: Realm) -> tuple[str, int]:
    host, _, port = realm.broker.bootstrap_servers.rpartition(":")
    return host, int(port)


def test_sp01_the_secret_of_a_node_stands_beside_the_metadata_and_nowhere_else(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    folder = tmp_path / "store"
    options = ("-vv", "--set", "broker.audit=all", "--set", "admin.listeners=127.0.0.1:0")
    with BrokerProcess(folder, options=options) as broker:
        before = secrets_of(folder)
        shown = [str(run("nodes", "--store", folder, *words)) for words in ((), ("--json",))]
        changed = run("nodes", "new-secrets", "--store", folder)
        assert changed.status == 0, changed.err
        secrets = before | secrets_of(folder)
        assert len(secrets) == 2
        url = re.search(r"http://[^/\s]+", broker.log)
        assert url is not None
        shown += [str(run(*words)) for words in (("clients", "--admin", url[0].removeprefix("http://")),)]
        shown += [str(changed), Path(f"/proc/{broker.process_id}/cmdline").read_text(), broker.log]
    shown.append(broker.log)
    for text in shown:
        assert not [secret for secret in secrets if secret in text]
    files = [each for each in folder.rglob("*") if each.is_file() and "-leases" not in each.name]
    for each in files:
        held = each.read_bytes()
        assert not [
            secret for secret in secrets if secret.encode() in held or bytes.fromhex(secret) in held
        ], each
    record_tried("files and texts without a secret of a node", len(files) + len(shown))


def secrets_of(folder: Path) -> set[str]:
    with sqlite3.connect(f"file:{folder / 'metadata.sqlite-leases'}?mode=ro", uri=True) as board:
        return {secret for (secret,) in board.execute("SELECT secret FROM node_secrets")}
