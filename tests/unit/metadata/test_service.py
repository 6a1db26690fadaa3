import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from siltstone.metadata.applying import RecordContradictsImage
from siltstone.metadata.client import APPEND_ATTEMPTS_MAX, CommitUnknown, MetadataClient
from siltstone.metadata.commands import Command, CreateStream, PutKey, RegisterNode
from siltstone.metadata.log_entry import LogEntry, encode_entry
from siltstone.metadata.records import StreamClosed
from siltstone.metadata.refusals import NodeEpochExpired
from siltstone.metadata.service import FOLLOW_INTERVAL_MS, MetadataService, ServiceClosed
from siltstone.metadata.store.memory import MemoryLog
from siltstone.runtime.blocking import InlineCalls, ThreadedCalls
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from support.metadata.faulty_log import Fault, FaultyLog
from support.scenarios import in_loop, scenario


class World:
    """A service over a memory log, another client of the same log, and a clock to move."""

    def __init__(self, **settings) -> None:
        self.clock = ManualClock()
        self.memory = MemoryLog()
        self.log = FaultyLog(self.memory)
        self.other = MetadataClient(self.memory, self.clock, seeded_randomness(2))
        self.other.execute(RegisterNode(0, "a", ""))
        interval = settings.pop("snapshot_interval_records", 50_000)
        client = MetadataClient(
            self.log, self.clock, seeded_randomness(1), snapshot_interval_records=interval
        )
        self.failures: list[BaseException] = []
        self.service = MetadataService(client, InlineCalls(), self.clock, **settings)
        self.service.add_failure_listener(self.failures.append)

    async def tick(self) -> None:
        """One follow interval passes."""
        await turns()
        self.clock.advance_ms(FOLLOW_INTERVAL_MS)
        await turns()


async def turns(count: int = 20) -> None:
    """The event loop turns: whatever can run has run."""
    for _ in range(count):
        await asyncio.sleep(0)


def with_service(body: Callable[[World], Awaitable[None]], **settings) -> None:
    async def run() -> None:
        world = World(**settings)
        await world.service.start()
        await body(world)
        await world.service.close()

    asyncio.run(run())


@scenario(with_service)
async def test_a_thousand_waiting_commands_cost_one_append(world: World) -> None:
    made = await asyncio.gather(*(world.service.execute(CreateStream(0, 1)) for _ in range(1_000)))
    assert sorted(made) == list(range(1_000))
    assert world.log.appends == 1
    assert world.service.statistics().batches == 1


@scenario(with_service)
async def test_more_than_an_append_carries_are_split(world: World) -> None:
    await asyncio.gather(*(world.service.execute(CreateStream(0, 1)) for _ in range(2_500)))
    assert world.log.appends == 3
    assert world.service.statistics().commands_executed == 2_500


@scenario(with_service)
async def test_commands_gather_while_an_append_is_under_way(world: World) -> None:
    first = asyncio.ensure_future(world.service.execute(PutKey("a", b"")))
    await turns(2)
    rest = [asyncio.ensure_future(world.service.execute(PutKey(f"k{n}", b""))) for n in range(50)]
    await asyncio.gather(first, *rest)
    assert world.log.appends == 2


@scenario(with_service)
async def test_an_answer_is_there_only_when_the_image_shows_it(world: World) -> None:
    stream_id = await world.service.execute(CreateStream(0, 1))
    assert stream_id in world.service.image.streams


@scenario(with_service)
async def test_each_caller_gets_his_own_refusal(world: World) -> None:
    answers = await asyncio.gather(
        *(world.service.execute(CreateStream(0, epoch)) for epoch in (1, 0, 1)), return_exceptions=True
    )
    assert answers[0] == 0 and isinstance(answers[1], NodeEpochExpired) and answers[2] == 1
    assert world.log.appends == 1


@pytest.mark.parametrize("turns_before", [0, 1, 2, 3])
@scenario(with_service)
async def test_a_caller_who_goes_away_changes_nothing_for_the_others(world: World, turns_before) -> None:
    waiting = [asyncio.ensure_future(world.service.execute(PutKey(f"k{n}", b"v"))) for n in range(9)]
    await turns(turns_before)
    for going in waiting[::3]:
        going.cancel()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    staying = [answer for number, answer in enumerate(answers) if number % 3]
    assert staying == [b"v"] * 6
    assert {f"k{n}" for n in range(9) if n % 3} <= set(world.service.image.keys)
    assert await world.service.execute(PutKey("after", b"w")) == b"w"


