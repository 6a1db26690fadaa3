"""Random histories of transactional producers at a broker that crashes: each transaction is a number, which it writes
to some partitions and commits as the offset of its group. Readers of committed records never see a number of a
transaction that was aborted or has not ended; at the end each number is everywhere or nowhere, and the offset of each
group is the newest committed number.

``TRANSACTION_SEED=7 pytest tests/simulation/test_transactional_histories.py -k many`` repeats one.
"""

import asyncio
import os
from collections.abc import Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from siltstone.broker.settings import BrokerSettings
from support.broker.broker_world import ENGINE, WRITE, in_broker_world
from support.broker.transaction_clients import TIMEOUT_MS, TransactionClient, commit_plainly
from support.broker.transactional_programs import PARTITIONS, History, Program
from support.engine.engine_world import settled
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried

STEPS = 60
ONE_BY_ONE = replace(ENGINE, wal=replace(ENGINE.wal, group_bytes_max=1))
"""Each append is a write of its own, so that a crash may come between any two."""

SETTINGS = BrokerSettings(offsets_topic_num_partitions=2, transaction_state_log_num_partitions=2)


class BrokerHistory(History):
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
        work = self.work(program)
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
                    await coordinator._life._checkpoint(coordinator._checkpoint)
            case _:
                await work

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


def run_history(seed: int) -> None:
    in_broker_world(lambda world: BrokerHistory(world, seed).run(), SETTINGS, ONE_BY_ONE)


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
