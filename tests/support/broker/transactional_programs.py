"""Programs with transactional ids, and what readers of committed records must see of them: ``History`` is the base of
the random histories of one broker and of a cluster."""

import random
from typing import Any

from siltstone.broker.topics.registry import Topic
from siltstone.kafka_client.consuming import AbortedBatches, whole_batches
from siltstone.kafka_protocol.batch_header import TRANSACTIONAL_BIT
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.produce import ProducePartition, ProduceRequest, ProduceTopic
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from support.broker.transaction_clients import NONE, TransactionClient, ends, offset_of
from support.kafka.kafka_requests import fetch_request, row_of, rows_of

PARTITIONS = 3


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
            if await self.produced_to(partition) is not NONE:
                self.fail()
                return

    async def produced_to(self, partition: int) -> ErrorCode:
        client = self.client
        assert client is not None
        sequence = client.sequences.get(("t", partition), 0)
        client.sequences["t", partition] = sequence + 1
        number = self.open
        assert number is not None
        answer = await produced(self.history, client, number, partition, sequence)
        if answer is NONE:
            self.places[number].add(partition)
        return answer

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


async def produced(
    history: "History", client: TransactionClient, number: int, partition: int, sequence: int
) -> ErrorCode:
    record = Record(timestamp_ms=history.world.clock.now_ms(), key=b"k", value=b"%d" % number)
    batch = build_batch(
        [record], producer_id=client.pid, producer_epoch=client.epoch, base_sequence=sequence,
        attributes=TRANSACTIONAL_BIT,
    )  # fmt: skip
    named = ProduceTopic(name="t", partitions=[ProducePartition(index=partition, records=batch)])
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topics=[named], transactional_id=client.name
    )  # version 12 names topics
    (row,) = rows_of(await client.client.ask(request, client.versions["produce"]))
    return ErrorCode(row.error_code)


class History:
    """``world``: a broker, or a cluster that looks like one. ``stable``: the last stable offset of each partition that
    was told."""

    topic: Topic

    def __init__(self, world: Any, seed: int) -> None:
        self.world = world
        self.rng = random.Random(seed)
        self._number = 0
        self.programs = [Program(self, f"p{each}", 1 + each % 2) for each in range(3)]
        self.stable = [0] * PARTITIONS
        self.is_over = False

    def next_number(self) -> int:
        self._number += 1
        return self._number

    async def work(self, program: Program) -> None:
        if program.open is None:
            await program.begin()
        elif self.rng.random() < 0.5:
            await program.write()
        else:
            await program.end(self.rng.random() < 0.7)

    async def fetched(self, partition: int, position: int) -> Any:
        """Returns what the leader answers to a reader of committed records."""
        request = fetch_request(self.topic, {partition: position}, isolation_level=1, wait_ms=0)
        row = row_of(await self.world.client().ask(request))
        assert row.error_code == 0
        return row

    async def committed(self, partition: int) -> list[int]:
        found: list[int] = []
        position = 0
        while True:
            row = await self.fetched(partition, position)
            assert row.last_stable_offset >= self.stable[partition], "what was shown is hidden again"
            self.stable[partition] = row.last_stable_offset
            batches = list(whole_batches(memoryview(bytes(row.records[0] if row.records else b""))))
            if not batches:
                return found
            aborted = AbortedBatches(row)
            for header, batch in batches:
                if not (aborted.has(header, batch) or header.is_control):
                    found += [int(bytes(record.value or b"")) for record in iterate_records(batch)]
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
            stable, end = await ends(self.world, self.topic, partition)
            assert stable == end, f"nothing is left open in {partition}"
        for program in self.programs:
            allowed = {-1}
            for number, outcome in program.outcomes.items():
                there = {partition for partition in range(PARTITIONS) if number in found[partition]}
                assert there in (set(), program.places[number]), f"{number} is torn: {there}"
                assert outcome is None or bool(there) is outcome or not program.places[number]
                if number in program.offsets:
                    # A transaction may have offsets alone: whether it was committed is then what the program was told.
                    has_offsets_alone = not program.places[number]
                    if there or (has_offsets_alone and outcome):
                        allowed = {number}
                    elif has_offsets_alone and outcome is None:
                        allowed.add(number)
            offset = await offset_of(self.world, program.name, "t")
            assert offset in allowed, "offset and data are of one piece"
