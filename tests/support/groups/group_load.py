"""What a test does to a group beside its members: it produces, and watches what the group has committed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from support.groups.reading_members import QUIET

TOPIC, GROUP, PARTITIONS, SECONDS = "t", "g", 6, 60


class Load:
    """Produces without end, and looks at the committed offsets. ``went_back``: (partition, before, after).
    ``kinds``: the types that the group has had, one after the other."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, **QUIET})
        self._admin = AdminClient({"bootstrap.servers": servers, **QUIET})
        self.produced = 0
        self.offsets: dict[int, int] = {}
        self.went_back: list[tuple[int, int, int]] = []
        self.kinds: list[str] = []
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._produce, self._watch)]

    @contextmanager
    def running(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._ends.set()
            for thread in self._threads:
                thread.join(SECONDS)

    def _produce(self) -> None:
        while not self._ends.wait(0.01):
            for _ in range(5):
                self._producer.produce(TOPIC, b"%d" % self.produced, partition=self.produced % PARTITIONS)
                self.produced += 1
            self._producer.poll(0)
        assert self._producer.flush(SECONDS) == 0

    def _watch(self) -> None:
        while not self._ends.wait(0.1):
            self.look()
            listed = self._admin.list_consumer_groups().result(SECONDS).valid or []
            self.kinds += [each.type.name for each in listed if [each.type.name] != self.kinds[-1:]]

    def look(self) -> None:
        (future,) = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)]).values()
        try:
            found = future.result(SECONDS).topic_partitions
        except KafkaException:
            return
        for each in found:
            before = self.offsets.get(each.partition, each.offset)
            if each.offset < before:
                self.went_back.append((each.partition, before, each.offset))
            self.offsets[each.partition] = each.offset

    @property
    def everything(self) -> set[tuple[int, int]]:
        """All records: (partition, offset)."""
        return {(number % PARTITIONS, number // PARTITIONS) for number in range(self.produced)}
