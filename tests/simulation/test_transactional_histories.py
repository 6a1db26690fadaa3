"""Random histories of transactional producers at a broker that crashes: each transaction is a number, which it writes
to some partitions and commits as the offset of its group. Readers of committed records never see a number of a
transaction that was aborted or has not ended; at the end each number is everywhere or nowhere, and the offset of each
group is the newest committed number.

``TRANSACTION_SEED=7 pytest tests/simulation/test_transactional_histories.py -k many`` repeats one.
"""

import asyncio
import os
import random
from collections.abc import Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from siltstone.broker.settings import BrokerSettings
from siltstone.kafka_client.consuming import AbortedBatches, whole_batches
from siltstone.kafka_protocol.batch_header import TRANSACTIONAL_BIT
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.produce import ProducePartition, ProduceRequest, ProduceTopic
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from support.broker.broker_world import ENGINE, WRITE, BrokerWorld, in_broker_world
from support.broker.transaction_clients import NONE, TIMEOUT_MS, TransactionClient, commit_plainly, offset_of
from support.engine.engine_world import settled
from support.kafka.kafka_requests import fetch_request, row_of, rows_of
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried

PARTITIONS = 3
STEPS = 60
ONE_BY_ONE = replace(ENGINE, wal=replace(ENGINE.wal, group_bytes_max=1))
"""Each append is a write of its own, so that a crash may come between any two."""

SETTINGS = BrokerSettings(offsets_topic_num_partitions=2, transaction_state_log_num_partitions=2)


class Program:
    """A program with a transactional id. ``outcomes``: number → committed, aborted, or None: it is not known."""

    def __init__(self, history: "History", name: str, generation: int) -> None:
        self.history, self.name, self.generation = history, name, generation
        self.outcomes: dict[int, bool | None] = {}
        self.places: dict[int, set[int]] = {}
        self.offsets: list[int] = []
        self.client: TransactionClient | None = None
        self.open: int | None = None

    async def begin(self) -> None:
        """Starts an instance if none runs, and writes the first part of a transaction."""
        if self.client is None:
            self.client = TransactionClient(self.history.world, self.generation, self.name)
            if await self.client.init() is not NONE:
                self.client = None
                return
        self.open = self.history.next_number()
        self.outcomes[self.open], self.places[self.open] = None, set()
        await self.write()

    async def write(self) -> None:
        assert self.client is not None and self.open is not None
        partitions = self.history.rng.sample(range(PARTITIONS), self.history.rng.randint(1, PARTITIONS))
        if not self.client.adds_itself and set(await self.client.add("t", *partitions)) != {NONE}:
            self.fail()
            return
        for partition in partitions:
            if await self._produced(partition) is not NONE:
                self.fail()
                return
            self.places[self.open].add(partition)

    async def _produced(self, partition: int) -> ErrorCode:
        client = self.client
        assert client is not None
        sequence = client.sequences.get(("t", partition), 0)
        client.sequences["t", partition] = sequence + 1
        record = Record(timestamp_ms=self.history.world.clock.now_ms(), key=b"k", value=b"%d" % self.open)
        batch = build_batch(
            [record], producer_id=client.pid, producer_epoch=client.epoch, base_sequence=sequence,
            attributes=TRANSACTIONAL_BIT,
        )  # fmt: skip
        named = ProduceTopic(name="t", partitions=[ProducePartition(index=partition, records=batch)])
        request = ProduceRequest(
            acks=-1, timeout_ms=30_000, topics=[named], transactional_id=self.name
        )  # version 12 names topics
        (row,) = rows_of(await client.client.ask(request, client.versions["produce"]))
        return ErrorCode(row.error_code)

    async def end(self, commits: bool) -> None:
        assert self.client is not None and self.open is not None
        number = self.open
        if commits:
            if not self.client.adds_itself and await self.client.add_offsets(self.name) is not NONE:
                self.fail()
                return
            if await self.client.commit_offsets(self.name, "t", {0: number}) != [NONE]:
                self.fail()
                return
            self.offsets.append(number)
        if await self.client.end(commits) is not NONE:
            self.fail()
            return
        self.outcomes[number] = commits
        self.open = None

    def fail(self) -> None:
        """The program ends without knowing; the next instance begins anew."""
        self.client = self.open = None


