"""A Kafka client in a process of its own, from offsets to the end of partition 0:

    python -m support.kafka.consume_to_end CLIENT SERVERS TOPIC END OFFSET…

Answers, as JSON, for each OFFSET the records it found: offset, key and value (hex). Fails when it does not come to END.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

SECONDS_MAX = 60.0
POLLS_MAX = 100

Found = list[tuple[int, str | None, str | None]]
Consume = Callable[[str, str, int, int], Found]


def by_confluent(servers: str, topic: str, offset: int, end: int) -> Found:
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, offset)])
    found: Found = []
    try:
        while True:
            message = consumer.poll(SECONDS_MAX)
            assert message is not None, f"nothing came after {found[-1:]}"
            error = message.error()
            if error is None:
                found.append(_row(message.offset(), message.key(), message.value()))
            else:
                assert (error.code(), message.offset()) == (KafkaError._PARTITION_EOF, end), error
                return found
    finally:
        consumer.close()


def by_kafka_python(servers: str, topic: str, offset: int, end: int) -> Found:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False)
    partition = TopicPartition(topic, 0)
    found: Found = []
    try:
        consumer.assign([partition])
        consumer.seek(partition, offset)
        for _ in range(POLLS_MAX):
            if consumer.position(partition) >= end:
                return found
            found += _rows(consumer.poll(timeout_ms=1000).values())
        raise AssertionError(f"position {consumer.position(partition)} of {end}")
    finally:
        consumer.close()


def by_aiokafka(servers: str, topic: str, offset: int, end: int) -> Found:
    return asyncio.run(asyncio.wait_for(_by_aiokafka(servers, topic, offset, end), SECONDS_MAX))


async def _by_aiokafka(servers: str, topic: str, offset: int, end: int) -> Found:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False)
    partition = TopicPartition(topic, 0)
    found: Found = []
    consumer.assign([partition])
    await consumer.start()
    try:
        consumer.seek(partition, offset)
        for _ in range(POLLS_MAX):
            if await consumer.position(partition) >= end:
                return found
            found += _rows((await consumer.getmany(timeout_ms=1000)).values())
        raise AssertionError(f"position {await consumer.position(partition)} of {end}")
    finally:
        await consumer.stop()


def _rows(polled: Iterable[Any]) -> Found:
    return [_row(record.offset, record.key, record.value) for records in polled for record in records]


def _row(offset: int, key: bytes | None, value: bytes | None) -> tuple[int, str | None, str | None]:
    return offset, key and key.hex(), value and value.hex()


CLIENTS: dict[str, Consume] = {
    "aiokafka": by_aiokafka,
    "confluent": by_confluent,
    "kafka-python": by_kafka_python,
}


def main() -> None:
    client, servers, topic, end, *offsets = sys.argv[1:]
    found = {offset: CLIENTS[client](servers, topic, int(offset), int(end)) for offset in offsets}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
