"""The metadata log on PostgreSQL servers that die, hang, lose their standby or are followed by one (P)."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from urllib.parse import quote

import pytest

from siltstone.metadata.client import CommitUnknown, MetadataClient
from siltstone.metadata.commands import PutKey, RemoveKey
from siltstone.metadata.log_entry import LogForked, LogPosition, link_of
from siltstone.metadata.store.port import AppendUncertain, LogUnavailable, VersionMovedOn
from siltstone.metadata.store.postgres.log import PostgresLog
from siltstone.metadata.store.postgres.place import place_of
from siltstone.model.errors import Unavailable
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import seeded_randomness
from support.metadata.calls_under_way import WAITING_SECONDS_MAX, in_thread, wait_for
from support.metadata.log_entries import append_values, entry_after
from support.metadata.postgres_server import PostgresServer, new_server, running_postgres_server

pytestmark = [pytest.mark.postgres, pytest.mark.crash]

SLACK_SECONDS = 20
"""Added for a busy machine: a call without a deadline never ends here."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """Starts a server for this module only, since its tests kill it, stop it and change its settings."""
    with running_postgres_server() as server:
        yield server


@pytest.fixture
def opened(server) -> Iterator[Callable[..., PostgresLog]]:
    """Opens logs of one new schema."""
    name, logs = server.new_schema(), []

    def open_one(**options) -> PostgresLog:
        logs.append(PostgresLog(place_of(server.url(name)), **options))
        return logs[-1]

    yield open_one
    for log in logs:
        log.close()


def client_of(log: PostgresLog, seed: int = 1) -> MetadataClient:
    return MetadataClient(log, SystemClock(), seeded_randomness(seed))


def put(key: str) -> PutKey:
    return PutKey(key, b"v", overwrite=True)


class Standby:
    """A synchronous standby that is running, or for which every commit waits in vain."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self._admin = server.connect()  # a session that never waits for the standby

    def is_missing(self, missing: bool) -> None:
        self._admin.execute("SET synchronous_commit = off")
        name = "nobody" if missing else ""
        self._admin.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
        self._admin.execute("SELECT pg_reload_conf()")
        wait_for(lambda: self.server.sql("SHOW synchronous_standby_names") == [(name,)], "the new setting")
        if missing:
            wait_for(self._commit_waits, "a server that lets commits wait")

    def _commit_waits(self) -> bool:
        """Returns whether a commit waits now: the server's checkpointer applies the setting later than new sessions
        do."""
        with closing(self.server.connect()) as session:
            session.execute("SET synchronous_commit = on")
            commit = in_thread(session.execute, "SELECT pg_logical_emit_message(true, 'tried', '')")
            wait_for(lambda: commit.done() or self.waiting(), "the end of a commit, or its wait")
            waits = not commit.done()
            while not commit.done():
                self.cancel_waiting()
        return waits

    def waiting(self) -> list[int]:
        """The processes whose commit waits for the standby."""
        rows = self._admin.execute("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'").fetchall()
        return [pid for (pid,) in rows]

    def cancel(self) -> None:
        wait_for(self.waiting, "a commit that waits for the standby")
        self.cancel_waiting()

    def cancel_waiting(self) -> None:
        for pid in self.waiting():
            self._admin.execute("SELECT pg_cancel_backend(%s)", (pid,))


@pytest.fixture
def standby(server) -> Iterator[Standby]:
    standby = Standby(server)
    yield standby
    standby.is_missing(False)
    standby._admin.close()


def test_p06_clients_go_on_after_the_server_was_killed_and_nothing_acknowledged_is_missing(
    server, opened
) -> None:
    """PostgreSQL itself keeps commits over a crash of the machine; here only its processes die."""
    clients = [client_of(opened(), seed) for seed in range(2)]
    told: list[str] = []
    for life in range(2):
        for number in range(10):
            clients[number % 2].execute(put(f"{life}/{number}"))
            told.append(f"{life}/{number}")
        server.kill()
        with pytest.raises(Unavailable):
            clients[0].refresh()
        server.start()
        for client in clients:
            client.execute(put(f"after {life}"))
    assert set(told) < set(client_of(opened()).image.keys)


