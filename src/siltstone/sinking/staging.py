"""A task writes its record batches into the bucket for the driver, as parts: a part is a run of batches of one
partition.

The task keeps up to STAGED_BYTES in memory, then writes an object with a part for each partition. A task with few rows
writes no object: its report carries the bytes, and the driver puts those of all tasks into the manifest. A staged
object has a random name, because two attempts of a task may run at once; the driver uses the parts of the attempt whose
report Spark accepted.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from siltstone.model.limits import KIB, MIB
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random, random_token
from siltstone.sinking.encoding import PartitionKey, RowEncoder
from siltstone.sinking.failures import SinkRefused
from siltstone.sinking.plan import SinkPlan, TopicPlace

STAGED_BYTES = 64 * MIB
"""A task holds at most so many bytes in memory; and so the driver, which reads a part at once."""

INLINE_BYTES_MAX = 64 * KIB
"""A task that has staged no more than this returns the bytes in its report: the driver holds as much for every task."""

REPORT_VERSION = 1


class StagedPart(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Record batches of one partition: ``size_bytes`` from ``position`` on, of the object ``key``; an empty ``key``
    means that the bytes are in the report, or in the manifest."""

    topic: str
    topic_id: str
    partition: int
    stream_id: int
    key: str
    position: int
    size_bytes: int
    record_count: int


class TaskReport(msgspec.Struct, frozen=True, array_like=True):
    """What one task has staged. ``task_number`` orders the tasks' parts."""

    version: int
    task_number: int
    query_id: str
    staged_ms: int
    parts: tuple[StagedPart, ...]
    inline: bytes = b""


def stage_rows(
    plan: SinkPlan,
    rows: Iterable[Any],
    *,
    folder: str,
    task_number: int,
    query_id: str,
    clock: Clock,
    rng: Random,
    held_bytes_max: int = STAGED_BYTES,
    inline_bytes_max: int = INLINE_BYTES_MAX,
) -> TaskReport:
    """Encodes pyarrow.RecordBatches and stages them below ``folder``. Raises RowRefused, and what the bucket raises."""
    staged_ms = clock.now_ms()
    staging = _Staging(plan, f"{folder}{task_number}-{random_token(rng)}")
    encoder = RowEncoder(plan, task_number, staged_ms, staging.add)
    for batch in rows:
        encoder.add_all(batch)
        if encoder.open_bytes + staging.size_bytes > held_bytes_max:
            encoder.seal_all()
            staging.write()
    encoder.seal_all()
    inline = staging.finish(inline_bytes_max)
    return TaskReport(REPORT_VERSION, task_number, query_id, staged_ms, tuple(staging.parts), inline)


def encode_report(report: TaskReport) -> bytes:
    return msgspec.msgpack.encode(report)


def decode_report(data: bytes) -> TaskReport:
    """Raises SinkRefused for a report of another version."""
    fields = msgspec.msgpack.decode(data)
    if fields[0] != REPORT_VERSION:
        raise SinkRefused("an executor runs another version of siltstone: install one version everywhere")
    return msgspec.convert(fields, TaskReport)


class _Staging:
    """Record batches of a task that are not written yet, by partition."""

    def __init__(self, plan: SinkPlan, name: str) -> None:
        self._plan = plan
        self._name = name
        self._written = 0
        self._held: dict[PartitionKey, tuple[TopicPlace, list[bytearray], int]] = {}
        self.size_bytes = 0
        self.parts: list[StagedPart] = []

    def add(self, place: TopicPlace, partition: int, data: bytearray, count: int) -> None:
        _, batches, before = self._held.get((place.name, partition), (place, [], 0))
        batches.append(data)
        self._held[place.name, partition] = place, batches, before + count
        self.size_bytes += len(data)

    def write(self) -> None:
        """Writes what is held as one object."""
        if not self._held:
            return
        key = f"{self._name}-{self._written}"
        self._written += 1
        store_at(self._plan.bucket_url).put_if_absent(key, self._take(key))

    def finish(self, inline_bytes_max: int) -> bytes:
        """Writes the rest, or returns it if the task has staged little."""
        if self.parts or self.size_bytes > inline_bytes_max:
            self.write()
            return b""
        return b"".join(self._take(""))

    def _take(self, key: str) -> list[bytearray]:
        buffers: list[bytearray] = []
        position = 0
        for (_, partition), (place, batches, count) in sorted(self._held.items(), key=lambda each: each[0]):
            size = sum(map(len, batches))
            stream_id = place.stream_ids[partition]
            self.parts.append(
                StagedPart(place.name, place.topic_id, partition, stream_id, key, position, size, count)
            )
            buffers += batches
            position += size
        self._held.clear()
        self.size_bytes = 0
        return buffers
