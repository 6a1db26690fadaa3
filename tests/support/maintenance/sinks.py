"""Does with a sink what Spark does, without Spark: a plan, tasks that stage rows, a driver that commits and may die."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from siltstone.metadata.sinks import STAGING_PREFIX, SinkBatch, SinkState, batch_folder, sink_of
from siltstone.offline.context import MaintenanceContext
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness
from siltstone.scanning.source import open_source
from siltstone.sinking.batch import SinkDriver
from siltstone.sinking.plan import SinkPlan, decode_plan, encode_plan, plan_sink
from siltstone.sinking.staging import TaskReport, decode_report, encode_report, stage_rows
from support.kafka.quiet_client import QUIET

STEPS = {
    "relay": ("before", "staged", "intent", "relaying", "relayed", "done"),
    "transaction": ("before", "staged", "intent", "relaying", "sent", "relayed", "done"),
    "objects": ("before", "staged", "intent", "prepared", "copied", "done"),
}
"""Mode of a sink → the steps of a commit, at which drivers and brokers are killed."""

COLUMNS = [("key", "binary"), ("value", "binary")]


class Killed(BaseException):
    """The driver's process ends here."""


def create(address: str, name: str, partitions: int = 1, **config: str) -> str:
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    admin.create_topics([NewTopic(name, partitions, config=config)])[name].result(60)
    return name


def consumed(address: str, topic: str, partitions: int = 1) -> list[Any]:
    """Returns all committed messages of the topic, partition after partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": address, "group.id": "sinking", "enable.auto.commit": False,
            "enable.partition.eof": True, **QUIET,
        }
    )  # fmt: skip
    left = set(range(partitions))
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in left])
    found = []
    while left:
        message = consumer.poll(60)
        assert message is not None
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            left.discard(message.partition())
        elif message.partition() in left:  # the others are read to their ends
            found.append(message)
    found.sort(key=lambda message: (message.partition(), message.offset()))
    consumer.close()
    return found


def values(address: str, topic: str, partitions: int = 1) -> list[bytes]:
    return sorted(
        (message.value() for message in consumed(address, topic, partitions)), key=lambda value: value or b""
    )


def rows_of(first: int, count: int) -> Any:
    numbers = range(first, first + count)
    return pa.record_batch(
        {"key": [b"key-%d" % (n % 7) for n in numbers], "value": [b"value-%06d" % n for n in numbers]}
    )


class Sink:
    """Does what Spark does with a sink: it plans, runs tasks that stage rows, and commits once in the driver."""

    def __init__(
        self,
        store: Path,
        topic: str | None,
        name: str = "out",
        columns: Sequence[Any] = COLUMNS,
        mode: str | None = None,
    ) -> None:
        self.store, self.topic, self.name, self.columns, self.mode = store, topic, name, columns, mode
        self.query = "query"
        self._plan = b""

    @contextmanager
    def opened(self, *, plans: bool = False) -> Iterator[tuple[MaintenanceContext, SinkPlan]]:
        with open_source(self.store) as source:
            if plans or not self._plan:
                self._plan = encode_plan(plan_sink(source, self.columns, self.topic, None))
            yield source, decode_plan(self._plan)

    def stage(self, batch_id: int, *tasks: Any, **limits: int) -> list[TaskReport]:
        with self.opened(plans=True) as (_, plan):
            return [
                decode_report(
                    encode_report(
                        stage_rows(
                            plan, [rows], folder=batch_folder(self.name, batch_id), task_number=number,
                            query_id=self.query, clock=SystemClock(), rng=system_randomness(), **limits,
                        )
                    )
                )
                for number, rows in enumerate(tasks)
            ]  # fmt: skip

    def commit(
        self,
        batch_id: int,
        reports: list[TaskReport],
        killed_at: str | None = None,
        on_step: Callable[[str], None] = lambda _: None,
        **given: Any,
    ) -> None:
        def step(name: str) -> None:
            if name == killed_at:
                raise Killed
            on_step(name)

        with self.opened() as (source, plan):
            driver = SinkDriver(source, plan, self.name, on_step=step, mode=self.mode, **given)
            driver.commit(self.query, batch_id, reports)

    def write(self, batch_id: int, *tasks: Any, killed_at: str | None = None) -> None:
        self.commit(batch_id, self.stage(batch_id, *tasks), killed_at)

    def standing(self) -> SinkBatch | None:
        with open_source(self.store) as source:
            return sink_of(source.metadata.image, self.name)

    def state(self) -> SinkState | None:
        found = self.standing()
        return None if found is None else found.state

    def staged(self) -> list[str]:
        with open_source(self.store) as source:
            return [each.key for each in source.buckets.store(0).list(f"{STAGING_PREFIX}{self.name}/")]
