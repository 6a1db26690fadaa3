"""A whole store with its metadata in PostgreSQL: a broker, its clients, the commands, and a server that is gone."""

import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from urllib.error import HTTPError
from urllib.request import urlopen

import msgspec
import pytest

from siltstone.metadata.store.opening import open_log
from siltstone.metadata.store.port import LogOutOfReach, LogUnavailable
from support.broker.broker_process import SILTSTONE, BrokerProcess
from support.metadata.postgres_server import PostgresServer, running_postgres_server
from support.processes.cli import assert_one_line, run
from support.processes.ports import free_port
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.postgres, pytest.mark.crash]

PASSWORD = "s3cret-of-the-database"
TOPIC = "flights"
SECONDS_MAX = 60
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


def waits_in(log: Path, line: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while line not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def answer_of(url: str) -> int:
    try:
        with urlopen(url, timeout=SECONDS_MAX) as answer:
            return answer.status
    except HTTPError as refused:
        return refused.code


def test_p22_brokers_and_maintenance_that_start_while_the_server_is_down_wait_for_it(
    server: PostgresServer, tmp_path: Path
) -> None:
    url, folder, admin = url_of(server), tmp_path / "store", f"127.0.0.1:{free_port()}"
    with BrokerProcess(folder, {"metadata": url}) as first:
        made = run("topics", "create", TOPIC, "--partitions", 1, SILTSTONE_BOOTSTRAP=first.bootstrap_servers)
        assert made.status == 0, made
    server.kill()
    broker = BrokerProcess(folder, {"metadata": url, "admin.listeners": admin})
    command = [str(SILTSTONE), "maintain", "serve", "--store", str(folder), "--metadata", url]
    log_of_broker, log_of_maintenance = tmp_path / "store-stderr.txt", tmp_path / "maintenance-stderr.txt"
    with ThreadPoolExecutor() as threads, log_of_maintenance.open("wb") as stderr:
        with Popen(command, stdout=DEVNULL, stderr=stderr) as stopped:
            waits_in(log_of_maintenance, "maintenance waits for its metadata and tries again every second")
            begun = time.monotonic()
            stopped.terminate()
            stopped.wait(SECONDS_MAX)
            assert time.monotonic() - begun < SLACK_SECONDS
        with (
            log_of_broker.open("ab") as at_broker,
            Popen(broker.command, stdout=DEVNULL, stderr=at_broker) as stopped,
        ):
            waits_in(log_of_broker, "node 0 waits for its metadata and tries again every second")
            begun = time.monotonic()
            stopped.terminate()
            assert stopped.wait(SECONDS_MAX) == 3
            assert time.monotonic() - begun < SLACK_SECONDS
        log_of_broker.write_text("")
        log_of_maintenance.write_text("")
        starting = threads.submit(broker.start)
        with Popen(command, stdout=PIPE, stderr=stderr) as maintenance, ExitStack() as ending:
            ending.callback(maintenance.kill)
            ending.callback(broker.stop)
            waits_in(log_of_broker, "node 0 waits for its metadata and tries again every second")
            waits_in(log_of_maintenance, "maintenance waits for its metadata and tries again every second")
            assert answer_of(f"http://{admin}/livez") == 200
            assert answer_of(f"http://{admin}/readyz") == 503
            server.start()
            starting.result(SECONDS_MAX)
            assert maintenance.stdout is not None
            assert b"Maintenance is running" in maintenance.stdout.readline()
            produce(broker.bootstrap_servers, "after the outage")
            assert consumed(broker.bootstrap_servers) == ["after the outage"]
            assert answer_of(f"http://{admin}/readyz") == 200
            maintenance.terminate()
            assert maintenance.wait(SECONDS_MAX) == 0
        assert broker.stop() == 0
        for each in (log_of_broker, log_of_maintenance):
            assert "has reached its metadata and starts" in each.read_text()
            assert PASSWORD not in each.read_text() and "Traceback" not in each.read_text()


@pytest.mark.nightly(tried="refused starts")
def test_p23_what_a_server_refuses_ends_a_start_at_once(server: PostgresServer, tmp_path: Path) -> None:
    rules = server.data / "pg_hba.conf"
    server.sql("CREATE ROLE guarded LOGIN SUPERUSER PASSWORD 'right'")
    rules.write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
    server.sql("SELECT pg_reload_conf()")
    place = f"127.0.0.1:{server.port}"
    for url, reason, status in (
        (f"postgresql://guarded:wrong@{place}/postgres", "password authentication failed", 1),
        (f"postgresql://nobody-there@{place}/postgres", 'role "nobody-there" does not exist', 1),
        (f"postgresql://postgres@{place}/no-database", 'database "no-database" does not exist', 1),
        (f"postgresql://postgres@{place}/postgres?schema=a-b", "names no metadata log", 2),
    ):
        for words in (("serve",), ("serve", "--nodes", "2"), ("maintain", "serve")):
            command = [str(SILTSTONE), *words, "--store", str(tmp_path / "store"), "--metadata", url]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
            assert ended.returncode == status, ended
            assert reason in ended.stderr and len(ended.stderr.splitlines()) == 1, ended


def test_p22_a_server_that_is_silent_or_may_be_promoted_has_refused_nothing(server: PostgresServer) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    others = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    with server.connect() as connection:
        while connection.execute(others).fetchall() != [(1,)]:  # a process that is ending cannot be stopped
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with server.silent(), pytest.raises(LogOutOfReach, match="timeout"):
            open_log(f"{server.tcp_url('any')}&connect_timeout=2")
    server.sql("CREATE ROLE reader LOGIN")
    server.sql("ALTER ROLE reader SET default_transaction_read_only = on")  # libpq takes it for a standby
    with pytest.raises(LogOutOfReach, match="read-only"):
        open_log(server.tcp_url("any", user="reader"))
    with pytest.raises(LogUnavailable, match="does not exist") as refused:
        open_log(server.tcp_url("any", user="nobody-there"))
    assert not isinstance(refused.value, LogOutOfReach)
