"""A consumer with a fetch session knows at any time what a consumer without one would be answered (item 34): only rows
that have not changed are left out."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.kafka_protocol.messages.fetch import FetchPartition
from support.broker.broker_world import BrokerWorld, in_broker_world
from support.kafka.kafka_requests import batch_of, batches_in, fetch_request, produce_request, rows_of
from support.values.examples import examples

PARTITIONS = 4
indexes = st.integers(0, PARTITIONS - 1)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), indexes),
        st.tuples(st.just("trim"), indexes),
        st.tuples(st.just("ask"), st.integers(0, PARTITIONS)),  # the last one does not exist
        st.tuples(st.just("forget"), st.integers(0, PARTITIONS)),
        st.tuples(st.just("rewind"), indexes),
        st.tuples(st.just("fetch"), st.just(0)),
        st.tuples(st.just("fetch"), st.just(0)),
    ),
    max_size=25,
)


class Known(msgspec.Struct):
    """The last answer to a consumer about a partition."""

    error_code: int
    high_watermark: int
    log_start_offset: int


class Consumer:
    """As in Java: sends what has changed since the last fetch, and remembers the rows that the broker leaves out."""

    def __init__(self, world: BrokerWorld, topic: Any) -> None:
        self._client = world.client()
        self._topic = topic
        self.positions = {0: 0}
        self._asked: dict[int, int] = {}
        self._session_id = self._epoch = 0
        self.known: dict[int, Known] = {}

    async def fetch(self) -> dict[int, list[tuple[int, int]]]:
        """The batches that came; every answer must be for a partition that is asked for."""
        changed = {index: at for index, at in self.positions.items() if self._asked.get(index) != at}
        forgotten = [index for index in self._asked if index not in self.positions]
        request = fetch_request(
            self._topic, wanted(changed), session_id=self._session_id, session_epoch=self._epoch,
            forgotten=forgotten, wait_ms=0,
        )  # fmt: skip
        response = await self._client.ask(request)
        assert response.error_code == 0
        self._session_id, self._epoch = response.session_id, self._epoch + 1
        self._asked = dict(self.positions)
        if not response.session_id:
            self._epoch, self._asked = 0, {}
        for index in forgotten:
            self.known.pop(index, None)
        for row in rows_of(response):
            assert row.index in self.positions
            self.known[row.index] = known_from(row)
        return {row.index: batches_in(row) for row in rows_of(response) if row.records}


def wanted(positions: dict[int, int]) -> list[FetchPartition]:
    return [
        FetchPartition(index=index, fetch_offset=offset, bytes_max=1 << 20)
        for index, offset in positions.items()
    ]


def known_from(row: Any) -> Known:
    return Known(row.error_code, row.high_watermark, row.log_start_offset)


async def play(world: BrokerWorld, taken: list[tuple[str, int]]) -> None:
    topic = await world.topic(partitions=PARTITIONS)
    plain_client = world.client()
    consumer = Consumer(world, topic)
    for step, index in [*taken, ("fetch", 0)]:
        if step == "append":
            batches = [batch_of() if number == index else None for number in range(PARTITIONS)]
            await plain_client.ask(produce_request(topic, *batches))
        elif step == "trim":
            partition = await world.partition(topic, index)
            await world.parts.partitions.trim(partition, partition.high_watermark)
        elif step == "ask":
            consumer.positions.setdefault(index, 0)
        elif step == "forget":
            consumer.positions.pop(index, None)
        elif step == "rewind":
            consumer.positions[index] = 0
        else:
            plain = await plain_client.ask(fetch_request(topic, wanted(consumer.positions), wait_ms=0))
            came = await consumer.fetch()
            rows = rows_of(plain)
            assert consumer.known == {row.index: known_from(row) for row in rows}
            assert came == {row.index: batches_in(row) for row in rows if row.records}
            for number, batches in came.items():
                consumer.positions[number] = batches[-1][1] + 1


@settings(max_examples=examples(50))
@given(steps)
def test_item_34_incremental_equals_full(taken):
    in_broker_world(lambda world: play(world, taken))