@scenario(with_service, commands_waiting_max=4)
async def test_room_is_bounded(world: World) -> None:
    waiting = [asyncio.ensure_future(world.service.execute(PutKey(f"k{n}", b""))) for n in range(10)]
    await turns(1)
    assert world.service.statistics().commands_waiting <= 4
    await asyncio.gather(*waiting)
    assert world.log.appends >= 3


@scenario(with_service, commands_waiting_max=4)
async def test_rule_9_callers_who_give_up_leave_nothing_behind(world: World) -> None:
    """Asked with a time limit again and again while the log hangs, the queue would grow beyond every limit."""
    most, answers = 0, asyncio.Event()
    run = world.service._calls.run

    async def hanging(call, *arguments):
        await answers.wait()
        return await run(call, *arguments)

    world.service._calls.run = hanging
    for number in range(50):
        going = asyncio.ensure_future(world.service.execute(PutKey(f"k{number}", b"v")))
        await turns(3)
        going.cancel()
        await asyncio.wait([going])
        most = max(most, world.service.statistics().commands_waiting)
    assert most <= 1
    answers.set()
    assert await world.service.execute(PutKey("after", b"w")) == b"w"


@scenario(with_service)
async def test_what_other_processes_write_is_noticed(world: World) -> None:
    seen: list[int] = []
    remove = world.service.add_listener(lambda image: seen.append(image.version))
    version = world.service.image.version
    await world.tick()
    assert seen == []
    world.other.execute(PutKey("k", b"v"))
    await world.tick()
    assert world.service.image.keys["k"] == b"v"
    assert seen == [version + 1]
    remove()
    world.other.execute(PutKey("l", b"v"))
    await world.tick()
    assert seen == [version + 1] and "l" in world.service.image.keys


@scenario(with_service)
async def test_what_other_processes_write_can_be_asked_for(world: World) -> None:
    seen: list[int] = []
    world.service.add_listener(lambda image: seen.append(image.version))
    world.other.execute(PutKey("k", b"v"))
    assert (await world.service.refresh()).keys["k"] == b"v"
    assert world.service.image.keys["k"] == b"v" and len(seen) == 1


@scenario(with_service)
async def test_rule_5_an_unknown_outcome_is_told_and_asked_again(world: World) -> None:
    world.log.faults.extend([Fault.LOST] * APPEND_ATTEMPTS_MAX)
    with pytest.raises(CommitUnknown):
        await world.service.execute(PutKey("k", b"v"))
    assert await world.service.execute(PutKey("k", b"v")) == b"v"


@scenario(with_service)
async def test_a_log_that_cannot_be_followed_is_tried_again(world: World) -> None:
    reads = world.log.read_after
    world.log.read_after = lambda *_: (_ for _ in ()).throw(CommitUnknown("busy"))
    await world.tick()
    world.log.read_after = reads
    world.other.execute(PutKey("k", b"v"))
    await world.tick()
    assert "k" in world.service.image.keys and world.failures == []


@scenario(with_service)
async def test_a_log_that_is_away_is_warned_of_at_once_then_twice_a_minute_and_when_it_is_back(
    world: World, caplog
) -> None:
    reads = world.log.read_after
    world.log.read_after = lambda *_: (_ for _ in ()).throw(CommitUnknown("busy"))
    await world.tick()
    assert caplog.messages == ["the metadata log cannot be read, the service tries again: busy"]
    for _ in range(450):
        await world.tick()
    assert len(caplog.messages) == 2, "in 45 s"
    world.log.read_after = reads
    await world.tick()
    await world.tick()
    assert caplog.messages[2:] == ["the metadata log can be read again"]
    world.log.read_after = lambda *_: (_ for _ in ()).throw(CommitUnknown("gone"))
    await world.tick()
    assert caplog.messages[3:] == ["the metadata log cannot be read, the service tries again: gone"]


@scenario(with_service)
async def test_the_age_of_the_last_read_grows_while_the_log_is_away(world: World) -> None:
    def age() -> float:
        return world.service.statistics().read_age_seconds

    reads = world.log.read_after
    await world.tick()
    assert age() <= FOLLOW_INTERVAL_MS / 1000
    world.log.read_after = lambda *_: (_ for _ in ()).throw(CommitUnknown("away"))
    for _ in range(150):
        await world.tick()
    assert age() == pytest.approx(15, abs=2 * FOLLOW_INTERVAL_MS / 1000)
    world.log.read_after = reads
    await world.tick()
    assert age() <= FOLLOW_INTERVAL_MS / 1000


