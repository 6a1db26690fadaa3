"""Nodes that beat, watch each other, fence and resume, in one thread and by clocks that the test moves."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from siltstone.cluster.membership import BoardCalls, NodeIdInUse, wait_until_silent
from siltstone.cluster.suspicion import SESSION_MS
from siltstone.metadata.commands import ClaimFailover, PutKey, RegisterNode, UnregisterNode
from siltstone.metadata.leases.board import BOARD_DEADLINE_MS, ENDED, Beat, BoardUnavailable, MemoryBoard
from siltstone.metadata.records import NodeFenced, NodeResumed
from siltstone.metadata.refusals import FencedNode
from siltstone.runtime.blocking import ThreadedCalls
from siltstone.runtime.clock import ManualClock
from support.metadata.cluster_world import BoardOfAll, ClusterWorld, HeldCalls
from support.metadata.metadata_world import MetadataWorld
from support.scenarios import in_loop, scenario

HOUR_MS = 3_600_000


def in_cluster(
    scenario: Callable[[ClusterWorld], Awaitable[None]], count: int = 3, wall_ms: tuple[int, ...] = ()
) -> None:
    async def main() -> None:
        async with ClusterWorld(count, wall_ms) as cluster:
            await asyncio.wait_for(scenario(cluster), 60)

    asyncio.run(main())


@scenario(in_cluster)
async def test_n04_a_node_whose_beats_stop_for_four_seconds_is_not_fenced(cluster: ClusterWorld) -> None:
    cluster.freeze(1)
    await cluster.passes(4_000)
    await cluster.thaw(1)
    await cluster.passes(10_000)
    assert cluster.written(NodeFenced) == []


@scenario(in_cluster)
async def test_n05_a_node_that_was_stopped_is_fenced_once_and_resumes(cluster: ClusterWorld) -> None:
    cluster.freeze(1)
    await cluster.passes(8_000)
    assert cluster.written(NodeFenced) == [NodeFenced(1, 1)]
    assert cluster.image.nodes[1].is_fenced
    await cluster.thaw(1)
    await cluster.passes(2_000)
    assert cluster.written(NodeResumed) == [NodeResumed(1, 1)]
    assert cluster.image.nodes[1].is_live
    await cluster.passes(20_000)
    assert len(cluster.written(NodeFenced)) == len(cluster.written(NodeResumed)) == 1
    assert not cluster.nodes[1].lost
    assert cluster.nodes[1].membership.statistics().times_resumed == 1


@scenario(in_cluster, count=4)
async def test_n05_the_lowest_live_node_fences_and_the_next_one_if_that_is_dead(
    cluster: ClusterWorld,
) -> None:
    cluster.freeze(2)
    await cluster.passes(8_000)
    fenced = [node.membership.statistics().nodes_fenced for node in cluster.nodes]
    assert fenced == [1, 0, 0, 0]
    cluster.freeze(0, 1)
    await cluster.passes(8_000)
    assert cluster.nodes[3].membership.statistics().nodes_fenced == 2
    assert sorted(record.node_id for record in cluster.written(NodeFenced)) == [0, 1, 2]


@scenario(in_cluster)
async def test_n06_observers_that_were_stopped_for_a_minute_fence_nobody(cluster: ClusterWorld) -> None:
    cluster.freeze(0, 1, 2)
    await cluster.passes(60_000)
    await cluster.thaw(0)
    await cluster.passes(3_000)
    await cluster.thaw(1, 2)
    await cluster.passes(20_000)
    assert cluster.written(NodeFenced) == []


def test_n07_wall_clocks_that_are_hours_apart_fence_nobody() -> None:
    async def scenario(cluster: ClusterWorld) -> None:
        await cluster.passes(20_000)
        assert cluster.written(NodeFenced) == []
        cluster.freeze(2)
        await cluster.passes(8_000)
        assert cluster.written(NodeFenced) == [NodeFenced(2, 1)]

    now_ms = 1_700_000_000_000
    in_cluster(scenario, wall_ms=(now_ms - HOUR_MS, now_ms, now_ms + HOUR_MS))


@scenario(in_cluster, count=4)
async def test_n09_two_that_fall_silent_together_are_fenced_once_each(cluster: ClusterWorld) -> None:
    cluster.freeze(0, 3)
    await cluster.passes(15_000)
    assert sorted(record.node_id for record in cluster.written(NodeFenced)) == [0, 3]


@scenario(in_cluster)
async def test_n18_a_board_that_is_out_for_a_minute_fences_nobody_and_ends_the_leases(
    cluster: ClusterWorld,
) -> None:
    assert all(node.membership.lease.is_held for node in cluster.nodes)
    cluster.board.is_out = True
    await cluster.passes(60_000)
    assert not any(node.membership.lease.is_held for node in cluster.nodes)
    cluster.board.is_out = False
    await cluster.passes(20_000)
    assert all(node.membership.lease.is_held for node in cluster.nodes)
    assert cluster.written(NodeFenced) == []
    assert cluster.nodes[0].membership.statistics().rounds_failed >= 50


@scenario(in_cluster)
async def test_n18_the_time_in_which_the_board_is_out_is_not_silence(cluster: ClusterWorld) -> None:
    """Node 2 is stopped for 3 s, then the board is out for 2 s."""
    cluster.freeze(2)
    await cluster.passes(3_000)
    cluster.board.is_out = True
    await cluster.passes(2_000)
    cluster.board.is_out = False
    await cluster.passes(1_500)
    await cluster.thaw(2)
    await cluster.passes(10_000)
    assert cluster.written(NodeFenced) == []


async def waits_for_its_turn(cluster: ClusterWorld, node_id: int, silent: int) -> None:
    """The nodes with lower ids would act, but their commands hang; ``node_id`` is about to."""
    for node in cluster.nodes[:node_id]:
        node.metadata_calls.free.clear()
    cluster.freeze(silent)
    for _ in range(100):
        if cluster.nodes[node_id].membership._fencing:
            return
        await cluster.passes(100)
    raise AssertionError("nobody is suspect")


@scenario(in_cluster)
async def test_n06_a_node_that_was_stopped_while_it_waited_for_its_turn_fences_nobody(
    cluster: ClusterWorld,
) -> None:
    await waits_for_its_turn(cluster, 1, silent=2)
    cluster.freeze(1)
    await cluster.thaw(2)
    await cluster.passes(10_000)
    await cluster.thaw(1)
    await cluster.passes(1_000)
    assert cluster.written(NodeFenced) == [NodeFenced(1, 1)], "it was silent itself"


@scenario(in_cluster, count=5)
async def test_a_node_whose_beats_come_back_before_the_turn_of_the_next_is_not_fenced(
    cluster: ClusterWorld,
) -> None:
    await waits_for_its_turn(cluster, 3, silent=4)
    await cluster.thaw(4)
    await cluster.passes(3_000)
    assert cluster.written(NodeFenced) == []


@scenario(in_cluster)
async def test_n08_a_node_that_beats_again_holds_no_lease_until_it_has_read_the_log(
    cluster: ClusterWorld,
) -> None:
    """The board and the log may be reachable again one after the other; by its old image the node would still lead."""
    node = cluster.nodes[1]
    node.board_calls.free.clear()
    node.metadata_calls.free.clear()
    await cluster.passes(8_000)
    assert cluster.image.nodes[1].is_fenced
    node.board_calls.free.set()
    await cluster.passes(3_000)
    assert node.metadata.image.nodes[1].is_live, "its image is old"
    assert not node.membership.lease.is_held
    node.metadata_calls.free.set()
    await cluster.passes(3_000)
    assert cluster.image.nodes[1].is_live and node.membership.lease.is_held


@scenario(in_cluster)
async def test_fo08_a_node_that_was_failed_over_stops_when_it_beats_again(cluster: ClusterWorld) -> None:
    """The node reads in the log that it was failed over, and need not wait until an append or a commit is refused."""
    living, dead = cluster.nodes[0], cluster.nodes[1]
    cluster.freeze(1)
    await cluster.passes(8_000)
    claim = ClaimFailover(0, living.life.node_epoch, 1)
    await living.metadata.execute(claim)
    await living.metadata.execute(RegisterNode(1, living.life.incarnation, "wal-of-1", failover=True))
    await cluster.thaw(1)
    await cluster.passes(2_000)
    (loss,) = dead.lost
    assert isinstance(loss, FencedNode)
    assert not dead.membership.lease.is_held


@pytest.mark.parametrize("knows_its_fence", [True, False])
def test_n24_a_node_that_was_unregistered_while_it_was_stopped_ends_when_it_wakes(
    knows_its_fence: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It may wake with an image in which it is fenced, and ask to resume, or with one in which it is not there."""

    async def scenario(cluster: ClusterWorld) -> None:
        living, stopped = cluster.nodes[0], cluster.nodes[1]
        cluster.freeze(1)
        await cluster.passes(8_000)
        assert cluster.image.nodes[1].is_fenced
        if knows_its_fence:
            await stopped.metadata.refresh()
        await living.metadata.execute(UnregisterNode(1))
        await cluster.thaw(1)
        await cluster.passes(5_000)
        assert [type(loss) for loss in stopped.lost] == [FencedNode]
        assert not stopped.membership.lease.is_held
        assert not living.lost

    in_cluster(scenario)
    lines = [record.getMessage() for record in caplog.records if "node 1" in record.getMessage()]
    assert sum("cannot resume: node 1 was unregistered, so epoch 1 is fenced" in line for line in lines) == 1
    assert not any("could not resume yet" in line for line in lines)


