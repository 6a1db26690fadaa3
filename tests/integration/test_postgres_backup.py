"""A dump of the metadata in PostgreSQL, restored beside the bucket: it continues, or it is older and is refused."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import siltstone
from support.broker.broker_process import SILTSTONE, BrokerProcess
from support.metadata.postgres_server import PostgresServer, find_programs, running_postgres_server

pytestmark = pytest.mark.postgres

SECONDS_MAX = 120


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_postgres_server() as server:
        yield server


def run(*command: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, input=typed, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )


class Database:
    """The schema of one store, which is dumped, dropped and restored as an operator would."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.schema = server.new_schema()
        self.url = server.tcp_url(self.schema)

    def _program(self, name: str, *options: str) -> None:
        programs = find_programs()
        assert programs is not None
        at = ["-h", "127.0.0.1", "-p", str(self.server.port), "-U", "postgres", "-d", "postgres"]
        done = run(str(programs / name), *at, *options)
        assert done.returncode == 0, done.stderr

    def dump(self, file: Path) -> None:
        self._program("pg_dump", f"--schema={self.schema}", "--format=custom", f"--file={file}")

    def restore(self, file: Path) -> None:
        self.server.sql(f"DROP SCHEMA {self.schema} CASCADE")
        self._program("pg_restore", "--exit-on-error", str(file))


def send(store: Path, url: str, word: str) -> None:
    with BrokerProcess(store, options=["--metadata", url]) as broker:
        sent = run(
            str(SILTSTONE), "produce", "t", "--create", "-b", broker.bootstrap_servers, typed=f"{word}\n"
        )
        assert sent.returncode == 0, sent.stderr
        assert broker.stop() == 0, broker.log


@pytest.mark.nightly(tried="backups")
def test_a_dump_beside_a_bucket_that_was_not_written_since_continues(
    server: PostgresServer, tmp_path: Path
) -> None:
    store, file, database = tmp_path / "store", tmp_path / "dump", Database(server)
    send(store, database.url, "one")
    database.dump(file)
    database.restore(file)
    checked = run(str(SILTSTONE), "check", "--store", str(store), "--metadata", database.url)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    send(store, database.url, "two")
    with BrokerProcess(store, options=["--metadata", database.url]) as broker:
        options = ["-b", broker.bootstrap_servers, "--from", "earliest", "--until-end"]
        read = run(str(SILTSTONE), "tail", "t", *options)
        assert read.stdout.count("one") == 1 and read.stdout.count("two") == 1, read.stdout + read.stderr


def test_a_dump_that_is_older_than_the_bucket_is_refused_and_deletes_nothing(
    server: PostgresServer, tmp_path: Path
) -> None:
    store, file, database = tmp_path / "store", tmp_path / "dump", Database(server)
    send(store, database.url, "one")
    database.dump(file)
    send(store, database.url, "two")
    before = {each: each.stat().st_size for each in (store / "bucket").rglob("*") if each.is_file()}
    database.restore(file)
    options = ["--store", str(store), "--metadata", database.url, "--listener", "127.0.0.1:0"]
    refused = run(str(SILTSTONE), "serve", *options)
    assert refused.returncode not in (0, 130) and "older" in refused.stderr, refused.stderr
    after = {each: each.stat().st_size for each in (store / "bucket").rglob("*") if each.is_file()}
    assert after == before


def test_a_store_in_postgresql_is_backed_up_beside_its_broker_and_restored_into_a_file(
    tmp_path: Path, server: PostgresServer
) -> None:
    """OP01 with PostgreSQL: the copy is consistent, and the restored store needs no database."""
    database = Database(server)
    store, backup, restored = tmp_path / "store", tmp_path / "backup", tmp_path / "restored"
    send(store, database.url, "one")
    send(store, database.url, "two")
    with BrokerProcess(store, options=["--metadata", database.url]):
        made = run(str(SILTSTONE), "backup", str(backup), "--store", str(store), "--metadata", database.url)
        assert made.returncode == 0, made.stderr
    done = run(str(SILTSTONE), "restore", str(backup), "--store", str(restored))
    assert done.returncode == 0 and "1 topic" in done.stdout, done
    clean = run(str(SILTSTONE), "check", "--store", str(restored))
    assert clean.returncode == 0 and "clean" in clean.stdout, clean
    with BrokerProcess(restored) as broker:
        sent = run(str(SILTSTONE), "produce", "t", "-b", broker.bootstrap_servers, typed="three\n")
        assert sent.returncode == 0, sent
    rows = siltstone.scan("t", store=restored, tail="committed", lease="0", value="string").to_arrow()
    assert rows["value"].to_pylist() == ["one", "two", "three"]


def test_the_metadata_in_postgresql_are_tables_now_and_as_they_were(
    tmp_path: Path, server: PostgresServer
) -> None:
    database = Database(server)
    send(tmp_path / "store", database.url, "one")
    tables = siltstone.metadata(database.url)
    assert [row["topic"] for row in tables.topics.rows(["topic"]) if row["topic"] == "t"] == ["t"]
    created = next(row["version"] for row in tables.log.rows() if row["record"] == "TopicCreated")
    assert siltstone.metadata(database.url, version=created - 1).topics.rows(topic="t") == []
    assert len(siltstone.metadata(database.url, version=created).topics.rows(topic="t")) == 1