@in_loop
async def test_a_read_that_hangs_has_an_age_before_it_fails() -> None:
    clock, read_again, is_asked = ManualClock(), threading.Event(), threading.Event()
    memory = MemoryLog()
    client = MetadataClient(memory, clock, seeded_randomness(1))

    def hanging(*_: object) -> None:
        is_asked.set()
        read_again.wait(60)

    client.refresh = hanging  # type: ignore[method-assign]
    service = MetadataService(client, calls := ThreadedCalls("metadata", 2), clock)
    await service.start()
    await turns()
    clock.advance_ms(FOLLOW_INTERVAL_MS)
    while not is_asked.is_set():
        await asyncio.sleep(0.001)
    clock.advance_ms(20_000)
    assert service.statistics().read_age_seconds >= 20
    read_again.set()
    await service.close()
    calls.close()


@scenario(with_service)
async def test_damage_closes_the_service_with_its_reason(world: World) -> None:
    head = world.memory.head()
    damaged = encode_entry(LogEntry("00" * 16, (StreamClosed(7),), head.append_id))
    world.memory.append(damaged, head)
    await world.tick()
    assert [type(failure) for failure in world.failures] == [RecordContradictsImage]
    with pytest.raises(ServiceClosed, match="RecordContradictsImage"):
        await world.service.execute(PutKey("k", b"v"))


class Undecided(Command[None], frozen=True):
    """A bug: no decision answers it."""


@scenario(with_service)
async def test_a_failure_in_a_batch_leaves_nobody_waiting(world: World) -> None:
    waiting = [asyncio.ensure_future(world.service.execute(PutKey(f"k{n}", b""))) for n in range(3)]
    late = asyncio.ensure_future(world.service.execute(Undecided()))
    answers = await asyncio.gather(*waiting, late, return_exceptions=True)
    assert {type(answer) for answer in answers} == {CommitUnknown}
    with pytest.raises(ServiceClosed):
        await world.service.execute(PutKey("k", b"v"))
    assert [type(failure) for failure in world.failures] == [KeyError]
    world.service.add_failure_listener(world.failures.append)
    assert world.failures == [world.failures[0]] * 2, "who comes too late hears it, too"


@in_loop
async def test_closing_answers_what_is_under_way_and_refuses_the_rest() -> None:
    world = World()
    await world.service.start()
    under_way = asyncio.ensure_future(world.service.execute(PutKey("a", b"v")))
    await turns(2)
    waits = asyncio.ensure_future(world.service.execute(PutKey("b", b"v")))
    await turns(1)
    await world.service.close()
    assert await under_way == b"v"
    with pytest.raises(ServiceClosed):
        await waits
    with pytest.raises(ServiceClosed):
        await world.service.execute(PutKey("c", b"v"))
    assert set(world.other.refresh().keys) == {"a"}


@scenario(with_service, snapshot_interval_records=10)
async def test_snapshots_are_saved_apart_from_the_answers(world: World) -> None:
    for number in range(12):
        await world.service.execute(PutKey(f"k{number}", b"v"))
    await turns()
    first = world.memory.snapshot_version()
    assert first is not None
    for number in range(12):
        await world.service.execute(PutKey(f"again {number}", b"v"))
    await turns()
    second = world.memory.snapshot_version()
    assert second is not None and second > first
    assert world.failures == []


@in_loop
async def test_with_real_threads() -> None:
    clock = ManualClock()
    log = FaultyLog(MemoryLog())
    client = MetadataClient(log, clock, seeded_randomness(1))
    calls = ThreadedCalls("metadata", 2)
    service = MetadataService(client, calls, clock)
    await service.start()
    await service.execute(RegisterNode(0, "a", ""))
    made = await asyncio.gather(*(service.execute(CreateStream(0, 1)) for _ in range(3_000)))
    assert sorted(made) == list(range(3_000))
    assert log.appends <= 6
    await service.close()
    calls.close()


def test_the_clock_of_the_log_and_the_ids_of_its_entries_are_those_of_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MetadataClient, "clock_offset_ms", 1_234)

    async def body(world: World) -> None:
        await world.service.execute(CreateStream(0, 1))
        client = world.service._client
        assert world.service.clock_offset_ms == 1_234
        version = world.service.image.version
        assert await world.service.append_id_at(version) == client.append_id_at(version) is not None
        assert await world.service.append_id_at(version + 1) is None
        await world.service.close()
        with pytest.raises(ServiceClosed):
            await world.service.append_id_at(version)

    with_service(body)
