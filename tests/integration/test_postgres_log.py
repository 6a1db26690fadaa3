"""The metadata log on a real PostgreSQL: what two writers, lost connections and stopped processes do to it (P)."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from random import Random

import pytest
from psycopg import sql

from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import CreateStream, PutKey, RegisterNode
from siltstone.metadata.log_entry import LogForked, LogPosition, link_of
from siltstone.metadata.store.port import (
    AppendUncertain,
    LogNotFound,
    LogReplaced,
    LogTruncated,
    LogUnavailable,
    LogVersionUnknown,
    NotMetadataLog,
    VersionMovedOn,
)
from siltstone.metadata.store.postgres.log import PostgresLog, postgres_log_exists
from siltstone.metadata.store.postgres.place import place_of
from siltstone.metadata.store.postgres.tables import ADVISORY_LOCK, TABLES
from siltstone.model.errors import Unavailable
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import seeded_randomness
from support.metadata.calls_under_way import WAITING_SECONDS_MAX, in_thread, wait_for
from support.metadata.log_entries import append_values, entry_after
from support.metadata.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres


class Schema:
    """A schema of the server that the session shares."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.name = server.new_schema()
        self.opened: list[PostgresLog] = []

    def open(self, **options) -> PostgresLog:
        self.opened.append(PostgresLog(place_of(self.server.url(self.name)), **options))
        return self.opened[-1]

    def client(self, seed: int = 1, **options) -> MetadataClient:
        return MetadataClient(self.open(**options), SystemClock(), seeded_randomness(seed))

    def sql(self, text: str, *values: object) -> list:
        return self.server.sql(text.replace("{schema}", self.name), values or None)

    def rival_in_flight(self, version: int):
        """A connection that has inserted ``version`` and not committed it."""
        rival = self.server.connect()
        rival.autocommit = False
        rival.execute(f"INSERT INTO {self.name}.entries VALUES (%s, %s, %s)", (version, b"r" * 16, b"rival"))
        return rival


@pytest.fixture
def schema(postgres_server) -> Iterator[Schema]:
    schema = Schema(postgres_server)
    yield schema
    for log in schema.opened:
        log.close()


def pid_of(log: PostgresLog) -> int:
    return log._session._connection.info.backend_pid


def waits(schema: Schema, pid: int, event: str) -> bool:
    rows = schema.sql("SELECT wait_event_type, wait_event FROM pg_stat_activity WHERE pid = %s", pid)
    return bool(rows) and event in rows[0]


def versions(log: PostgresLog, after: int = 0) -> list[int]:
    """All versions behind ``after``, in as many reads as their bytes need."""
    found: list[int] = []
    while read := log.read_after(found[-1] if found else after, 100_000):
        found += [version for version, _ in read]
    return found


def test_p02_of_two_appends_under_one_version_the_second_waits_for_the_first(schema) -> None:
    log = schema.open()
    head = append_values(log, b"1")
    rival = schema.rival_in_flight(2)
    ours = in_thread(log.append, entry_after(head, b"ours"), head)
    wait_for(lambda: waits(schema, pid_of(log), "Lock"), "our append to wait for the rival's")
    assert not ours.done()
    rival.commit()
    with pytest.raises(VersionMovedOn):
        ours.result(WAITING_SECONDS_MAX)
    assert schema.sql("SELECT version, entry FROM {schema}.entries WHERE version > 1") == [(2, b"rival")]
    rival.close()


def test_p03_an_append_goes_through_when_the_rival_in_flight_is_killed(schema) -> None:
    log = schema.open()
    head = append_values(log, b"1")
    rival = schema.rival_in_flight(2)
    entry = entry_after(head, b"ours")
    ours = in_thread(log.append, entry, head)
    wait_for(lambda: waits(schema, pid_of(log), "Lock"), "our append to wait for the rival's")
    schema.sql("SELECT pg_terminate_backend(%s)", rival.info.backend_pid)
    assert ours.result(WAITING_SECONDS_MAX) == LogPosition(2, link_of(entry).append_id)
    assert log.read_after(1, 10) == [(2, entry)]
    rival.close()