@scenario(in_cluster)
async def test_n19_beats_go_on_while_an_append_hangs(cluster: ClusterWorld) -> None:
    node = cluster.nodes[1]
    node.metadata_calls.free.clear()
    hanging = asyncio.ensure_future(node.metadata.execute(PutKey("a", b"1")))
    before = node.membership.statistics().beats
    await cluster.passes(10_000)
    assert node.membership.statistics().beats >= before + 9
    assert node.membership.lease.is_held
    assert cluster.written(NodeFenced) == []
    node.metadata_calls.free.set()
    assert await hanging == b"1"


@scenario(in_cluster)
async def test_a_lease_counts_from_the_sending_of_a_beat_not_from_its_answer(cluster: ClusterWorld) -> None:
    """The others count the silence from then on."""
    node = cluster.nodes[1]
    node.board_calls.free.clear()
    beats = node.membership.statistics().beats
    while node.membership.statistics().beats == beats:
        await cluster.passes(100)
    sent_ms = node.clock.monotonic_ms()
    await cluster.passes(1_500)
    node.board_calls.free.set()
    await cluster.passes(100)
    node.board_calls.free.clear()
    await cluster.passes(SESSION_MS - 1_800)
    assert node.clock.monotonic_ms() - sent_ms < SESSION_MS and node.membership.lease.is_held
    await cluster.passes(400)
    assert node.clock.monotonic_ms() - sent_ms > SESSION_MS and not node.membership.lease.is_held


