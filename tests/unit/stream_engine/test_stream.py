import asyncio

import numpy as np
import pytest

from siltstone.metadata.entities import StreamMetadata, StreamState
from siltstone.object_formats.batch_frame import ImpossibleBatch
from siltstone.stream_engine.errors import StreamHandleClosed
from siltstone.stream_engine.stream import Stream
from support.engine.engine_world import settled
from support.scenarios import in_loop


def stream_at(end_offset: int = 0, start_offset: int = 0) -> Stream:
    return Stream(
        StreamMetadata(
            7, StreamState.OPENED, 3, 0, start_offset, end_offset, owner_ranges=(), ranges=(), tags={}
        )
    )


def test_a_stream_begins_at_its_committed_end():
    stream = stream_at(100, 40)
    assert (stream.start_offset, stream.confirmed_offset, stream.next_offset) == (40, 100, 100)
    assert (stream.stream_id, stream.epoch) == (7, 3)


def test_offsets_are_taken_in_call_order():
    stream = stream_at(10)
    first, second = stream.next_batch(b"a", 3, 5, 6), stream.next_batch(b"b", 1)
    assert (first.base_offset, first.end_offset, second.base_offset, second.end_offset) == (10, 13, 13, 14)
    assert (first.stream_id, first.stream_epoch, first.record_count) == (7, 3, 3)
    assert (first.smallest_timestamp_ms, first.largest_timestamp_ms, first.payload) == (5, 6, b"a")
    assert stream.confirmed_offset == 10


@pytest.mark.parametrize(
    ("records", "smallest", "largest"),
    [(0, 0, 0), (-1, 0, 0), (1, 2**63, 0), (1, 0, 2**63), (2**64, 0, 0), (2**63 - 10, 0, 0)],
)
def test_a_batch_that_no_log_can_hold_takes_no_offsets(records, smallest, largest):
    stream = stream_at(10)
    with pytest.raises(ImpossibleBatch):
        stream.next_batch(b"a", records, smallest, largest)
    assert stream.next_offset == 10


@pytest.mark.parametrize("wrong", [(1.0, 0, 0), ("1", 0, 0), (None, 0, 0), (1, 0.5, 1), (1, 0, "now")])
def test_what_is_no_integer_takes_no_offsets(wrong):
    stream = stream_at(10)
    with pytest.raises(TypeError):
        stream.next_batch(b"a", *wrong)
    assert stream.next_offset == 10


def test_integers_of_numpy_become_plain_ones():
    stream = stream_at(10)
    batch = stream.next_batch(b"a", np.int64(2), np.int64(5), np.int32(6))
    numbers = (batch.end_offset, batch.record_count, batch.smallest_timestamp_ms, batch.largest_timestamp_ms)
    assert numbers == (12, 2, 5, 6)
    assert {type(number) for number in (*numbers, stream.next_offset)} == {int}


@in_loop
async def test_waiters_are_woken_by_the_confirmation_that_covers_their_offset_and_by_no_other() -> None:
    stream = stream_at()
    waiters = {offset: asyncio.ensure_future(stream.wait_for(offset)) for offset in (4, 0, 5, 9)}
    await settled()
    stream.confirm(5)
    await settled()
    assert {offset for offset, waiter in waiters.items() if waiter.done()} == {0, 4}
    stream.confirm(6)
    await settled()
    assert {offset for offset, waiter in waiters.items() if waiter.done()} == {0, 4, 5}
    stream.close()
    await settled()
    assert waiters[9].done()


@in_loop
async def test_what_may_be_read_already_is_not_waited_for() -> None:
    stream = stream_at(10)
    await asyncio.wait_for(stream.wait_for(9), 60)
    stream.close()
    await asyncio.wait_for(stream.wait_for(9), 60)


@in_loop
async def test_waiters_that_give_up_leave_nothing_behind() -> None:
    stream = stream_at()
    patient = asyncio.ensure_future(stream.wait_for(3))
    for _ in range(100):
        waiter = asyncio.ensure_future(stream.wait_for(0))
        await settled(2)
        waiter.cancel()
        await settled(2)
    assert stream.waiters == 1
    stream.confirm(4)
    await asyncio.wait_for(patient, 60)


@in_loop
async def test_a_failure_is_told_to_who_waits_and_to_who_would_wait() -> None:
    stream = stream_at(5)
    waiter = asyncio.ensure_future(stream.wait_for(5))
    await settled()
    stream.fail(RuntimeError("fenced"))
    with pytest.raises(RuntimeError, match="fenced"):
        await waiter
    with pytest.raises(RuntimeError, match="fenced"):
        await stream.wait_for(6)
    await stream.wait_for(4)


@in_loop
async def test_who_waits_at_a_closed_stream_is_refused_and_not_sent_round_in_circles() -> None:
    stream = stream_at(5)
    waiter = asyncio.ensure_future(stream.wait_for(5))
    await settled()
    stream.close()
    await waiter
    with pytest.raises(StreamHandleClosed, match="was closed"):
        await stream.wait_for(5)
    await stream.wait_for(4)


def test_a_confirmation_never_goes_back():
    stream = stream_at(5)
    with pytest.raises(AssertionError):
        stream.confirm(5)


def test_a_trim_never_goes_back():
    stream = stream_at(10)
    stream.trim(5)
    stream.trim(3)
    assert stream.start_offset == 5


def test_watchers_hear_of_every_change_and_of_the_end():
    stream = stream_at(10)
    heard = []
    stream.watch(lambda: heard.append((stream.start_offset, stream.confirmed_offset, stream.is_closed)))
    stream.confirm(12)
    stream.trim(5)
    stream.trim(3)
    stream.close()
    stream.close()
    assert heard == [(0, 12, False), (5, 12, False), (5, 12, True)]


def test_watchers_hear_of_a_failure():
    stream = stream_at(10)
    heard = []
    stream.watch(lambda: heard.append(stream.failure))
    failure = RuntimeError("fenced")
    stream.fail(failure)
    assert heard == [failure]


def test_who_unwatches_hears_no_more_also_in_the_middle_of_being_told():
    stream = stream_at(10)
    heard = []

    def once():
        heard.append("once")
        stream.unwatch(once)

    def always():
        heard.append("always")

    for callback in (once, always, always):
        stream.watch(callback)
    assert stream.watchers == 2
    stream.confirm(11)
    stream.confirm(12)
    assert heard == ["once", "always", "always"]
    stream.unwatch(once)
    stream.unwatch(always)
    stream.confirm(13)
    assert len(heard) == 3 and stream.watchers == 0


def test_a_watcher_that_fails_costs_nobody_else_anything(caplog):
    stream = stream_at(10)
    heard = []
    stream.watch(lambda: 1 / 0)
    stream.watch(lambda: heard.append(stream.confirmed_offset))
    stream.confirm(11)
    assert heard == [11]
    assert "a watcher of stream 7 failed" in caplog.text


def test_a_trim_tells_its_listener_and_the_watchers_once_and_never_goes_back():
    stream, told = stream_at(10, 4), []
    stream.trim(5)  # nobody listens yet
    stream.on_trim = lambda: told.append(("listener", stream.start_offset))
    stream.watch(lambda: told.append(("watcher", stream.start_offset)))
    for start_offset in (7, 7, 6):
        stream.trim(start_offset)
    assert told == [("listener", 7), ("watcher", 7)] and stream.start_offset == 7
