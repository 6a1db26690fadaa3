"""The producers, the consumers and the steps that all scenarios use. A scenario is a coroutine; its questions to the
stage block, so a thread asks them (``asked``)."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import BrokerResponseError, KafkaError, RequestTimedOutError, UnsupportedVersionError

from conformance.drivers.scenario import Mismatch, Scenario, same

SECONDS_MAX = 60
AsyncScenario = Callable[[Scenario], Coroutine[Any, Any, None]]


def run_to_end(scenario: AsyncScenario) -> Callable[[Scenario], None]:
    return lambda given: asyncio.run(scenario(given))


async def asked(scenario: Scenario, name: str, **arguments: object) -> Any:
    return await asyncio.to_thread(scenario.ask, name, **arguments)


@asynccontextmanager
async def producer(scenario: Scenario, **configs: Any) -> AsyncIterator[AIOKafkaProducer]:
    opened = AIOKafkaProducer(**{"bootstrap_servers": scenario.bootstrap, "linger_ms": 20, **configs})
    await opened.start()
    try:
        yield opened
    finally:
        await opened.stop()


def new_consumer(scenario: Scenario, group: str = "", **configs: Any) -> AIOKafkaConsumer:
    settings = {
        "bootstrap_servers": scenario.bootstrap, "group_id": f"{scenario.name}{group}",
        "auto_offset_reset": "earliest", "enable_auto_commit": False, "fetch_max_wait_ms": 100,
    }  # fmt: skip
    return AIOKafkaConsumer(**{**settings, **configs})


@asynccontextmanager
async def consumer(scenario: Scenario, group: str = "", **configs: Any) -> AsyncIterator[AIOKafkaConsumer]:
    opened = new_consumer(scenario, group, **configs)
    await opened.start()
    try:
        yield opened
    finally:
        await opened.stop()


@asynccontextmanager
async def admin_client(scenario: Scenario) -> AsyncIterator[AIOKafkaAdminClient]:
    opened = AIOKafkaAdminClient(bootstrap_servers=scenario.bootstrap)
    await opened.start()
    try:
        yield opened
    finally:
        await opened.close()


async def send(sender: AIOKafkaProducer, topic: str, records: Iterable[dict[str, Any]]) -> list[Any]:
    """Returns the broker's answer for each record. Raises the first refusal."""
    futures = [await sender.send(topic, **record) for record in records]
    return await asyncio.wait_for(asyncio.gather(*futures), SECONDS_MAX)


async def send_values(scenario: Scenario, topic: str, values: Iterable[bytes], **configs: Any) -> list[Any]:
    async with producer(scenario, **configs) as sender:
        return await send(sender, topic, ({"value": value} for value in values))


async def read(reader: AIOKafkaConsumer, count: int, seconds_max: float = SECONDS_MAX) -> list[Any]:
    """Reads the next ``count`` records. Raises Mismatch when they do not arrive."""
    got: list[Any] = []
    deadline = time.monotonic() + seconds_max
    while len(got) < count:
        if time.monotonic() > deadline:
            raise Mismatch(f"{len(got)} of {count} records within {seconds_max:.0f} s")
        for records in (await reader.getmany(timeout_ms=200, max_records=count - len(got))).values():
            got += records
    return got


async def read_from(
    scenario: Scenario, topic: str, count: int, partitions: int = 1, **configs: Any
) -> list[Any]:
    """Reads from the beginning, by assignment."""
    async with consumer(scenario, **configs) as reader:
        assigned = [TopicPartition(topic, partition) for partition in range(partitions)]
        reader.assign(assigned)
        await reader.seek_to_beginning(*assigned)
        return await read(reader, count)


def values_of(records: Iterable[Any]) -> list[bytes | None]:
    return [record.value for record in records]


async def nothing_comes(reader: AIOKafkaConsumer, seconds: float = 0.7) -> None:
    for records in (await reader.getmany(timeout_ms=int(seconds * 1000))).values():
        raise Mismatch(f"a record came that must not: {records[0].value!r}")


async def until(
    what: str, condition: Callable[[], Awaitable[object]], seconds_max: float = SECONDS_MAX
) -> None:
    deadline = time.monotonic() + seconds_max
    while not await condition():
        if time.monotonic() > deadline:
            raise Mismatch(f"not within {seconds_max:.0f} s: {what}")
        await asyncio.sleep(0.05)


async def refused(error: type[Exception], call: Awaitable[object]) -> None:
    try:
        await call
    except KafkaError as told:
        same("error", type(told).__name__, error.__name__)
    else:
        raise Mismatch(f"it was done where {error.__name__} is right")


def refusal(error: Exception) -> str | None:
    if isinstance(error, RequestTimedOutError) or not isinstance(
        error, BrokerResponseError | UnsupportedVersionError
    ):
        return None
    return f"{type(error).__name__}: {error}"
