"""AC15: what a hundred thousand bindings cost a producer that has its right, in time of the processor."""

import asyncio
import gc
import time
from pathlib import Path
from statistics import median

import pytest
from msgspec.structs import replace

from siltstone.broker.settings import BrokerSettings
from siltstone.metadata.acls import CreateAcls
from siltstone.model.acls import AclBinding, AclOperation, AclResourceType, PatternType
from support.broker.broker_world import ENGINE, FOR_EVER_MS, BrokerWorld, Client
from support.kafka.raw_calls import RawTopic, batch_of, produce_request
from support.processes.tried import RecordTried
from support.security.rights import allow, client_of, switch

BINDINGS = 100_000
BINDINGS_AT_ONCE = 1_000
ROUNDS, PRODUCES = 400, 20
SHARE_MAX = 1.02
TOPIC, WRITE = AclResourceType.TOPIC, AclOperation.WRITE


def of_others() -> list[AclBinding]:
    """Of a thousand users, half of them prefixes; each of them fits no topic here."""
    patterns = (PatternType.LITERAL, PatternType.PREFIXED)
    binding = allow(WRITE, TOPIC, "x")
    return [
        replace(
            binding,
            name=f"topic-{number}",
            principal=f"User:u{number % 1_000}",
            pattern_type=patterns[number % 2],
        )
        for number in range(BINDINGS - 1)
    ]


async def opened(folder: Path, others: list[AclBinding]) -> tuple[BrokerWorld, Client]:
    folder.mkdir()
    world = BrokerWorld(folder, BrokerSettings(security_stale_ms_max=FOR_EVER_MS), ENGINE)
    await world.start()
    await world.topic("t")
    await switch(world, allow(WRITE, TOPIC, "t"))
    for first in range(0, len(others), BINDINGS_AT_ONCE):
        await world.parts.metadata.execute(CreateAcls(tuple(others[first : first + BINDINGS_AT_ONCE])))
    return world, client_of(world)


async def seconds_of(client: Client) -> float:
    request = produce_request(RawTopic("t"), {0: batch_of(value_bytes=16 * 1024)})
    begun = time.process_time()
    for _ in range(PRODUCES):
        (row,) = (await client.ask(request, 9)).topics[0].partitions
        assert row.error_code == 0
    return time.process_time() - begun


@pytest.mark.nightly(tried="produces")
def test_ac15_a_produce_costs_the_same_among_a_hundred_thousand_bindings(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    """In turns of a few milliseconds, so that a busy machine slows both; the median of the pairs counts."""

    async def main() -> float:
        worlds = [await opened(tmp_path / "few", []), await opened(tmp_path / "many", of_others())]
        gc.collect()
        gc.freeze()
        took: list[list[float]] = [[], []]
        for _ in range(ROUNDS):
            for times, (_, client) in zip(took, worlds, strict=True):
                times.append(await seconds_of(client))
        for world, _ in worlds:
            await world.stop()
        return median(many / few for few, many in zip(*took, strict=True))

    try:
        share = asyncio.run(main())
    finally:
        gc.unfreeze()
    assert share <= SHARE_MAX
    record_tried("produces", 2 * ROUNDS * PRODUCES)
