"""What clients are charged, and for how long they are muted."""

import asyncio

import pytest

from siltstone.broker.quotas.throttling import MutationsThrottled
from siltstone.metadata.image import MetadataImage
from siltstone.model.access import NODE, Principal
from siltstone.model.quotas import entity_of
from siltstone.model.serving_limits import MUTED_MS_MAX, QUOTA_COUNTERS_MAX
from support.scenarios import in_loop
from support.security.quotas import CHANGES, CONNECTS, EVERY_USER, IN, OUT, WORK, ThrottledClients, image_with

MB = 1_000_000


def test_qu01_a_producer_keeps_to_its_rate() -> None:
    clients = ThrottledClients((EVERY_USER, IN, MB))
    client, begun_ms, sent = clients.client(), clients.clock.monotonic_ms(), 0
    while (passed_ms := clients.clock.monotonic_ms() - begun_ms) < 60_000:
        clients.produced(client, 200_000)
        sent += 200_000
        assert clients.muted_ms(client) <= MUTED_MS_MAX
        clients.clock.advance_ms(1)
    assert sent / passed_ms * 1_000 == pytest.approx(MB, rel=0.2)
    statistics = clients.throttling.statistics()
    assert statistics.throttled[IN] > 10 and statistics.throttled_ms[IN] > 40_000


def test_qu02_a_large_fetch_is_cut_and_makes_progress() -> None:
    clients = ThrottledClients((EVERY_USER, OUT, MB))
    client, begun_ms, got = clients.client(), clients.clock.monotonic_ms(), 0
    assert clients.throttling.fetch_bytes_max(client) == 10 * MB
    while (passed_ms := clients.clock.monotonic_ms() - begun_ms) < 120_000:
        if not clients.throttling.refuses_fetched(client, 5 * MB):
            got += 5 * MB
        clients.muted_ms(client)
        clients.clock.advance_ms(1)
    assert 0.5 * MB < got / passed_ms * 1_000 < 1.1 * MB  # an empty answer costs time, too, as in Kafka


def test_qu02_a_batch_larger_than_ten_seconds_allow_is_let_through_once_and_paid_for() -> None:
    clients = ThrottledClients((EVERY_USER, OUT, MB))
    client = clients.client()
    assert not clients.throttling.refuses_fetched(client, 50 * MB)
    assert clients.muted_ms(client) == MUTED_MS_MAX
    assert clients.throttling.refuses_fetched(client, 50 * MB)
    times = 0
    while clients.throttling.refuses_fetched(client, 50 * MB):
        clients.muted_ms(client)
        times += 1
        assert times < 20, "no client could ever read the batch"


def test_qu02_what_is_refused_is_not_charged() -> None:
    clients = ThrottledClients((EVERY_USER, OUT, MB))
    client = clients.client()
    assert not clients.throttling.refuses_fetched(client, 9 * MB)
    assert clients.throttling.refuses_fetched(client, 9 * MB)
    told_ms = clients.throttling.told_ms(client)
    assert clients.throttling.refuses_fetched(client, 9 * MB)
    assert clients.throttling.told_ms(client) == told_ms


def test_qu04_two_clients_of_a_user_share_its_quota() -> None:
    clients = ThrottledClients((entity_of(user="ada"), IN, MB))
    first, second = (clients.client(name, Principal("ada")) for name in ("one", "two"))
    other = clients.client("one", Principal("bob"))
    clients.produced(first, 10 * MB)
    assert not first.muted_until_ms
    clients.produced(second, 5 * MB)
    assert clients.throttling.told_ms(second) == 5_000
    clients.produced(other, 100 * MB)
    assert not other.muted_until_ms


def test_qu05_a_debt_of_a_minute_is_paid_ten_seconds_at_a_time() -> None:
    clients = ThrottledClients((EVERY_USER, IN, MB))
    client, begun_ms = clients.client(), clients.clock.monotonic_ms()
    clients.produced(client, 70 * MB)
    mutes = [clients.muted_ms(client)]
    while mutes[-1]:
        clients.produced(client, 1)
        mutes.append(clients.muted_ms(client))
    assert set(mutes[:-1]) == {MUTED_MS_MAX}
    assert 60_000 <= clients.clock.monotonic_ms() - begun_ms <= 70_000