class History:
    def __init__(self, world: BrokerWorld, seed: int) -> None:
        self.world = world
        self.rng = random.Random(seed)
        self._number = 0
        self.programs = [Program(self, f"p{each}", 1 + each % 2) for each in range(3)]
        self.stable = [0] * PARTITIONS

    def next_number(self) -> int:
        self._number += 1
        return self._number

    async def run(self) -> None:
        self.topic = await self.world.topic("t", partitions=PARTITIONS)
        for _ in range(STEPS):
            await self.step()
            await self.check()
        for program in self.programs:
            program.fail()
        for _ in range(3):
            await self.world.pass_ms(2 * TIMEOUT_MS)
            for _ in range(20):
                await settled()
        await self.check_the_end()

    async def step(self) -> None:
        program = self.rng.choice(self.programs)
        work = self._work(program)
        match self.rng.randrange(12):
            case 0:
                await self._crash_during(program, work)
            case 1:
                work.close()
                await self.world.restart()
                await self._loaded()
                for each in self.programs:
                    self._continued(each)
            case 2:
                work.close()
                await self.world.pass_ms(self.rng.choice([1_000, TIMEOUT_MS + 1]))
                await self._loaded()
            case 3:
                work.close()
                program.fail()
            case 4:
                work.close()
                await commit_plainly(self.world, "other", "t", self.rng.randrange(100))
                for coordinator in self.world.parts.groups._coordinators.values():
                    coordinator._is_checkpointing = True
                    await coordinator._checkpoint()
            case _:
                await work

    async def _work(self, program: Program) -> None:
        if program.open is None:
            await program.begin()
        elif self.rng.random() < 0.5:
            await program.write()
        else:
            await program.end(self.rng.random() < 0.7)

    async def _crash_during(self, program: Program, work: Coroutine[Any, Any, None]) -> None:
        """Nothing or a part of what the work appends is on the disk when the broker crashes."""
        task = asyncio.ensure_future(work)
        for _ in range(self.rng.randrange(60)):
            await asyncio.sleep(0)
        self.world.calls.hold(WRITE)
        for _ in range(self.rng.randrange(60)):
            await asyncio.sleep(0)
        is_answered = task.done()
        await self.world.crash()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for each in self.programs:
            is_without_answer = each is program and not is_answered
            each.fail() if is_without_answer or self.rng.random() < 0.5 else self._continued(each)
        await self._loaded()

    def _continued(self, program: Program) -> None:
        """The program lives on, and connects again. A request without an answer ends it."""
        if program.client is not None:
            before, program.client = (
                program.client,
                TransactionClient(self.world, program.generation, program.name),
            )
            program.client.pid, program.client.epoch = before.pid, before.epoch
            program.client.sequences = before.sequences

    async def _loaded(self) -> None:
        for _ in range(20):
            await settled()

    async def committed(self, partition: int) -> list[int]:
        found, position = [], 0
        while True:
            request = fetch_request(self.topic, {partition: position}, isolation_level=1, wait_ms=0)
            row = row_of(await self.world.client().ask(request))
            assert row.error_code == 0
            assert row.last_stable_offset >= self.stable[partition], "what was shown is hidden again"
            self.stable[partition] = row.last_stable_offset
            batches = list(whole_batches(memoryview(bytes(row.records[0] if row.records else b""))))
            if not batches:
                return found
            aborted = AbortedBatches(row)
            for header, batch in batches:
                if not (aborted.has(header, batch) or header.is_control):
                    found += [int(bytes(record.value)) for record in iterate_records(batch)]
                position = header.end_offset

    def outcomes(self) -> dict[int, bool | None]:
        return {number: each for program in self.programs for number, each in program.outcomes.items()}

    async def check(self) -> None:
        open_now = {program.open for program in self.programs}
        outcomes = self.outcomes()
        for partition in range(PARTITIONS):
            for number in await self.committed(partition):
                assert outcomes[number] is not False, f"{number} was aborted"
                assert number not in open_now, f"{number} has not ended"

    async def check_the_end(self) -> None:
        found = [await self.committed(partition) for partition in range(PARTITIONS)]
        for partition in range(PARTITIONS):
            opened = await self.world.partition(self.topic, partition)
            assert opened.last_stable_offset == opened.high_watermark, "nothing is left open"
        for program in self.programs:
            seen = []
            for number, outcome in program.outcomes.items():
                there = {partition for partition in range(PARTITIONS) if number in found[partition]}
                assert there in (set(), program.places[number]), f"{number} is torn: {there}"
                assert outcome is None or bool(there) is outcome or not program.places[number]
                seen += [number] if there and number in program.offsets else []
            expected = seen[-1] if seen else -1
            assert await offset_of(self.world, program.name, "t") == expected, (
                "offset and data are of one piece"
            )


def run_history(seed: int) -> None:
    in_broker_world(lambda world: History(world, seed).run(), SETTINGS, ONE_BY_ONE)


@pytest.mark.parametrize("seed", range(12))
def test_tx31_tg9_no_history_shows_a_torn_transaction(seed: int) -> None:
    run_history(seed)


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("part", range(4))
def test_tx31_many_histories_show_no_torn_transaction(part: int, record_tried: RecordTried) -> None:
    seed = seed_of_this_run("TRANSACTION_SEED")
    count = 1 if "TRANSACTION_SEED" in os.environ else 50
    record_tried("histories", count)
    for number in range(count):
        run_history(seed + 1_000 * part + number)
