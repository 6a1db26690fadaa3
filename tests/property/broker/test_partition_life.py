"""A partition through many lives, against a plain list of what was acknowledged: records, producers, times and leader
epochs, whatever was trimmed, repeated, left out or lost on its way when the broker crashed."""

from collections import defaultdict
from typing import Any

import msgspec
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from siltstone.kafka_protocol.records.reading import iterate_records
from support.broker.broker_world import WRITE, BrokerWorld, in_broker_world
from support.engine.engine_world import settled
from support.kafka.kafka_batches import bytes_of_records
from support.kafka.kafka_requests import (
    fetch_request,
    list_offsets_request,
    produce_request,
    row_of,
    timed_batch,
)
from support.values.examples import examples

producers = st.integers(0, 1)
times = st.lists(st.integers(0, 9), min_size=1, max_size=3)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), producers, times),
        st.tuples(st.just("send"), producers, times),
        st.tuples(st.just("repeat"), producers, st.integers(1, 7)),
        st.tuples(st.just("skip"), producers, st.none()),
        st.tuples(st.just("bump"), producers, st.none()),
        st.tuples(st.just("lose"), producers, times),
        st.tuples(st.just("trim"), st.integers(0, 12), st.none()),
        st.tuples(st.just("restart"), st.none(), st.none()),
        st.tuples(st.just("crash"), st.none(), st.none()),
    ),
    min_size=5,
    max_size=25,
)


class Sent(msgspec.Struct, frozen=True):
    sequence: int
    times: tuple[int, ...]
    offset: int


class Producer:
    def __init__(self) -> None:
        self.epoch = 0
        self.next_sequence = 0
        self.sent: list[Sent] = []
        """Under this epoch."""