def test_p07_p20_a_cancelled_wait_for_the_standby_is_no_success_and_neither_is_finding_the_entry(
    opened, standby
) -> None:
    """PostgreSQL reports success with a warning; the entry is in the primary, and perhaps nowhere else."""
    log = opened(call_deadline_ms=3_000)
    head = append_values(log, b"1")
    standby.is_missing(True)
    entry = entry_after(head, b"2")
    ours = in_thread(log.append, entry, head)
    standby.cancel()
    with pytest.raises(AppendUncertain, match="cancel"):
        ours.result(WAITING_SECONDS_MAX)
    assert log.read_after(1, 10) == [(2, entry)], "it is visible"
    with pytest.raises(AppendUncertain):
        log.append(entry, head)
    with pytest.raises(LogUnavailable):
        log.head()
    confirming = in_thread(log.head)
    while not confirming.done():
        standby.cancel_waiting()
    with pytest.raises(LogUnavailable, match="could not confirm"):
        confirming.result(WAITING_SECONDS_MAX)
    standby.is_missing(False)
    with pytest.raises(VersionMovedOn):
        log.append(entry, head)
    assert log.head() == LogPosition(2, link_of(entry).append_id)


def test_p20_another_process_does_not_answer_from_what_a_cancelled_wait_left(opened, standby) -> None:
    """The first answer to a process on a new connection is confirmed, because the primary may have been started
    again."""
    first = opened(call_deadline_ms=3_000)
    head = append_values(first, b"1")
    standby.is_missing(True)
    ours = in_thread(first.append, entry_after(head, b"2"), head)
    standby.cancel()
    with pytest.raises(AppendUncertain):
        ours.result(WAITING_SECONDS_MAX)
    client = client_of(opened(call_deadline_ms=2_000), 2)
    assert client.image.version == 2
    with pytest.raises(LogUnavailable):
        client.execute(RemoveKey("absent"))
    standby.is_missing(False)
    assert client.execute(RemoveKey("absent")) is None


@pytest.mark.nightly(tried="lost standbys")
def test_p08_without_the_synchronous_standby_nothing_is_acknowledged_and_it_heals(opened, standby) -> None:
    log = opened(call_deadline_ms=2_000)
    client = client_of(log)
    client.execute(put("before"))
    standby.is_missing(True)
    with pytest.raises((CommitUnknown, LogUnavailable)):
        client.execute(put("meanwhile"))
    assert "meanwhile" not in client.image.keys
    standby.is_missing(False)
    wait_for(lambda: not standby.waiting(), "the commits that waited")
    assert client.execute(put("meanwhile")) == b"v"
    versions = [version for version, _ in log.read_after(0, 100)]
    assert versions == list(range(1, client.image.version + 1)) and client.image.version <= 3


def test_p12_no_call_takes_longer_than_its_deadline_when_the_server_is_silent(server, opened) -> None:
    log = opened(call_deadline_ms=2_500)
    head = append_values(log, b"1")
    entry = entry_after(head, b"2")
    calls = [
        (AppendUncertain, lambda: log.append(entry, head)),
        (LogUnavailable, lambda: log.append(entry, head)),
        (LogUnavailable, log.head),
    ]
    with server.silent():
        for expected, call in calls:
            begun = time.monotonic()
            with pytest.raises(expected):
                call()
            assert time.monotonic() - begun < 2.5 + SLACK_SECONDS
    with suppress(VersionMovedOn):
        log.append(entry, head)
    assert log.read_after(1, 10) == [(2, entry)]


def test_p09_p11_a_standby_that_lacks_entries_is_promoted(server) -> None:
    """The old primary is gone. The log is found on the other host; a process that has read entries which are lost there
    stops."""
    with new_server() as other:
        name = server.new_schema()
        hosts = ",".join(quote(str(each.folder), safe="") for each in (server, other))
        url = f"postgresql://postgres@/postgres?host={hosts}&port={server.port},{other.port}&schema={name}"
        behind = client_of(PostgresLog(place_of(url)))
        ahead = client_of(PostgresLog(place_of(url)), 2)
        behind.execute(put("1"))
        other.copy_of(server)
        other.start()
        wait_for(lambda: other.sql("SELECT pg_is_in_recovery()") == [(True,)], "the standby")
        with pytest.raises(LogUnavailable, match="no connection"):
            PostgresLog(place_of(other.url(name)))
        wait_for(lambda: other.sql(f"SELECT count(*) FROM {name}.entries") == [(1,)], "the standby to follow")
        other.stop()
        ahead.execute(put("lost"))
        assert ahead.image.version == 2
        server.kill()
        other.start()
        with pytest.raises(Unavailable):
            behind.refresh()
        other.promote()
        behind.execute(put("2"))
        behind.execute(put("3"))
        assert behind.image.version == 3
        with pytest.raises(LogForked, match=f"entry 2 has append id {ahead.image.append_id}"):
            ahead.execute(put("4"))
        assert set(ahead.image.keys) == {"1", "lost"}
        behind.close()
        ahead.close()
    server.start()
