"""A whole store with its metadata in PostgreSQL: a broker, its clients, the commands, and a server that is gone."""

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from support.broker.broker_process import BrokerProcess
from support.metadata.postgres_server import PostgresServer, running_postgres_server
from support.processes.cli import assert_one_line, run
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.postgres, pytest.mark.crash]

PASSWORD = "s3cret-of-the-database"
TOPIC = "flights"
SLACK_SECONDS = 10
"""For a machine that is busy: what waits for the silent server waits for ever."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this module's own, which one test kills. It takes any password."""
    with running_postgres_server() as server:
        yield server


def url_of(server: PostgresServer) -> str:
    return server.tcp_url(server.new_schema(), user=f"postgres:{PASSWORD}")


def produce(at: str, *values: str) -> None:
    text = "".join(f"{value}\n" for value in values).encode()
    assert run("produce", TOPIC, stdin=text, SILTSTONE_BOOTSTRAP=at).status == 0


def consumed(at: str) -> list[str]:
    outcome = run("tail", TOPIC, "--from", "earliest", "--until-end", "--json", SILTSTONE_BOOTSTRAP=at)
    assert outcome.status == 0, outcome
    return sorted(msgspec.json.decode(line)["value"] for line in outcome.out.splitlines())


def test_p06_a_broker_and_the_commands_on_postgresql_which_is_killed_meanwhile(
    server: PostgresServer, tmp_path: Path
) -> None:
    url = url_of(server)
    folder = tmp_path / "store"
    with BrokerProcess(folder, {"metadata": url}) as broker:
        at = broker.bootstrap_servers
        made = run("topics", "create", TOPIC, "--partitions", 1, SILTSTONE_BOOTSTRAP=at)
        assert made.status == 0, made
        produce(at, "before")
        server.kill()
        produce(at, "meanwhile")
        server.start()
        produce(at, "after")
        assert consumed(at) == ["after", "before", "meanwhile"]
        assert broker.stop() == 0, broker.log
        assert PASSWORD not in broker.log and "Traceback" not in broker.log
    assert not (folder / "metadata.sqlite").exists()
    places = ("--store", folder, "--metadata", url)
    streams = run("streams", *places, "--json").json["streams"]
    assert len(streams) >= 2 and all(row["state"] == "CLOSED" for row in streams)
    assert run("check", *places).status == 0


@pytest.mark.nightly
def test_p12_a_broker_takes_appends_and_ends_in_its_time_while_the_server_is_silent(
    server: PostgresServer, tmp_path: Path, record_tried: RecordTried
) -> None:
    """Rule 12. What could not be committed is in the write-ahead log, and the next start commits it."""
    settings = {
        "metadata": url_of(server), "engine.close_time_limit_ms": "1500", "network.close_time_limit_ms": "1000",
    }  # fmt: skip
    with BrokerProcess(tmp_path / "store", settings) as broker:
        at = broker.bootstrap_servers
        assert run("topics", "create", TOPIC, "--partitions", 1, SILTSTONE_BOOTSTRAP=at).status == 0
        produce(at, "before")
        with server.silent():
            produce(at, "meanwhile")
            begun = time.monotonic()
            assert broker.stop() == 3, broker.log
            assert time.monotonic() - begun < 2.5 + SLACK_SECONDS
    with BrokerProcess(tmp_path / "store", settings) as broker:
        assert consumed(broker.bootstrap_servers) == ["before", "meanwhile"]
    record_tried("brokers stopped while PostgreSQL was silent", 1)


@pytest.mark.parametrize("command", ["streams", "check"])
def test_p15_a_store_that_is_not_there_is_one_line_without_the_password(
    server: PostgresServer, tmp_path: Path, command: str
) -> None:
    missing = run(command, "--store", tmp_path, "--metadata", url_of(server))
    assert_one_line(missing, 2, "there is no store at", "postgres:****@127.0.0.1")
    away = run(command, "--store", tmp_path, "--metadata", f"postgresql://me:{PASSWORD}@127.0.0.1:1/db")
    assert_one_line(away, 1, "no connection to the metadata database", "me:****@127.0.0.1:1")
    assert PASSWORD not in missing.err + away.err