class Play:
    def __init__(self, world: BrokerWorld, topic: Any) -> None:
        self.world = world
        self.topic = topic
        self.records: list[tuple[int, int, int]] = []
        """(offset, time, leader epoch) of all that was acknowledged."""
        self.start = 0
        self.leader_epoch = 0
        self.producers: dict[int, Producer] = defaultdict(Producer)

    @property
    def end(self) -> int:
        return len(self.records)

    # -- steps -------------------------------------------------------------------------------------------

    async def send(self, producer_id: int, taken: list[int]) -> None:
        producer = self.producers[producer_id]
        row = await self._produce(producer_id, producer.next_sequence, tuple(taken))
        assert (row.error_code, row.base_offset) == (0, self.end)
        producer.sent.append(Sent(producer.next_sequence, tuple(taken), self.end))
        producer.next_sequence += len(taken)
        for timestamp_ms in taken:
            self.records.append((self.end, timestamp_ms, self.leader_epoch))

    async def repeat(self, producer_id: int, back: int) -> None:
        producer = self.producers[producer_id]
        if back > len(producer.sent):
            return
        batch = producer.sent[-back]
        row = await self._produce(producer_id, batch.sequence, batch.times)
        if back <= 5:
            assert (row.error_code, row.base_offset) == (0, batch.offset)
        else:
            assert row.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    async def skip(self, producer_id: int, _: None) -> None:
        producer = self.producers[producer_id]
        if producer.sent:
            row = await self._produce(producer_id, producer.next_sequence + 1, (1,))
            assert row.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    async def bump(self, producer_id: int, _: None) -> None:
        """The new epoch becomes known with its first batch."""
        producer = self.producers[producer_id]
        if producer.sent:
            producer.epoch, producer.next_sequence, producer.sent = producer.epoch + 1, 0, []
            await self.send(producer_id, [3])
            row = await self._produce(producer_id, 1, (1,), epoch=producer.epoch - 1)
            assert row.error_code == ErrorCode.INVALID_PRODUCER_EPOCH

    async def lose(self, producer_id: int, taken: list[int]) -> None:
        """The broker crashes while a batch is on its way."""
        await self.world.partition(self.topic)
        self.world.calls.hold(WRITE)
        sequence = self.producers[producer_id].next_sequence
        lost = self.world.client().send(self._request(producer_id, sequence, tuple(taken)))
        await settled()
        assert not lost.done()
        lost.cancel()
        await self.crash(None, None)

    async def trim(self, offset: int, _: None) -> None:
        self.start = max(self.start, min(offset, self.end))
        partition = await self.world.partition(self.topic)
        await self.world.parts.partitions.trim(partition, self.start)

    async def restart(self, *_: None) -> None:
        await self.world.partition(self.topic)
        await self.world.restart()
        self.leader_epoch += 1

    async def crash(self, *_: None) -> None:
        await self.world.partition(self.topic)
        await self.world.crash()
        self.leader_epoch += 1

    def _request(
        self, producer_id: int, sequence: int, taken: tuple[int, ...], epoch: int | None = None
    ) -> Any:
        batch = timed_batch(
            *taken,
            producer_id=producer_id,
            producer_epoch=self.producers[producer_id].epoch if epoch is None else epoch,
            base_sequence=sequence,
        )
        return produce_request(self.topic, batch)

    async def _produce(self, *asked: Any, **fields: Any) -> Any:
        return row_of(await self.world.client().ask(self._request(*asked, **fields)))

    # -- what must hold ----------------------------------------------------------------------------------

    async def check(self) -> None:
        left = self.records[self.start :]
        assert await self._fetched() == [(offset, time) for offset, time, _ in left]
        assert await self._offset_at(-1) == self.end
        assert await self._offset_at(-2) == self.start
        newest = max(left, key=lambda record: record[1], default=(-1,))
        assert await self._offset_at(-3) == newest[0]
        for target in (0, 4, 9):
            assert await self._offset_at(target) == next((at for at, time, _ in left if time >= target), -1)
        for epoch in range(self.leader_epoch + 1):
            known = [held for _, _, held in left if held <= epoch]
            expected = (known[-1], self.start + len(known)) if known else (epoch, self.start)
            if epoch == self.leader_epoch:
                expected = (epoch, self.end)
            assert await self._epoch_end(epoch) == expected

    async def _fetched(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        offset = self.start
        while offset < self.end:
            request = fetch_request(self.topic, {0: offset}, bytes_max=200, wait_ms=0)
            row = row_of(await self.world.client().ask(request))
            assert (row.error_code, row.high_watermark, row.log_start_offset) == (0, self.end, self.start)
            records = [
                record
                for batch in batches_of(memoryview(bytes_of_records(row)))
                for record in iterate_records(batch)
            ]
            found += [(record.offset, record.timestamp_ms) for record in records if record.offset >= offset]
            offset = records[-1].offset + 1
        return found

    async def _offset_at(self, timestamp: int) -> int:
        row = row_of(await self.world.client().ask(list_offsets_request(self.topic, timestamp)))
        assert row.error_code == 0
        return int(row.offset)

    async def _epoch_end(self, epoch: int) -> tuple[int, int]:
        partition = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
        topic = OffsetForLeaderTopic(topic=self.topic.name, partitions=[partition])
        row = row_of(await self.world.client().ask(OffsetForLeaderEpochRequest(topics=[topic])))
        return row.leader_epoch, row.end_offset


def batches_of(records: memoryview) -> list[memoryview]:
    batches = []
    while records:
        end = 12 + int.from_bytes(records[8:12], "big")
        batches.append(records[:end])
        records = records[end:]
    return batches


@settings(
    max_examples=examples(40), phases=[Phase.explicit, Phase.reuse, Phase.generate]
)  # shrinking takes minutes
@given(steps)
def test_items_18_20_23_24_27_33_35_and_37_through_many_lives(taken):
    async def scenario(world: BrokerWorld) -> None:
        play = Play(world, await world.topic())
        await world.partition(play.topic)
        for step, *arguments in taken:
            await getattr(play, step)(*arguments)
        await play.check()

    in_broker_world(scenario, BrokerSettings(partition_snapshot_bytes=300))