def test_a_mute_is_never_made_shorter() -> None:
    clients = ThrottledClients((EVERY_USER, IN, MB), (entity_of(user="x"), WORK, 1))
    client = clients.client()
    clients.produced(client, 15 * MB)
    until_ms = client.muted_until_ms
    clients.throttling.worked(client, 5_000)
    assert client.muted_until_ms == until_ms


def test_qu11_the_time_of_the_loop_is_limited_and_a_mute_lasts_a_second() -> None:
    clients = ThrottledClients((EVERY_USER, WORK, 10))
    client, begun_ms, worked_ms = clients.client(), clients.clock.monotonic_ms(), 0
    while (passed_ms := clients.clock.monotonic_ms() - begun_ms) < 60_000:
        clients.clock.advance_ms(20)
        clients.throttling.worked(client, 20)
        worked_ms += 20
        assert clients.muted_ms(client) <= 1_000
    assert worked_ms / passed_ms <= 0.13


@in_loop
async def test_qu11_only_the_steps_of_a_request_are_timed() -> None:
    clients = ThrottledClients((EVERY_USER, WORK, 10))
    client = clients.client()

    async def work(*, fails: bool) -> str:
        clients.clock.advance_ms(700)
        await asyncio.sleep(0)
        clients.clock.advance_ms(800)
        if fails:
            raise ValueError
        return "done"

    async def meanwhile() -> None:
        clients.clock.advance_ms(9_000)

    done, _ = await asyncio.gather(clients.throttling.timed(client, work(fails=False)), meanwhile())
    assert done == "done"
    counter = clients.throttling.counter(client, WORK)
    assert counter is not None
    assert counter.rate.used(clients.clock.monotonic_ms()) == pytest.approx(150)
    with pytest.raises(ValueError):
        await clients.throttling.timed(client, work(fails=True))
    assert counter.rate.used(clients.clock.monotonic_ms()) == pytest.approx(300)