@scenario(in_cluster)
async def test_n08_a_node_whose_board_hangs_knows_that_its_lease_is_over_before_it_is_fenced(
    cluster: ClusterWorld,
) -> None:
    node = cluster.nodes[1]
    node.board_calls.free.clear()
    held_when_fenced = None
    for _ in range(100):
        await cluster.passes(100)
        if held_when_fenced is None and cluster.written(NodeFenced):
            held_when_fenced = node.membership.lease.is_held
    assert held_when_fenced is False
    assert node.membership.statistics().times_resumed == 0, "it cannot beat, so it would be fenced again"
    node.board_calls.free.set()
    await cluster.passes(5_000)
    assert cluster.image.nodes[1].is_live and node.membership.lease.is_held
    assert len(cluster.written(NodeFenced)) == 1


@scenario(in_cluster)
async def test_a_node_whose_failover_was_claimed_meanwhile_stops(cluster: ClusterWorld) -> None:
    cluster.freeze(1)
    await cluster.passes(8_000)
    await cluster.nodes[0].metadata.execute(ClaimFailover(0, 1, 1))
    await cluster.thaw(1)
    await cluster.passes(10_000)
    assert [type(reason) for reason in cluster.nodes[1].lost] == [FencedNode]
    assert cluster.written(NodeResumed) == []


@scenario(in_cluster, count=1)
async def test_a_single_node_beats_and_writes_nothing_to_the_log(cluster: ClusterWorld) -> None:
    version = cluster.image.version
    await cluster.passes(30_000)
    assert cluster.nodes[0].metadata.image.version == version
    assert 30 <= cluster.nodes[0].membership.statistics().beats <= 34


# -- calls to the board ---------------------------------------------------------------------------------------


@in_loop
async def test_a_call_that_hangs_ends_at_the_deadline_and_none_is_queued_behind_it() -> None:
    clock, held, board = ManualClock(), HeldCalls(), MemoryBoard()
    calls = BoardCalls(board, held, clock)
    held.free.clear()
    first = asyncio.ensure_future(calls.beats())
    await asyncio.sleep(0)
    clock.advance_ms(BOARD_DEADLINE_MS)
    with pytest.raises(BoardUnavailable, match="did not answer in 2000 ms"):
        await asyncio.wait_for(first, 60)