def create_patiently(client: MetadataClient, node: int, count: int) -> list[int]:
    """Ids of the streams that were acknowledged. A command whose outcome stayed unknown may have made one more."""
    made: list[int] = []
    epoch = None
    while len(made) < count:
        try:
            if epoch is None:
                epoch = client.execute(RegisterNode(node, f"node {node}", "")).node_epoch
            made.append(client.execute(CreateStream(node, epoch, {"by": str(node)})))
        except Unavailable:
            continue
    return made


@pytest.mark.crash
@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.nightly)])
def test_p04_connections_killed_at_any_moment_do_each_command_once(schema, kills, record_tried) -> None:
    clients = [schema.client(seed) for seed in range(3)]
    with ThreadPoolExecutor(3) as pool:
        futures = [
            pool.submit(create_patiently, client, node, 6 * kills) for node, client in enumerate(clients)
        ]
        rng, killed = Random(5), 0
        while killed < kills and not all(future.done() for future in futures):
            pids = [
                connection.info.backend_pid
                for log in schema.opened
                if (connection := log._session._connection) is not None
            ]
            if pids:
                schema.sql("SELECT pg_terminate_backend(%s)", rng.choice(pids))
                killed += 1
        made = [stream_id for future in futures for stream_id in future.result(120)]
    record_tried("connections to PostgreSQL killed", killed)
    assert killed >= kills / 2
    assert len(made) == len(set(made)) == 18 * kills
    image = clients[0].refresh()
    assert set(made) <= set(image.streams)
    assert len(image.streams) == len(made), "no command was carried out twice"


def test_p09_a_follower_of_a_log_that_went_on_with_other_entries_stops(schema) -> None:
    append_values(schema.open(), b"1", b"2", b"3", b"4", b"5")
    client = schema.client()
    before = client.image
    schema.sql("DELETE FROM {schema}.entries WHERE version > 3")
    append_values(schema.open(), b"4'", b"5'", b"6'")
    with pytest.raises(LogForked, match=f"entry 5 has append id {before.append_id}"):
        client.refresh()
    assert client.image is before


def test_p09_an_append_after_another_entry_of_the_same_version_is_not_written(schema) -> None:
    log, client = schema.open(), schema.client()
    append_values(log, b"1", b"2")
    client.refresh()
    schema.sql("UPDATE {schema}.entries SET append_id = decode(repeat('ab', 16), 'hex') WHERE version = 2")
    with pytest.raises(LogForked, match=r"entry 2 .* is another one"):
        client.execute(PutKey("k", b"v"))
    assert versions(log) == [1, 2]


def test_p13_a_snapshot_that_two_save_and_a_third_loads_is_whole(schema) -> None:
    logs = [schema.open(entries_kept=1, entry_age_min="0") for _ in range(3)]
    positions = [append_values(logs[0], b"%d" % number) for number in range(12)]

    def save(log: PostgresLog) -> None:
        for position in positions:
            log.save_snapshot(position, (b"%d of %d" % (number, position.version) for number in range(5)))

    saving = [in_thread(save, log) for log in logs[:2]]
    whole = 0
    while not all(future.done() for future in saving):
        try:
            if (snapshot := logs[2].load_snapshot()) is not None:
                chunks = list(snapshot.chunks)
                assert chunks == [b"%d of %d" % (number, snapshot.version) for number in range(5)]
                whole += 1
        except LogTruncated:
            continue
    assert [future.result() for future in saving] == [None, None]
    assert logs[2].snapshot_version() == 12 and len(list(logs[2].load_snapshot().chunks)) == 5
    assert schema.sql("SELECT count(*) FROM {schema}.chunks") == [(5,)], "nothing is left of older ones"
    assert versions(logs[2], 11) == [12] and whole


