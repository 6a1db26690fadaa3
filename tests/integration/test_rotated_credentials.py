"""Credentials of the bucket and of the metadata database are rotated under load, without a restart."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Producer

from support.broker.broker_process import SILTSTONE, BrokerProcess
from support.engine.s3_server import S3Server, running_s3_server
from support.kafka.quiet_client import QUIET
from support.metadata.postgres_server import PostgresServer, running_postgres_server
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.s3, pytest.mark.postgres]

OLD, NEW = ("old-key", "old-secret-for-tests"), ("new-key", "new-secret-for-tests")
SOON = {"engine.upload.cache_block_age_ms_max": "100ms"}
RECORDS_AFTER = 300
"""So many records are acknowledged after each rotation: uploads and commits have gone on by then."""


def server_accepts(file: Path, key: tuple[str, str]) -> None:
    access, secret = key
    credentials = [{"accessKey": access, "secretKey": secret}]
    file.write_text(
        json.dumps({"identities": [{"name": "tests", "credentials": credentials, "actions": ["Admin"]}]})
    )


def broker_has(file: Path, key: tuple[str, str]) -> None:
    access, secret = key
    draft = file.with_suffix(".new")
    draft.write_text(f"[default]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\n")
    draft.replace(file)


class Load:
    """A producer that sends until it is ended; counts what was acknowledged."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.acknowledged = 0
        self.failures: list[str] = []
        self._changed = threading.Condition()
        self._is_ended = False
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 1, **QUIET})
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        while not self._is_ended:
            self._producer.produce("t", b"x" * 200, on_delivery=self._delivered)
            self._producer.poll(0.005)
        self._producer.flush(60)

    def _delivered(self, error: object, _: object) -> None:
        with self._changed:
            if error is None:
                self.acknowledged += 1
            else:
                self.failures.append(str(error))
            self._changed.notify_all()

    def goes_on(self) -> None:
        with self._changed:
            wanted = self.acknowledged + RECORDS_AFTER
            assert self._changed.wait_for(lambda: self.acknowledged >= wanted or self.failures, 120)
        assert not self.failures, self.failures

    def end(self) -> None:
        self._is_ended = True
        self._thread.join()


@contextmanager
def loaded(broker: BrokerProcess) -> Iterator[Load]:
    load = Load(broker)
    try:
        load.goes_on()
        yield load
    finally:
        load.end()


@contextmanager
def keyed_bucket(folder: Path) -> Iterator[tuple[S3Server, Path, Path]]:
    """An S3 server that accepts OLD, the file of what it accepts, and the file of a broker, which has OLD."""
    identities, own = folder / "identities.json", folder / "credentials"
    server_accepts(identities, OLD)
    broker_has(own, OLD)
    # The patch ends before the server does, which puts back the keys that this process had before it.
    with (
        running_s3_server(f"-s3.config={identities}", keys=OLD) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.delenv(name)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(own))
        yield server, identities, own


def server_takes_only(server: S3Server, identities: Path, key: tuple[str, str]) -> None:
    server.kill()
    server_accepts(identities, key)
    server.start(keys=key)


def assert_sound(folder: Path, options: list[str]) -> None:
    command = [str(SILTSTONE), "check", "--store", str(folder), *options]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.nightly
def test_a_rotated_key_of_the_bucket_is_taken_from_its_file_under_load(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    record_tried("rotated keys of a bucket", 1)
    with keyed_bucket(tmp_path) as (server, identities, own):
        options = ["--bucket", server.new_url()]
        with BrokerProcess(tmp_path / "store", SOON, options=options, environment=dict(os.environ)) as broker:
            with loaded(broker) as load:
                broker_has(own, NEW)
                load.goes_on()
                server_takes_only(server, identities, NEW)
                load.goes_on()
            assert "InvalidAccessKeyId" not in broker.log
            assert broker.stop() == 0, broker.log
        assert_sound(tmp_path / "store", options)


@pytest.mark.nightly
def test_ro06_while_the_bucket_refuses_the_key_appends_continue_and_a_new_key_is_taken_by_itself(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    record_tried("expired keys of a bucket", 1)
    folder = tmp_path / "store"

    with keyed_bucket(tmp_path) as (server, identities, own):
        options = ["--bucket", server.new_url()]
        with BrokerProcess(folder, SOON, options=options, environment=dict(os.environ)) as broker:
            with loaded(broker) as load:
                server_takes_only(server, identities, NEW)
                deadline = time.monotonic() + 120
                while "credentials" not in broker.log:
                    assert time.monotonic() < deadline, broker.log
                    load.goes_on()
                refused = len(broker.log)
                broker_has(own, NEW)
                while " uploads to s3://" not in broker.log[refused:]:
                    assert time.monotonic() < deadline, broker.log
                    load.goes_on()
            assert broker.stop() == 0, broker.log
        assert_sound(folder, options)


def test_ro05_a_rotated_password_of_the_database_is_taken_from_its_file_under_load(tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"

    def broker_has_password(word: str) -> None:
        draft = passwords.with_suffix(".new")
        draft.touch(mode=0o600)
        draft.write_text(f"*:*:*:siltstone:{word}\n")
        draft.replace(passwords)

    with running_postgres_server() as server:
        server.sql("CREATE ROLE siltstone LOGIN PASSWORD 'old'")
        server.sql("GRANT CREATE ON DATABASE postgres TO siltstone")
        rules = server.data / "pg_hba.conf"
        rules.write_text(f"host all siltstone 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        server.sql("SELECT pg_reload_conf()")
        broker_has_password("old")
        url = f"{server.tcp_url('rotated', user='siltstone')}&passfile={passwords}"
        options = ["--metadata", url]
        with BrokerProcess(tmp_path / "store", SOON, options=options) as broker:
            with loaded(broker) as load:
                rotate_password(server, "new")
                broker_has_password("new")
                load.goes_on()
                end_sessions(server)
                load.goes_on()
            assert broker.stop() == 0, broker.log
            assert "password authentication failed" not in broker.log
            assert "fenced" not in broker.log, "its life goes on over the lost connection"


def rotate_password(server: PostgresServer, word: str) -> None:
    server.sql(f"ALTER ROLE siltstone PASSWORD '{word}'")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(
            host="127.0.0.1", port=server.port, user="siltstone", password="old", dbname="postgres"
        )


def end_sessions(server: PostgresServer) -> None:
    """Sessions that were begun with the old password end, as at a restart or a failover of the server."""
    ended = server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'siltstone'")
    assert len(ended) >= 1