@in_loop
async def test_while_a_call_is_in_its_thread_no_other_is_made() -> None:
    clock, board, threads = ManualClock(), BoardOnASlowDisk(), ThreadedCalls("leases", 1)
    calls = BoardCalls(board, threads, clock)
    first = asyncio.ensure_future(calls.beats())
    await asyncio.to_thread(board.is_asked.wait, 60)
    clock.advance_ms(BOARD_DEADLINE_MS)
    with pytest.raises(BoardUnavailable, match="did not answer in 2000 ms"):
        await asyncio.wait_for(first, 60)
    for _ in range(3):
        with pytest.raises(BoardUnavailable, match="an earlier call"):
            await calls.beats()
    board.may_answer.set()
    await asyncio.to_thread(board.has_answered.wait, 60)
    await threads.run(lambda: None)  # the thread is free again
    assert await asyncio.wait_for(calls.beats(), 60) == ()
    assert board.calls == 2
    threads.close()


class BoardOnASlowDisk(MemoryBoard):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.is_asked, self.may_answer, self.has_answered = (threading.Event() for _ in range(3))

    def beats(self) -> tuple[Beat, ...]:
        self.calls += 1
        self.is_asked.set()
        self.may_answer.wait(60)
        self.has_answered.set()
        return super().beats()


# -- the same id twice ----------------------------------------------------------------------------------------


async def started_beside(board: MemoryBoard, each_second: Callable[[int], None]) -> float:
    """A second process that would start under node 3's id: the milliseconds it waited. Raises NodeIdInUse."""
    world = MetadataWorld()
    world.register_reachable(3, "first")
    clock = ManualClock()
    began_ms = clock.monotonic_ms()
    calls = BoardCalls(board, HeldCalls(), clock)
    waiting = asyncio.ensure_future(wait_until_silent(calls, world.image.nodes[3], clock))
    for second in range(30):
        for _ in range(40):
            await asyncio.sleep(0)
        if waiting.done():
            break
        each_second(second)
        clock.advance_ms(1_000)
    await asyncio.wait_for(waiting, 60)
    return clock.monotonic_ms() - began_ms


def test_n02_a_second_process_under_a_living_node_s_id_is_refused_by_name() -> None:
    board = MemoryBoard()
    board.beat(Beat(3, 1, 1, "first"))

    def beat(second: int) -> None:
        board.beat(Beat(3, 1, second + 2, "first"))

    with pytest.raises(NodeIdInUse, match="another process runs as node 3, with the log wal-of-3"):
        asyncio.run(started_beside(board, beat))


def test_n02_after_a_session_of_silence_the_second_process_may_start() -> None:
    board = MemoryBoard()
    board.beat(Beat(3, 1, 1, "first"))
    waited_ms = asyncio.run(started_beside(board, lambda second: None))
    assert SESSION_MS <= waited_ms <= SESSION_MS + 1_000


def test_n02_a_life_that_has_ended_well_keeps_nobody_waiting() -> None:
    board = MemoryBoard()
    board.beat(Beat(3, 1, 9, ENDED))
    assert asyncio.run(started_beside(board, lambda second: None)) == 0
    board.beat(Beat(3, 0, 9, ENDED))
    assert asyncio.run(started_beside(board, lambda second: None)) >= SESSION_MS, (
        "an older life ended, not this one"
    )


@scenario(in_cluster)
async def test_a_node_that_ends_with_all_others_fences_nobody(cluster: ClusterWorld) -> None:
    cluster.freeze(2)
    await cluster.passes(SESSION_MS - 2_000)
    for node in cluster.nodes:
        node.membership.acts_for_others = False
    await cluster.passes(2 * SESSION_MS)
    assert cluster.written(NodeFenced) == []


def test_n02_beats_of_an_older_life_keep_nobody_waiting() -> None:
    board = MemoryBoard()

    def beat(second: int) -> None:
        board.beat(Beat(3, 0, second, "a zombie"))

    assert asyncio.run(started_beside(board, beat)) <= SESSION_MS + 1_000


def test_n02_while_the_board_is_out_nobody_starts_under_a_known_id() -> None:
    board = BoardOfAll()
    board.is_out = True

    def come_back(second: int) -> None:
        board.is_out = second < 10

    assert asyncio.run(started_beside(board, come_back)) >= 10_000 + SESSION_MS


@scenario(in_cluster, count=2)
async def test_the_number_of_a_beat_is_its_time_and_rises_when_the_clock_goes_back(world) -> None:
    wall = world.nodes[0].clock
    (first, _) = world.board.beats()
    assert abs(first.number - wall.now_ms()) <= 2_000
    wall.now_ms = lambda: 1_600_000_000_000
    await world.passes(3_000)
    (later, _) = world.board.beats()
    assert first.number < later.number <= first.number + 4