def test_p15_what_is_no_log_of_ours_is_named(schema) -> None:
    place = place_of(schema.server.url(schema.name))
    assert not postgres_log_exists(place)
    with pytest.raises(LogNotFound, match="no metadata log at postgresql://"):
        schema.open(create=False)
    schema.open().close()
    assert postgres_log_exists(place)
    schema.open(create=False)
    schema.sql("UPDATE {schema}.log_identity SET tables_version = 2")
    with pytest.raises(LogVersionUnknown, match="tables of version 2"):
        schema.open()
    schema.sql("DELETE FROM {schema}.log_identity")
    with pytest.raises(NotMetadataLog):
        schema.open()


def test_p15_of_two_that_create_the_tables_at_once_one_does_and_the_other_finds_them(schema) -> None:
    """The other one has looked before, and waits while the first one has not committed."""
    first = schema.server.connect()
    first.autocommit = False
    first.execute("SELECT pg_advisory_xact_lock(%s)", (ADVISORY_LOCK,))
    opening = in_thread(schema.open)
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    wait_for(lambda: schema.sql(waiting) == [(1,)], "the other to wait for the tables")
    script = sql.SQL(TABLES).format(schema=sql.Identifier(schema.name), tables_version=sql.Literal(1))
    first.execute(script)
    first.commit()
    assert opening.result(WAITING_SECONDS_MAX).head() == LogPosition()
    first.close()


def test_p15_a_schema_of_another_program_is_left_alone(schema) -> None:
    schema.sql("CREATE SCHEMA {schema}")
    schema.sql("CREATE TABLE {schema}.entries (a int)")
    with pytest.raises(NotMetadataLog, match=r"has other tables .* \?schema=NAME"):
        schema.open()
    schema.sql("CREATE TABLE {schema}.log_identity (a int)")
    schema.sql("INSERT INTO {schema}.log_identity VALUES (1)")
    with pytest.raises(NotMetadataLog):
        schema.open()
    tables = schema.sql(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", schema.name
    )
    assert sorted(tables) == [("entries",), ("log_identity",)]


def test_p15_a_user_without_the_right_to_create_is_told_what_to_run(schema) -> None:
    user = f"poor_{schema.name}"
    schema.sql(f"CREATE ROLE {user} LOGIN")
    with pytest.raises(
        LogUnavailable, match=rf"CREATE TABLE {schema.name}\.entries \(version bigint"
    ) as refused:
        PostgresLog(place_of(schema.server.tcp_url(schema.name, user=user)))
    assert "permission denied" in str(refused.value)


def test_p15_tables_that_were_dropped_under_an_open_log_are_named(schema) -> None:
    log = schema.open()
    head = append_values(log, b"1")
    schema.sql("DROP SCHEMA {schema} CASCADE")
    with pytest.raises(LogReplaced, match="restore them"):
        log.append(entry_after(head, b"2"), head)


def test_p15_a_server_that_is_not_there_and_a_password_that_is_never_shown(schema) -> None:
    url = f"postgresql://someone:s3cret@127.0.0.1:1/db?schema={schema.name}"
    with pytest.raises(LogUnavailable, match="no connection to the metadata database") as refused:
        PostgresLog(place_of(url))
    told = f"{refused.value} {refused.value!r} {place_of(url)} {place_of(url)!r} {refused.value.__cause__}"
    assert "s3cret" not in told and "someone:****@127.0.0.1" in told


class ShiftedClock(SystemClock):
    def __init__(self, shift_ms: int) -> None:
        self.shift_ms = shift_ms
        self.minutes = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.shift_ms

    def monotonic_ms(self) -> float:
        return super().monotonic_ms() + self.minutes * 60_000


def test_p16_the_clock_of_the_log_is_the_servers(schema) -> None:
    clock = ShiftedClock(-40_000)
    log = schema.open(clock=clock)
    client = MetadataClient(log, clock, seeded_randomness(1))
    assert abs(log.clock_offset_ms() - 40_000) < 1_000
    assert abs(client.now_ms() - SystemClock().now_ms()) < 1_000
    clock.shift_ms = 5_000
    clock.minutes += 1
    log.read_after(0, 1)
    assert abs(log.clock_offset_ms() + 5_000) < 1_000, "measured again after a minute"


