"""Turns to append and notices of appends, on a real PostgreSQL: they make writers fast and fair, and nothing depends on
them."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import PutKey
from siltstone.metadata.service import MetadataService
from siltstone.metadata.store.port import VersionMovedOn
from siltstone.metadata.store.postgres.log import PostgresLog, lock_key
from siltstone.metadata.store.postgres.news import News
from siltstone.metadata.store.postgres.place import PostgresPlace, place_of
from siltstone.metadata.store.postgres.turns import TURN_WAIT_MS_MAX, Turns
from siltstone.runtime.blocking import ThreadedCalls
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import seeded_randomness
from support.metadata.calls_under_way import wait_for

pytestmark = pytest.mark.postgres
CLOCK = SystemClock()
LONG_MS = 60_000
HOLDS_A_TURN = """
import os, signal, sys, time
from siltstone.metadata.store.postgres.place import place_of
from siltstone.metadata.store.postgres.turns import Turns
from siltstone.runtime.blocking import ThreadedCalls
from siltstone.runtime.clock import SystemClock
assert Turns(place_of(sys.argv[1]), int(sys.argv[2]), SystemClock(), turn_ms=60_000).take()
print("taken", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(60)
"""


@pytest.fixture
def place(postgres_server) -> PostgresPlace:
    found = place_of(postgres_server.url(postgres_server.new_schema()))
    PostgresLog(found).close()
    return found


@pytest.fixture
def turns_of(place) -> Iterator:
    """Makes the turns of another process."""
    made: list[Turns] = []

    def make(**options) -> Turns:
        made.append(Turns(place, lock_key(place.schema), CLOCK, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def seconds_of(call) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def test_a_turn_is_waited_for_and_passed_on_when_it_is_over(turns_of) -> None:
    first, second = turns_of(turn_ms=100), turns_of(turn_ms=LONG_MS)
    assert first.take() is True
    assert first.take() is False, "it is its turn still"
    assert 0.05 < seconds_of(second.take) < TURN_WAIT_MS_MAX / 1000, (
        "though the first one does nothing any more"
    )
    assert second.take() is False


def test_a_turn_that_does_not_come_is_done_without_for_a_while(turns_of) -> None:
    turns_of(turn_ms=LONG_MS).take()
    second = turns_of()
    assert seconds_of(second.take) >= TURN_WAIT_MS_MAX / 1000
    assert seconds_of(second.take) < 0.05


def test_a_turn_does_not_end_while_its_process_appends(turns_of) -> None:
    first, second = turns_of(turn_ms=50), turns_of(turn_ms=LONG_MS)
    first.take()
    with first.appending, ThreadPoolExecutor() as threads:
        waiting = threads.submit(second.take)
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        assert first.take() is True, "it was over, and is asked for again"
        assert waiting.result() is True, "those who wait come first"


@pytest.mark.parametrize("is_killed", [True, False])
def test_the_turn_of_a_process_that_is_killed_or_stopped_is_over(
    place, postgres_server, turns_of, is_killed
) -> None:
    url = postgres_server.url(place.schema)
    command = [sys.executable, "-c", HOLDS_A_TURN, url, str(lock_key(place.schema))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None and holder.stdout.readline() == b"taken\n"
            if is_killed:
                holder.kill()
            second = turns_of(turn_ms=LONG_MS)
            # Without its turn it goes on, and asks again later.
            wait_for(lambda: second.take() is False, "a turn")
        finally:
            os.kill(holder.pid, signal.SIGCONT)
            holder.kill()


def test_the_connection_of_turns_is_closed_when_it_is_not_used(place, postgres_server, turns_of) -> None:
    def connections() -> int:
        query = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE %s"
        return postgres_server.sql(query, (f"%{lock_key(place.schema)}%",))[0][0] - 1  # this one

    turns = turns_of(turn_ms=1, unused_ms_max=100)
    turns.take()
    wait_for(lambda: turns._session is None, "the end of the connection")
    assert turns.take() is True and turns._session is not None
    assert connections() <= 1


def test_an_append_without_a_turn_is_as_right_as_one_with_it(place, turns_of) -> None:
    turns_of(turn_ms=LONG_MS).take()
    with_turn, without = PostgresLog(place), PostgresLog(place)
    clients = [MetadataClient(log, CLOCK, seeded_randomness(n)) for n, log in enumerate((with_turn, without))]
    clients[0]._met_rivals()
    for number in range(20):
        clients[number % 2].execute(PutKey(f"key-{number}", b"", overwrite=True))
    assert clients[0].refresh().version == clients[1].refresh().version == 20
    for client in clients:
        client.close()


class Counting(PostgresLog):
    appends = losses = 0

    def append(self, entry, expected):
        self.appends += 1
        try:
            return super().append(entry, expected)
        except VersionMovedOn:
            self.losses += 1
            raise


def test_writers_at_once_lose_few_races_and_each_comes_to_its_turn(place) -> None:
    """Without turns, six writers lose more appends than they win, and the slowest gets a fifth of what the fastest
    gets."""
    logs = [Counting(place) for _ in range(6)]
    clients = [MetadataClient(log, CLOCK, seeded_randomness(number)) for number, log in enumerate(logs)]
    done = [0] * len(clients)

    def write(number: int) -> None:
        while sum(done) < 600:
            clients[number].execute(PutKey(f"of-{number}", b"%d" % done[number], overwrite=True))
            done[number] += 1

    with ThreadPoolExecutor(len(clients)) as threads:
        list(threads.map(write, range(len(clients))))
    assert sum(log.losses for log in logs) < sum(log.appends for log in logs) / 10
    assert min(done) > max(done) / 3
    assert clients[0].refresh().version == sum(done)
    for client in clients:
        client.close()


class Heard:
    """A log that is listened to, with the number of notices."""

    def __init__(self, place: PostgresPlace, **options) -> None:
        self.told = threading.Semaphore(0)
        self.log = PostgresLog(place)
        self.news = self.log.listen(self.told.release)
        wait_for(lambda: self.news.is_heard, "its own notice")
        self.forget()

    def forget(self) -> None:
        while self.told.acquire(timeout=0.05):
            pass

    def append(self) -> None:
        client = MetadataClient(self.log, CLOCK, seeded_randomness(1))
        client.execute(PutKey(f"key-{client.image.version}", b"", overwrite=True))


@pytest.fixture
def heard(place) -> Iterator:
    made: list[Heard] = []

    def make() -> Heard:
        made.append(Heard(place))
        return made[-1]

    yield make
    for each in made:
        each.log.close()


def test_an_append_is_noticed_by_the_others_that_listen_and_not_by_its_own_process(heard) -> None:
    first, second = heard(), heard()
    assert not first.told.acquire(timeout=0.1), "what the second one sends to itself is no news"
    first.append()
    assert second.told.acquire(timeout=5)
    assert not first.told.acquire(timeout=0.1)
    second.forget()
    passed = seconds_of(lambda: [first.append() for _ in range(20)])
    count = 0
    while second.told.acquire(timeout=0.2):
        count += 1
    assert 1 <= count <= passed * 50 + 2, "many appends share a notice"


def test_logs_of_other_schemas_are_not_told(heard, postgres_server) -> None:
    first = heard()
    other = Heard(place_of(postgres_server.url(postgres_server.new_schema())))
    other.append()
    assert not first.told.acquire(timeout=0.2)
    other.log.close()


def test_a_connection_that_is_lost_is_not_heard_until_there_is_another(place, postgres_server) -> None:
    told = threading.Semaphore(0)
    news = News(place, "channel_of_this_test", CLOCK, told.release, retry_interval_ms=100)
    wait_for(lambda: news.is_heard, "its own notice")
    while told.acquire(timeout=0.05):
        pass
    assert postgres_server.sql("SELECT pg_terminate_backend(%s)", (news._own_pid,)) == [(True,)]
    assert told.acquire(timeout=5), "the follower is to poll at once"
    wait_for(lambda: news.is_heard, "another connection")
    news.close()


def test_a_server_that_hangs_is_not_heard_and_holds_nobody_up(
    place, caplog: pytest.LogCaptureFixture
) -> None:
    told = threading.Semaphore(0)
    news = News(place, "channel_of_this_test", CLOCK, told.release)
    wait_for(lambda: news.is_heard, "its own notice")
    os.kill(news._own_pid, signal.SIGSTOP)
    try:
        news.appended()
        wait_for(lambda: not news.is_heard, "the end of the connection")
        assert seconds_of(news.close) < 1
    finally:
        os.kill(news._own_pid, signal.SIGCONT)
    assert caplog.text == "", "the follower polls: there is nothing to warn of"


def test_a_connection_that_delivers_nothing_is_not_heard(place, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a transaction pooler is."""
    monkeypatch.setattr(News, "_take", lambda self, notice: None)
    told = threading.Semaphore(0)
    news = News(place, "channel_of_this_test", CLOCK, told.release)
    assert not told.acquire(timeout=0.3) and not news.is_heard
    news.close()


def test_a_node_sees_at_once_what_another_has_done(place) -> None:
    """Without notices it would take half a second on average."""

    async def story() -> float:
        services = [
            MetadataService(
                MetadataClient(PostgresLog(place), CLOCK, seeded_randomness(seed)),
                ThreadedCalls("metadata", 2),
                CLOCK,
            )
            for seed in range(2)
        ]
        for service in services:
            await service.start()
        one, other = services
        while not (one._news.is_heard and other._news.is_heard):
            await CLOCK.sleep_ms(10)
        began = time.monotonic()
        for number in range(10):
            await one.execute(PutKey(f"key-{number}", b""))
            await other.newer_than(one.image.version - 1, LONG_MS)
        took = time.monotonic() - began
        for service in services:
            await service.close()
        return took

    assert asyncio.run(story()) < 2.5