@in_loop
async def test_a_cancelled_request_ends_what_it_did() -> None:
    clients = ThrottledClients((EVERY_USER, WORK, 10))
    ended = []

    async def work() -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            ended.append(True)

    task = asyncio.create_task(clients.throttling.timed(clients.client(), work()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


def test_qu06_changes_are_refused_to_new_clients_and_delay_old_ones() -> None:
    clients = ThrottledClients((EVERY_USER, CHANGES, 5))
    new, old = clients.client(), clients.client(principal=Principal("old"))
    clients.throttling.changed(new, 60, is_strict=True)
    assert not new.muted_until_ms
    with pytest.raises(MutationsThrottled):
        clients.throttling.changed(new, 1, is_strict=True)
    assert clients.muted_ms(new) == 1_000
    clients.throttling.changed(new, 1, is_strict=True)
    clients.throttling.changed(old, 60, is_strict=False)
    assert clients.muted_ms(old) == 1_000


def test_qu06_nodes_divide_the_limit_of_changes() -> None:
    clients = ThrottledClients((EVERY_USER, CHANGES, 5), nodes=5)
    client = clients.client()
    clients.throttling.changed(client, 12, is_strict=True)
    with pytest.raises(MutationsThrottled):
        clients.throttling.changed(client, 1, is_strict=True)
    assert clients.muted_ms(client) == 1_000


def test_qu09_an_address_makes_so_many_connections_and_others_are_free() -> None:
    clients = ThrottledClients((entity_of(ip=None), CONNECTS, 5), (entity_of(ip="10.0.0.9"), CONNECTS, 1_000))
    arrived = clients.throttling.arrived
    assert [arrived("10.0.0.1") for _ in range(50)] == [0.0] * 50
    assert all(0 < arrived("10.0.0.1") <= 1_000 for _ in range(100))
    assert (arrived("10.0.0.2"), arrived("10.0.0.9")) == (0.0, 0.0)
    let_in = 0
    for _ in range(600):  # a minute of tries: those that were refused do not count
        clients.clock.advance_ms(100)
        let_in += not arrived("10.0.0.1")
    assert let_in == pytest.approx(300, rel=0.2)


def test_qu12_made_up_client_ids_have_few_counters() -> None:
    clients = ThrottledClients((entity_of(client_id=None), IN, MB), (entity_of(user="ada"), IN, MB))
    ada = clients.client(principal=Principal("ada"))
    clients.produced(ada, 10 * MB)
    for number in range(2 * QUOTA_COUNTERS_MAX):
        clients.produced(clients.client(f"made-up-{number}"), 1)
    assert clients.throttling.statistics().counters == QUOTA_COUNTERS_MAX + 1
    clients.produced(ada, 5 * MB)  # the counter of a user is not forgotten for them
    assert clients.throttling.told_ms(ada) == 5_000


def test_a_counter_that_nobody_uses_is_forgotten() -> None:
    clients = ThrottledClients((EVERY_USER, IN, MB))
    clients.produced(clients.client(principal=Principal("ada")), 1)
    clients.clock.advance_ms(3_700_000)
    clients.produced(clients.client(principal=Principal("bob")), 1)
    assert clients.throttling.statistics().counters == 1


def test_a_connection_whose_counter_was_forgotten_shares_the_next_one() -> None:
    clients = ThrottledClients((EVERY_USER, IN, MB))
    one, other = (clients.client(principal=Principal("ada")) for _ in range(2))
    clients.produced(one, 1)
    clients.clock.advance_ms(3_700_000)
    clients.produced(clients.client(principal=Principal("bob")), 1)  # ada's is forgotten
    clients.produced(other, 15 * MB)
    clients.produced(one, 1)
    assert clients.muted_ms(one) >= 4_900


def test_a_change_of_quotas_counts_at_once() -> None:
    clients = ThrottledClients()
    client = clients.client()
    clients.produced(client, 100 * MB)
    assert not client.muted_until_ms
    clients.image = image_with((EVERY_USER, IN, MB))
    clients.produced(client, 15 * MB)
    assert clients.muted_ms(client) == 5_000
    clients.image = MetadataImage()
    clients.produced(client, 100 * MB)
    assert not client.muted_until_ms


def test_a_connection_that_logs_in_or_changes_its_client_id_is_another_client() -> None:
    clients = ThrottledClients((entity_of(user="ada"), IN, MB), (entity_of(client_id="slow"), IN, 10))
    client = clients.client()
    clients.produced(client, 15 * MB)
    assert not client.muted_until_ms
    client.client_id = "slow"
    clients.produced(client, 150)
    assert clients.muted_ms(client) == 5_000
    client.principal = Principal("ada")
    clients.produced(client, 10 * MB)
    assert not client.muted_until_ms


def test_nodes_are_charged_to_nobody() -> None:
    clients = ThrottledClients((EVERY_USER, IN, 1), (entity_of(client_id=None), IN, 1))
    node, stranger = clients.client(principal=NODE), clients.client(principal=Principal(NODE.name))
    for each in (node, stranger):
        clients.produced(each, 100 * MB)
    assert not node.muted_until_ms and stranger.muted_until_ms


def test_qu14_three_nodes_allow_the_rate_each() -> None:
    """What a client uses of one node counts at no other."""
    nodes = [ThrottledClients((EVERY_USER, IN, MB), nodes=3) for _ in range(3)]
    clients = [node.client() for node in nodes]
    for number, (node, client) in enumerate(zip(nodes, clients, strict=True)):
        node.produced(client, 100 * MB)
        assert node.muted_ms(client) == MUTED_MS_MAX
        assert [nodes[later].muted_ms(clients[later]) for later in range(number + 1, 3)] == [0] * (2 - number)