def test_p18_a_large_entry_comes_back_and_appends_pass_between_the_chunks_of_a_snapshot(schema) -> None:
    log, other = schema.open(), schema.open()
    large = entry_after(LogPosition(), bytes(range(256)) * (20 * 4096))
    head = log.append(large, LogPosition())
    assert log.read_after(0, 10) == [(1, large)]

    def chunks() -> Iterator[bytes]:
        for number in range(4):
            append_values(other, b"%d" % number)
            yield bytes([number]) * 1_000_000

    log.save_snapshot(head, chunks())
    assert versions(other) == [1, 2, 3, 4, 5]
    assert [len(chunk) for chunk in log.load_snapshot().chunks] == [1_000_000] * 4


def stopped_in_its_append(schema: Schema, log: PostgresLog, head: LogPosition) -> tuple[Future, int, object]:
    """Our append has looked at the head and waits for a rival; then the server's process for it is stopped."""
    rival = schema.rival_in_flight(head.version + 1)
    ours = in_thread(log.append, entry_after(head, b"ours"), head)
    wait_for(lambda: waits(schema, pid_of(log), "Lock"), "our append to wait for the rival's")
    pid = pid_of(log)
    os.kill(pid, signal.SIGSTOP)
    rival.rollback()
    rival.close()
    return ours, pid, rival


def test_p19_an_append_that_nobody_waits_for_any_more_may_still_happen(schema) -> None:
    log, other = schema.open(call_deadline_ms=1_000), schema.open()
    head = append_values(log, b"1")
    ours, pid, _ = stopped_in_its_append(schema, log, head)
    try:
        with pytest.raises(AppendUncertain, match="has not answered for 1 s"):
            ours.result(WAITING_SECONDS_MAX)
        assert versions(log) == versions(other) == [1], "a look at the log proves nothing yet"
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_for(lambda: versions(other) == [1, 2], "the append of the process that continued")
    with pytest.raises(VersionMovedOn):
        log.append(entry_after(head, b"ours"), head)
    assert other.read_after(1, 10) == [(2, entry_after(head, b"ours"))], "the client finds its own entry"


@pytest.mark.parametrize("age", ["10 minutes", "0"])
def test_p21_an_append_that_slept_through_a_truncation_writes_nothing_below_it(schema, age) -> None:
    """With an age of 0, which nobody has, it does: the test sees the fault that the age prevents."""
    log = schema.open()
    other = schema.open(entries_kept=1, entry_age_min=age)
    head = append_values(log, b"1")
    ours, pid, _ = stopped_in_its_append(schema, log, head)
    try:
        newest = append_values(other, *[b"%d" % number for number in range(30)])
        other.save_snapshot(newest, [b"chunk"])
    finally:
        os.kill(pid, signal.SIGCONT)
    if age == "0":
        assert ours.result(WAITING_SECONDS_MAX).version == 2
        return
    with pytest.raises(VersionMovedOn):
        ours.result(WAITING_SECONDS_MAX)
    assert versions(other) == list(range(1, 32))
    assert entry_after(head, b"ours") not in dict(other.read_after(0, 100)).values()


def test_p12_a_read_behind_a_hanging_append_ends_by_its_own_deadline(schema) -> None:
    log = schema.open(call_deadline_ms=3_000)
    head = append_values(log, b"1")
    ours, pid, _ = stopped_in_its_append(schema, log, head)
    try:
        begun = time.monotonic()
        with suppress(LogUnavailable):
            assert versions(log) == [1]
        assert time.monotonic() - begun < 5.5
        with pytest.raises(AppendUncertain):
            ours.result(WAITING_SECONDS_MAX)
    finally:
        os.kill(pid, signal.SIGCONT)
